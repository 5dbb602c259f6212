#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches what the Python tests and benchmarks import (pytest, hypothesis, numpy, mypy; the rest by name) into
# build/python-deps/<version> with pip, for the python3 that calls it, and prints that folder: give it as PYTHONPATH.
#   scripts/python-deps.sh [PYTHON] [--cached]
# Fails with a sentence on stderr when they cannot be had; --cached looks only at what is already there.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
python=python3
cached=
for arg in "$@"; do
    case $arg in
    --cached) cached=1 ;;
    *) python=$arg ;;
    esac
done
wanted='pytest==8.3.4 hypothesis==6.122.3 numpy==2.2.1 mypy==1.14.0'
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || exit 1
dir=$root/build/python-deps/$version
if [ "$(cat "$dir/.wanted" 2>/dev/null)" = "$wanted" ]; then
    echo "$dir"
    exit 0
fi
if [ -n "$cached" ]; then
    echo "pytest and the rest are not in build/python-deps/$version (scripts/python-deps.sh fetches them)" >&2
    exit 1
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
    echo "pytest cannot be fetched: $python has no pip (Debian: python3-pip)" >&2
    exit 1
fi
mkdir -p "$root/build/python-deps"
if command -v flock >/dev/null 2>&1; then
    # One at a time: tests that run side by side all ask.
    exec 9>"$root/build/python-deps/.lock"
    flock 9
    if [ "$(cat "$dir/.wanted" 2>/dev/null)" = "$wanted" ]; then
        echo "$dir"
        exit 0
    fi
fi
tmp=$root/build/python-deps/tmp.$$
log=$tmp.log
trap 'rm -rf "$tmp" "$log"' EXIT
# shellcheck disable=SC2086  # the packages are words
if ! timeout 240 "$python" -m pip install --quiet --no-input --retries 2 --disable-pip-version-check \
        --no-warn-script-location --only-binary :all: --target "$tmp" $wanted >"$log" 2>&1 </dev/null; then
    echo "pytest cannot be fetched: $(grep -v '^$' "$log" | tail -1)" >&2
    exit 1
fi
echo "$wanted" >"$tmp/.wanted"
rm -rf "$dir"
mv "$tmp" "$dir" || exit 1
echo "$dir"
