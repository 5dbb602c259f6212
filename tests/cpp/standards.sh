#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The headers of the C++ interface, alone and twice, and each program that uses them, as C++17, 20 and 23, by gcc and by
# clang, with all warnings as errors; and C that includes the C++ header is told what to include instead.
set -u
source=$NIXL_TEST_SOURCE
include=$source/bindings/cpp/include
number=0
rc=0

verdict() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        echo "$output" | sed 's/^/# /'
        rc=1
    fi
}

headers=$(cd "$include" && find . -name '*.h' | sed 's,^\./,,' | sort)
programs="$source/tests/cpp/test_types.cpp $source/tests/cpp/test_agent.cpp $(ls "$source"/examples/cpp/*.cpp)"
echo '1..7'
for compiler in g++ clang++; do
    for standard in 17 20 2b; do
        if ! command -v $compiler >/dev/null 2>&1; then
            number=$((number + 1))
            echo "ok $number - C++$standard by $compiler # SKIP there is no $compiler"
            continue
        fi
        output=$(
            flags="-std=c++$standard -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror -I$include -I$source/include"
            strict="$flags -Wconversion -Wsign-conversion -Wold-style-cast"
            if [ $standard = 17 ]; then
                for header in $headers; do
                    # shellcheck disable=SC2086  # flags are words
                    echo "#include \"$header\"" | $compiler -x c++ $strict - 2>&1 || echo "$header alone fails"
                done
            fi
            # shellcheck disable=SC2086
            for header in $headers $headers; do echo "#include \"$header\""; done | $compiler -x c++ $strict - 2>&1
            for program in $programs; do
                # shellcheck disable=SC2086
                $compiler $flags -Wno-unused-parameter "$program" 2>&1 || echo "$program fails"
            done
        )
        [ -z "$output" ]
        verdict "headers and programs as C++$standard by $compiler" $?
    done
done
output=$(echo '#include "nixl_types.h"' | cc -x c -fsyntax-only -I"$include" -I"$source/include" - 2>&1)
echo "$output" | grep -q 'C programs include <nixl/nixl.h>'
verdict 'a C program is told which header is its own' $?
exit $rc
