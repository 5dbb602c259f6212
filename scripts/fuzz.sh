#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang and runs each for a while:  scripts/fuzz.sh [SECONDS (20)] [target...]
# Starts from the seeds in tests/fuzz/corpus; what it finds stays in build/fuzz/corpus for the next run, and an input that
# fails in build/fuzz/findings. Prints the lines that each target reached of the files it must cover; below 90 % is
# a failure. Ends with "N passed, N failed": one case a target for its run, one for its lines.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
seconds=${1:-20}
[ $# -gt 0 ] && shift
dir=build/fuzz
least=90

if ! CC=clang CXX=clang++ scripts/build.sh $dir -Ddebug=true -Doptimization=1 -Dwerror=false -Dfuzzers=true \
    -Db_lundef=false -- fuzzers; then
    echo "failed: the build of the fuzz targets"
    echo "0 passed, 1 failed"
    exit 1
fi

passed=0
failed=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
mkdir -p $dir/findings
while read -r name covers; do
    [ -n "$name" ] || continue
    if [ $# -gt 0 ]; then
        case " $* " in *" $name "*) ;; *) continue ;; esac
    fi
    program=$dir/tests/fuzz/fuzz-$name
    corpus=$dir/corpus/$name
    mkdir -p "$corpus"
    rm -f "$dir/$name.profraw"
    seeds=tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=
    # shellcheck disable=SC2086  # seeds may be no word
    if LLVM_PROFILE_FILE=$dir/$name.profraw timeout $((seconds + 120)) "$program" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=$dir/findings/ "$corpus" $seeds \
        >"$dir/$name.log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$name.log" | tail -1) inputs in $seconds s"
    else
        failed=$((failed + 1))
        tail -60 "$dir/$name.log"
        echo "failed: fuzz $name (inputs that fail are in $dir/findings)"
    fi
    if [ -n "$covers" ]; then
        # shellcheck disable=SC2086  # covers is a list of files
        if llvm-profdata merge -sparse "$dir/$name.profraw" -o "$dir/$name.profdata" &&
            llvm-cov export -summary-only "$program" -instr-profile="$dir/$name.profdata" $covers |
            python3 scripts/fuzz_lines.py "$name" $least $covers; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "failed: fuzz $name: lines"
        fi
    fi
done <$dir/tests/fuzz/targets.txt
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
