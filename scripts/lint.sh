#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) and cppcheck over src/: nothing to say is what is wanted. Bounded in time. "N passed, N failed[, N
# skipped]" in the last line.
#   scripts/lint.sh [FILES...]     clang-tidy over these only
set -u
cd "$(dirname "$0")/.." || exit 1
dir=build
scripts/build.sh $dir || { echo '0 passed, 1 failed'; exit 1; }
passed=0 failed=0 skipped=0
verdict() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "passed: $1"
    else
        failed=$((failed + 1))
        echo "failed: $1"
        sed 's/^/    /' "$log"
    fi
}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

if command -v cppcheck >/dev/null 2>&1; then
    # Not seen by it: that a pointer to a pointer is copied by memcpy (array.h); that what grew is kept in the index, and
    # that a place is within the chunk (regions.c).
    timeout 300 cppcheck --enable=warning,performance,portability --error-exitcode=1 --quiet -j "$(nproc)" --std=c11 \
        -Iinclude -Isrc -D_GNU_SOURCE -DHAVE_LIBURING '-DNIXL_VERSION_TEXT=""' --max-configs=1 \
        --suppress=missingIncludeSystem --suppress=memleakOnRealloc:src/base/array.h \
        --suppress=memleak:src/agent/regions.c --suppress=arrayIndexOutOfBoundsCond:src/agent/regions.c \
        src >"$log" 2>&1
    verdict 'cppcheck finds nothing in src/' $?
else
    skipped=$((skipped + 1))
    echo 'skipped: there is no cppcheck (Debian: cppcheck)'
fi
if command -v clang-tidy >/dev/null 2>&1; then
    # What is built of src/, each file once, as the library has it: without the guards against faults taken out.
    mkdir -p $dir/lint
    python3 - $dir/compile_commands.json $dir/lint/compile_commands.json >"$log" <<'PYTHON'
import json, os, sys
once = {}
for entry in json.load(open(sys.argv[1])):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    if path.startswith("src/") and path.endswith(".c") and "-DBREAK_" not in entry["command"]:
        once.setdefault(path, entry)
json.dump(list(once.values()), open(sys.argv[2], "w"))
print("\n".join(sorted(once)))
PYTHON
    files=${*:-$(cat "$log")}
    # shellcheck disable=SC2086  # names without blanks
    printf '%s\n' $files | timeout 1200 xargs -P "$(nproc)" -n 4 clang-tidy -p $dir/lint --quiet >"$log" 2>/dev/null
    verdict "clang-tidy finds nothing in $(echo "$files" | wc -w) files" $?
else
    skipped=$((skipped + 1))
    echo 'skipped: there is no clang-tidy (Debian: clang-tidy)'
fi
if [ $skipped = 0 ]; then
    echo "$passed passed, $failed failed"
else
    echo "$passed passed, $failed failed, $skipped skipped"
fi
[ $failed = 0 ]
