#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats every C and C++ file of the tree; --check only names those that differ and ends with
# "1 passed, 0 failed" or "0 passed, 1 failed".
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
files=$(find include src bindings plugins tools bench examples tests \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) -type f | sort)
if [ "${1:-}" != --check ]; then
    # shellcheck disable=SC2086  # names without blanks, by convention of the tree
    exec clang-format -i $files
fi
wrong=0
for file in $files; do
    if [ -e "$file" ] && ! clang-format --dry-run -Werror "$file" >/dev/null 2>&1; then
        wrong=$((wrong + 1))
        echo "failed: format of $file"
    fi
done
if [ "$wrong" = 0 ] && [ -n "$files" ]; then
    echo "1 passed, 0 failed"
else
    echo "make format puts them right."
    echo "0 passed, 1 failed"
    exit 1
fi
