#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The telemetry reader against files made by hand from the format: events in their order, also past the ring's end, each
# read once; files that lie about themselves are refused.      telemetry_reader.sh PROGRAM
set -u
reader=$(realpath "$1")
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
rc=0
number=0

verdict() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$tmp/log"
        rc=1
    fi
}

# make_ring FILE WRITE_POS READ_POS VERSION CAPACITY MASK: 4 events of type 0, 7, 6, 20 and value 1000 and up.
make_ring() {
    python3 - "$@" <<'PYTHON'
import struct, sys
path, write, read, version, capacity, mask = sys.argv[1], *map(int, sys.argv[2:])
with open(path, 'wb') as ring:
    ring.write(struct.pack('<QQiiQQ', write, read, version, version, capacity, mask))
    for index, kind in enumerate((0, 7, 6, 20)):
        ring.write(struct.pack('<IIQ', kind, 0, 1000 + index))
PYTHON
}

echo '1..6'
make_ring "$tmp/ring" 1 2 4 4 3
"$reader" "$tmp/ring" --once >"$tmp/log" 2>&1 && printf '%s\n' 'agent_xfer_time 1002' \
    'agent_telemetry_events_dropped 1003' 'agent_tx_bytes 1000' | cmp -s - "$tmp/log"
verdict 'events are read in order, past the end of the ring' $?
"$reader" "$tmp/ring" --once >"$tmp/log" 2>&1 && [ ! -s "$tmp/log" ]
verdict 'what was read is gone' $?
make_ring "$tmp/old" 1 0 3 4 3
! "$reader" "$tmp/old" --once >"$tmp/log" 2>&1 && grep -q 'version 3' "$tmp/log" && [ -e "$tmp/old" ]
verdict 'another version is refused in words, and the file stays' $?
make_ring "$tmp/lying" 1 0 4 4096 4095
! "$reader" "$tmp/lying" --once >"$tmp/log" 2>&1 && grep -q 'capacity' "$tmp/log"
verdict 'more capacity than file is refused' $?
head -c 20 "$tmp/ring" >"$tmp/short"
! "$reader" "$tmp/short" --once >"$tmp/log" 2>&1 && grep -q 'too short' "$tmp/log"
verdict 'a file without a header is refused' $?
! "$reader" "$tmp/none" --once >"$tmp/log" 2>&1 && grep -q 'cannot open' "$tmp/log"
verdict 'a file that is not there is named' $?
exit $rc
