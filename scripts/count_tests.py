#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of meson test logs and prints "N passed, N failed[, N skipped]".

usage: count_tests.py [--again AGAIN.json] TESTLOG.json...
       count_tests.py --failed TESTLOG.json...

--again: a second run, alone, of what failed in the first. Its results take the first ones' place, and what failed beside
other tests and passed alone is named. --failed: prints the names of the programs with failures and counts nothing.

A case is one TAP line. A program that crashed, timed out, printed nothing or ended with an error although all its lines
were "ok" counts as one failed case more; cases that its plan announced and that never came count as failed too.
Before the line, each skip is printed with its reason and each failure with its name. Exit status 1 when a case failed
or none passed.
"""
import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*-?\s*([^#]*)(?:#\s*(SKIP|TODO)\S*\s*(.*))?$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*SKIP\S*\s*(.*))?", re.IGNORECASE)


def count(test):
    """One program's (passed, failures, skips): the last two are lists of texts."""
    name = test["name"].split("/")[-1].strip()
    passed, failures, skips, planned = 0, [], [], None
    for line in (test.get("stdout") or "").splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if int(plan.group(1)) == 0:
                skips.append(f"{name}: {plan.group(2) or 'no reason given'}")
            continue
        case = CASE.match(line)
        if not case:
            continue
        title = f"{name}: {case.group(3).strip() or case.group(2) or '?'}"
        if (case.group(4) or "").upper() == "SKIP":
            skips.append(f"{title}: {case.group(5) or 'no reason given'}")
        elif case.group(1):
            failures.append(title)
        else:
            passed += 1
    cases = passed + len(failures) + len(skips)
    if planned and cases < planned:
        failures += [f"{name}: {planned - cases} of {planned} announced cases never ran"] * (planned - cases)
    elif cases == 0:
        failures.append(f"{name}: printed no test case")
    if not failures and test["result"] not in ("OK", "SKIP"):
        failures.append(f"{name}: {test['result']}, exit status {test['returncode']}")
    return passed, failures, skips


def load(paths):
    """All programs of some logs, by name: a program's last run counts."""
    tests = {}
    for path in paths:
        with open(path, encoding="utf-8") as log:
            for line in log:
                test = json.loads(line)
                tests[test["name"]] = test
    return tests


def main(paths, again):
    tests = load(paths)
    for name, test in load(again).items():
        if name in tests and count(tests[name])[1] and not count(test)[1]:
            print("passed alone, failed beside others:", name.split("/")[-1].strip())
        tests[name] = test
    passed, failures, skips = 0, [], []
    for test in tests.values():
        p, f, s = count(test)
        passed += p
        failures += f
        skips += s
    for text in skips:
        print("skipped:", text)
    for text in dict.fromkeys(failures):
        print("failed:", text)
    print(f"{passed} passed, {len(failures)} failed" + (f", {len(skips)} skipped" if skips else ""))
    return 1 if failures or passed == 0 else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    if arguments[0] == "--failed":
        print(*(name.split("/")[-1].strip() for name, test in load(arguments[1:]).items() if count(test)[1]))
        sys.exit(0)
    second = []
    if arguments[0] == "--again":
        second, arguments = arguments[1:2], arguments[2:]
    sys.exit(main(arguments, second))
