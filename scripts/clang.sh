#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the whole tree with clang, warnings being errors as with gcc. One case: "1 passed, 0 failed" when it builds.
cd "$(dirname "$0")/.." || exit 1
if CC=clang CXX=clang++ scripts/build.sh build/clang -Dbuildtype=debug; then
    echo "1 passed, 0 failed"
else
    echo "failed: the build with clang"
    echo "0 passed, 1 failed"
    exit 1
fi
