#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header, alone and twice, as C11 and as C++17, by gcc and by clang, with all warnings as errors.
set -u
include=$NIXL_TEST_SOURCE/include
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
number=0
rc=0

compile() {
    number=$((number + 1))
    compiler=$1 language=$2 standard=$3 header=$4
    if ! command -v "$compiler" >/dev/null 2>&1; then
        echo "ok $number - $header as $standard by $compiler # SKIP there is no $compiler"
        return
    fi
    # shellcheck disable=SC2086  # warnings are words
    if output=$(printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$header" "$header" |
        "$compiler" -x "$language" -std="$standard" $warnings -I"$include" -fsyntax-only - 2>&1); then
        echo "ok $number - $header as $standard by $compiler"
    else
        echo "not ok $number - $header as $standard by $compiler"
        echo "$output" | sed 's/^/# /'
        rc=1
    fi
}

headers=$(cd "$include" && ls nixl/*.h)
echo "1..$(($(echo "$headers" | wc -l) * 4))"
for header in $headers; do
    compile gcc c c11 "$header"
    compile clang c c11 "$header"
    compile g++ c++ c++17 "$header"
    compile clang++ c++ c++17 "$header"
done
exit $rc
