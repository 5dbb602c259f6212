#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the tests of faults saw into docs/failures.md:  failures_table.py TESTLOG DOCUMENT

Reads lines "# outcome | fault | over | ended as | ms" and replaces what stands between the two markers. Lines of one fault that
ended the same way become one row with the longest time.
"""
import re
import sys

BEGIN, END = "<!-- outcomes -->\n", "<!-- end of outcomes -->\n"


def rows(log):
    table = {}
    for line in log:
        found = re.search(r"# outcome \| (.*) \| (.*) \| (.*) \| (\d+)\s*$", line)
        if not found:
            continue
        fault, over, ended, ms = found.groups()
        # Measured growth differs by run; the bound is what counts.
        ended = "no growth of memory or descriptors" if ended.startswith("RSS") else ended.replace("NIXL_ERR_", "").replace("NIXL_", "")
        row = table.setdefault((fault, ended), {"over": [], "ms": 0, "times": 0})
        over = over.replace(", no thread", "")
        if over not in row["over"]:
            row["over"].append(over)
        row["ms"] = max(row["ms"], int(ms))
        row["times"] += 1
    return table


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        table = rows(log)
    if not table:
        sys.exit("no outcomes in " + sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as document:
        text = document.read()
    lines = ["| fault | over | ended as | ms at most | cases |\n", "|---|---|---|---|---|\n"]
    for (fault, ended), row in sorted(table.items()):
        over = "UCX " + "; ".join(o.removeprefix("UCX ") for o in row["over"]) if row["over"][0].startswith("UCX") else row["over"][0]
        lines.append(f"| {fault} | {over} | {ended} | {row['ms'] or ''} | {row['times']} |\n")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(sys.argv[2], "w", encoding="utf-8") as document:
        document.write(before + BEGIN + "".join(lines) + END + after)


main()
