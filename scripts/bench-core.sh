#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Costs of single calls with the no-op backend, one line a row, also written as JSON:  scripts/bench-core.sh FILE [arguments]
# A row without a value makes it fail.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
json=${1:-$root/build/bench-core.json}
[ $# -gt 0 ] && shift
mkdir -p "$(dirname "$json")" || exit 1
exec "$root/build/bench/bench-core" --json "$json" "$@"
