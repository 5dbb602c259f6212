#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fails.sh PROGRAM TEST...: a program that was built without a guard fails in each of these tests, by an assertion or a
# sanitizer's report, not by hanging or by not starting at all.
set -u
program=$1
shift
# Reports come at once and are the failure; what a test that was left half way has not freed is none.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0:abort_on_error=0:exitcode=99"
rc=0
number=0
echo "1..$#"
for test in "$@"; do
    number=$((number + 1))
    # A race may be won by luck: it has to be lost once in a few runs.
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        output=$(FAULT_TEST=$test timeout 40 "$program" 2>&1 </dev/null)
        status=$?
        [ "$status" -eq 0 ] || break
    done
    why=$(printf '%s\n' "$output" |
        grep -m 1 -e "^not ok [0-9]* - $test\$" -e 'ERROR: AddressSanitizer' -e 'WARNING: ThreadSanitizer' -e 'runtime error:')
    if [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ -n "$why" ]; then
        echo "ok $number - without its guard fails $test"
        echo "# $why"
    else
        echo "not ok $number - without its guard fails $test"
        echo "# exit status $status"
        printf '%s\n' "$output" | sed 's/^/# /'
        rc=1
    fi
done
exit $rc
