#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the test suite:  scripts/test.sh [meson test arguments...]
#   SANITIZE   none (default), address, undefined, address,undefined or thread: a build of its own under build/
#   NIXL_TEST_UCX122   folder of UCX 1.22's libucp.so.0; fetched into build/ucx122 when unset, and the tests that need
#                      it are skipped when that fails
# Ends with "N passed, N failed[, N skipped]" over all test cases. Exit status 0 only if none failed and some passed.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
sanitize=${SANITIZE:-none}
suites=
wrap=
slower=1
case $sanitize in
none | '')
    sanitize=none
    dir=build
    options=
    ;;
address | undefined | address,undefined)
    dir=build/$(echo "$sanitize" | tr , -)
    suites='--suite asan'
    slower=3
    ;;
thread)
    dir=build/thread
    suites='--suite tsan'
    slower=5
    # TSan wants the memory layout it knows: without address randomization where that may be asked for.
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        wrap="setarch $(uname -m) -R"
    fi
    ;;
*)
    echo "SANITIZE=$sanitize: expected address, undefined, address,undefined or thread" >&2
    exit 2
    ;;
esac
if [ "$sanitize" != none ]; then
    # gcc's warnings are less exact under sanitizers; the plain build keeps them errors.
    options="-Ddebug=true -Doptimization=1 -Dwerror=false -Dsanitizer=$sanitize"
fi

# shellcheck disable=SC2086
if ! scripts/build.sh "$dir" $options; then
    echo "failed: the build of $dir"
    echo "0 passed, 1 failed"
    exit 1
fi

if [ -z "${NIXL_TEST_UCX122:-}" ] && NIXL_TEST_UCX122=$(scripts/ucx122.sh); then
    export NIXL_TEST_UCX122
fi
# What the Python tests import; without it they are skipped.
scripts/python-deps.sh >/dev/null
supp=$root/tests/support
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:abort_on_error=0}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$supp/lsan.supp:print_suppressions=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-suppressions=$supp/tsan.supp:halt_on_error=0:exitcode=66:second_deadlock_stack=1}"

rm -f "$dir/meson-logs/testlog.json"
# shellcheck disable=SC2086
$wrap meson test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier "$slower" $suites "$@" </dev/null
if [ ! -s "$dir/meson-logs/testlog.json" ]; then
    echo "failed: no test was run"
    echo "0 passed, 1 failed"
    exit 1
fi

# What failed beside other tests is run once more, alone: a bound on a time can be missed because a neighbour took the
# processor. The count says which ones needed that. Many failures are no matter of neighbours.
log=$dir/meson-logs/testlog.json
names=$(python3 scripts/count_tests.py --failed "$log")
count=$(echo "$names" | wc -w)
if [ "$count" -ge 1 ] && [ "$count" -le 6 ]; then
    cp "$log" "$dir/meson-logs/first.json"
    # shellcheck disable=SC2086
    $wrap meson test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier "$slower" --num-processes 1 $names </dev/null
    python3 scripts/count_tests.py --again "$log" "$dir/meson-logs/first.json"
else
    python3 scripts/count_tests.py "$log"
fi
