#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The C program of README is examples/c/first.c to the letter, and what is built of it moves its buffer.
set -u
readme=$NIXL_TEST_SOURCE/README.md
source=$NIXL_TEST_SOURCE/examples/c/first.c
rc=0
echo '1..3'
if difference=$(awk '/^```c$/ { on = 1; next } /^```$/ { if (on) exit } on' "$readme" | diff - "$source" 2>&1); then
    echo 'ok 1 - the program in README is examples/c/first.c'
else
    echo 'not ok 1 - the program in README is examples/c/first.c'
    echo "$difference" | sed 's/^/# /'
    rc=1
fi
output=$(timeout 30 "$NIXL_TEST_BUILD/examples/c/first" 2>&1)
status=$?
case $status:$output in
0:'right has "Hello from the left", carried by UCX'*)
    echo 'ok 2 - it moves its buffer'
    ;;
*)
    echo 'not ok 2 - it moves its buffer'
    echo "# exit status $status: $output"
    rc=1
    ;;
esac
# shellcheck disable=SC2016  # the backquotes are README's
in_readme=$(awk '/^These functions are declared/ { on = 1 } /^$/ { on = 0 } on' "$readme" | grep -o '`nixl_[a-z_]*`' | tr -d '`' | sort)
in_test=$(grep -o '^ *{"nixl_[a-z_]*"' "$NIXL_TEST_SOURCE/tests/project/not_yet.c" | grep -o 'nixl_[a-z_]*' | sort)
if [ -n "$in_readme" ] && [ "$in_readme" = "$in_test" ]; then
    echo 'ok 3 - the functions that it says are not there yet are those that are tested to be so'
else
    echo 'not ok 3 - the functions that it says are not there yet are those that are tested to be so'
    echo "# in README: $(echo "$in_readme" | tr '\n' ' ')"
    echo "# tested:    $(echo "$in_test" | tr '\n' ' ')"
    rc=1
fi
exit $rc
