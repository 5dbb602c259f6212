#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each trap of tests/traps.md has its row, and each test named there exists in its file and is run: a C test is defined and
# stands in its program's list, a Python test is defined at the left margin.
set -u
cd "$NIXL_TEST_SOURCE/tests" || exit 1
traps='T2 T3 T4 T5 T7 T8 T9 T10 T11 T16 T18 T19 T20 T21 T22 T23'
rc=0
number=0
verdict() {
    number=$((number + 1))
    if [ -z "$2" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        echo "$2" | sed 's/^/# /'
        rc=1
    fi
}

# Lines of text on stdin -> "file test", a line each. What stands in backquotes is a file (it has a slash) or a test of
# the file before it.
named() {
    grep -o '`[^`]*`' | tr -d '`' | awk '/\// { file = $0; next } file != "" { print file, $0 }'
}

# "file test" lines -> what is wrong with them.
wrong() {
    while read -r file test; do
        [ -f "$file" ] || { echo "$file is not there"; continue; }
        case $file in
        *.c)
            grep -q "^static void $test(void \*\*" "$file" || echo "$file has no test $test"
            grep -Eq "^ +[A-Za-z_]+\($test[,)]" "$file" || echo "$file does not run $test"
            ;;
        *.py)
            grep -q "^def $test(" "$file" || echo "$file has no test $test"
            ;;
        *) echo "$file is of no known kind" ;;
        esac
    done
}

# shellcheck disable=SC2086  # words
set -- $traps
echo "1..$(($# + 2))"
for trap in "$@"; do
    tests=$(awk -F'|' -v trap="$trap" '$2 == " " trap " " { print $4 }' traps.md | named)
    verdict "$trap is pinned by $(printf '%s' "$tests" | grep -c '') tests" \
        "$([ -n "$tests" ] || echo 'no row, or no test in it'; [ -z "$tests" ] || echo "$tests" | wrong)"
done
verdict 'no trap has two rows and none is unknown' \
    "$(sed -n 's/^| \(T[0-9]*\) .*/\1/p' traps.md | sort -V | tr '\n' ' ' | grep -vxF "$traps ")"
rest=$(grep -v '^|' traps.md | tr '\n' ' ' | grep -o '`unit/[^)]*' | named)
verdict 'tests named below the table exist' \
    "$([ -n "$rest" ] || echo 'there are none'; [ -z "$rest" ] || echo "$rest" | wrong)"
exit $rc
