#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares what libnixl and libnixl_capi offer to programs with the last tag's: a program built against that one must run
# with this one. Builds both with debug information under build/abi and asks abidiff (libabigail).
# One case a library: "N passed, N failed[, N skipped]" in the last line; skipped without a tag or without abidiff.
#   ABI_BASE=REVISION scripts/abidiff.sh     against another revision
set -u
cd "$(dirname "$0")/.." || exit 1

skip() {
    echo "skipped: $1"
    echo '0 passed, 0 failed, 2 skipped'
    exit 0
}

command -v abidiff >/dev/null 2>&1 || skip 'there is no abidiff (Debian: abigail-tools)'
base=${ABI_BASE:-$(git describe --tags --abbrev=0 2>/dev/null)}
[ -n "$base" ] || skip 'there is no tag to compare with'
git cat-file -e "$base^{commit}" 2>/dev/null || {
    echo "failed: there is no revision $base"
    echo '0 passed, 1 failed'
    exit 1
}

options='-Dbuildtype=debugoptimized -Dbuild_tests=false -Dpython=disabled'
rm -rf build/abi/source
mkdir -p build/abi/source
git archive "$base" | tar -x -C build/abi/source
# Options that the older tree does not know are left out.
old_options=
for option in $options; do
    name=${option#-D}
    name=${name%%=*}
    if [ "$name" = buildtype ] || grep -q "option('$name'" build/abi/source/meson_options.txt 2>/dev/null; then
        old_options="$old_options $option"
    fi
done
rm -rf build/abi/old
# shellcheck disable=SC2086  # options are words
if ! { meson setup build/abi/old build/abi/source $old_options && ninja -C build/abi/old; } >build/abi/old.log 2>&1; then
    tail -20 build/abi/old.log
    echo "failed: $base cannot be built"
    echo '0 passed, 1 failed'
    exit 1
fi
# shellcheck disable=SC2086
scripts/build.sh build/abi/new $options || { echo '0 passed, 1 failed'; exit 1; }

passed=0 failed=0 skipped=0
compare() {
    local title=$1 path=$2 old_headers=$3 new_headers=$4 rc
    if [ ! -e "build/abi/old/$path" ]; then
        echo "skipped: $base has no $title"
        skipped=$((skipped + 1))
        return
    fi
    # Additions are welcome; what is gone or has another form is not.
    abidiff --no-added-syms --suppressions scripts/abidiff.suppr --headers-dir1 "$old_headers" --headers-dir2 "$new_headers" --drop-private-types \
        "build/abi/old/$path" "build/abi/new/$path" >build/abi/report 2>&1
    rc=$?
    if [ $rc = 0 ]; then
        echo "passed: $title serves programs made with $base"
        passed=$((passed + 1))
    else
        cat build/abi/report
        echo "failed: $title does not serve programs made with $base"
        failed=$((failed + 1))
    fi
}
compare libnixl libnixl.so build/abi/source/include include
compare libnixl_capi bindings/capi/libnixl_capi.so build/abi/source/bindings/capi/include bindings/capi/include
if [ $skipped = 0 ]; then
    echo "$passed passed, $failed failed"
else
    echo "$passed passed, $failed failed, $skipped skipped"
fi
[ $failed = 0 ]
