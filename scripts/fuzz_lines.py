#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads llvm-cov's summary from standard input and prints the line coverage of the files a fuzz target must cover.

usage: fuzz_lines.py TARGET LEAST-PERCENT FILE...

Exit status 1 when a file is below the least percentage or is not in the program at all.
"""
import json
import sys

target, least, wanted = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
files = json.load(sys.stdin)["data"][0]["files"]
bad = 0
for name in wanted:
    lines = [f["summary"]["lines"] for f in files if f["filename"].endswith("/" + name)]
    if not lines:
        print(f"fuzz {target}: {name} is not in the program")
        bad = 1
        continue
    percent = 100.0 * lines[0]["covered"] / max(1, lines[0]["count"])
    print(f"fuzz {target}: {name} {percent:.1f} % of {lines[0]['count']} lines")
    bad |= percent < least
sys.exit(bad)
