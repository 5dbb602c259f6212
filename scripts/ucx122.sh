#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches UCX 1.22 (the PyPI package libucx-cu12) into build/ucx122 and prints the folder that holds libucp.so.0.
# The tests run over it besides the system's UCX: give it to them as NIXL_TEST_UCX122. Needs no CUDA.
# Fails with a sentence on stderr when the package cannot be had; --cached looks only at what is already there.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/build/ucx122
lib=$dir/libucx/lib

if [ -e "$lib/libucp.so.0" ]; then
    echo "$lib"
    exit 0
fi
if [ "${1:-}" = --cached ]; then
    echo "UCX 1.22 is not in build/ucx122 (scripts/ucx122.sh fetches it)" >&2
    exit 1
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "UCX 1.22 cannot be fetched: python3 has no pip (Debian: python3-pip)" >&2
    exit 1
fi

tmp=$root/build/ucx122.tmp.$$
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"
if ! timeout 180 python3 -m pip download --quiet --no-deps --no-input --retries 2 --only-binary :all: \
        --dest "$tmp" libucx-cu12==1.22.0 >"$tmp/log" 2>&1 </dev/null; then
    echo "UCX 1.22 cannot be fetched: $(grep -v '^$' "$tmp/log" | tail -1)" >&2
    exit 1
fi
python3 - "$tmp" <<'PYTHON' || exit 1
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
wanted = [n for n in wheel.namelist()
          if n.startswith("libucx/lib/") and n.endswith(".so.0") and "perftest" not in n
          or n.startswith("libucx/include/uc") or n.startswith("libucx/etc/") or "/licenses/" in n]
wheel.extractall(sys.argv[1] + "/tree", wanted)
PYTHON
rm -rf "$dir"
mv "$tmp/tree" "$dir" || exit 1
echo "$lib"
