#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Costs of calls from Python, beside the reference's where NIXL_TEST_REFERENCE_PYTHON names an interpreter that has it:
#   scripts/bench-python.sh JSONFILE [arguments of bench/python/bench.py]
# Over UCX 1.22 where it can be had: the version that the reference speaks.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
json=$1
shift
build=$root/build
if [ ! -e "$build/bindings/python/nixl/_bindings.abi3.so" ]; then
    echo 'The Python binding is not built: Python.h of 3.11 or later is missing (Debian: python3-dev).' >&2
    exit 1
fi
deps=$("$root/scripts/python-deps.sh") || exit 1
if [ -z "${NIXL_UCX_PATH:-}" ] && ucx=$("$root/scripts/ucx122.sh"); then
    export NIXL_UCX_PATH="$ucx"
fi
export PYTHONPATH="$build/bindings/python:$deps${PYTHONPATH:+:$PYTHONPATH}" NIXL_PLUGIN_DIR="$build/plugins"
exec python3 "$root/bench/python/bench.py" --json "$json" "$@"
