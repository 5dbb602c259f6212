#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job, measured: two processes on this machine, UCX, memory to memory, WRITE then READ, 4 KiB to 64 MiB, every
# byte checked. Builds first; arguments go to nixlbench.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
scripts/build.sh build || exit 1
for op in WRITE READ; do
    build/tools/nixlbench/nixlbench --backend UCX --initiator_seg_type DRAM --target_seg_type DRAM --op_type $op \
        --start_block_size 4096 --max_block_size 67108864 --check_consistency "$@" || exit
    [ $op = READ ] || echo
done
