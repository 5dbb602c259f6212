#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libnixl with its backends inside (static_plugins) and runs a program with it where no plugin is to be found.
# "N passed, N failed" in the last line.
set -u
cd "$(dirname "$0")/.." || exit 1
dir=build/static
scripts/build.sh $dir -Dbuild_tests=false -Dpython=disabled -Dstatic_plugins=UCX,POSIX -- all examples/c/first ||
    { echo 'failed: the build with static_plugins'; echo '0 passed, 1 failed'; exit 1; }
passed=0 failed=0
verdict() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "passed: $1"
    else
        failed=$((failed + 1))
        echo "failed: $1"
    fi
}
export NIXL_PLUGIN_DIR=$PWD/$dir/none
[ "$($dir/tools/nixl-info/nixl-info --brief | grep -c 'file *(static)')" = 2 ]
verdict 'both backends are part of libnixl' $?
$dir/examples/c/first | grep -q 'carried by UCX'
verdict 'a transfer works without any plugin' $?
[ -z "$(nm -D --defined-only $dir/libnixl.so | awk '$2 != "A" { print $3 }' | grep -v '^nixl_')" ] &&
    ! nm -D --defined-only $dir/libnixl.so | grep -q backend_v1
verdict 'libnixl still shows nothing but nixl.h' $?
if meson setup $dir-refused -Dstatic_plugins=NONE >/dev/null 2>&1; then refused=1; else refused=0; fi
rm -rf $dir-refused
verdict 'a name that is no backend is refused' $refused
echo "$passed passed, $failed failed"
[ $failed = 0 ]
