#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the suite in a build with coverage counters and prints the line coverage of src/wire and src/agent. Less than 95 % of
# either is a failure.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
dir=build/coverage
scripts/build.sh $dir -Dbuildtype=debug -Dwerror=false -Db_coverage=true || exit 1
if [ -z "${NIXL_TEST_UCX122:-}" ] && NIXL_TEST_UCX122=$(scripts/ucx122.sh); then
    export NIXL_TEST_UCX122
fi
find $dir -name '*.gcda' -delete
meson test -C $dir --no-rebuild --timeout-multiplier 3 --no-suite project --no-suite headers --quiet </dev/null
rc=0
for folder in src/wire src/agent; do
    echo
    gcovr --root . --object-directory $dir --filter "$folder/" --exclude-unreachable-branches --print-summary \
        --fail-under-line 95 $dir >$dir/report || rc=1
    grep -v '^branches:' $dir/report | cut -c1-71
done
[ $rc = 0 ] || echo 'failed: less than 95 % of the lines of a folder are reached'
exit $rc
