#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest on files of this folder and prints TAP:  tap.py FILE...

The package under test is that of the build tree (NIXL_TEST_BUILD); pytest comes from scripts/python-deps.sh. Without
pytest, or in a build without the Python binding, the whole is one skip with its reason.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("NIXL_TEST_SOURCE") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("NIXL_TEST_BUILD") or os.path.join(SOURCE, "build")


def skip_all(why):
    print(f"1..0 # SKIP {why}", flush=True)
    sys.exit(0)


def import_path():
    if sys.version_info < (3, 11):
        skip_all(f"python3 is {sys.version.split()[0]}: the binding needs 3.11")
    package = os.path.join(BUILD, "bindings", "python")
    if not os.path.exists(os.path.join(package, "nixl", "_bindings.abi3.so")):
        skip_all("the Python binding is not built here (no Python.h)")
    found = subprocess.run([os.path.join(SOURCE, "scripts", "python-deps.sh"), sys.executable], text=True,
                           capture_output=True)
    if found.returncode != 0:
        skip_all(found.stderr.strip().splitlines()[-1] if found.stderr.strip() else "pytest cannot be had")
    return [package, found.stdout.strip(), HERE]


class Tap:
    """A pytest plugin: one line of TAP for each test, and as comments what a failure printed."""

    def __init__(self):
        self.number = 0

    def pytest_configure(self, config):
        # Its own report goes nowhere; it must be there for what formats assertions.
        config.pluginmanager.getplugin("terminalreporter")._tw._file = open(os.devnull, "w", encoding="utf-8")

    def pytest_collection_finish(self, session):
        print(f"1..{len(session.items)}", flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.emit(False, f"{report.nodeid} is collected", str(report.longrepr))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::", 1)[-1]
        if report.when == "setup" and report.skipped:
            self.emit(True, name, skip=self.reason(report))
        elif report.when == "call":
            if report.skipped:
                self.emit(True, name, skip=self.reason(report))
            else:
                self.emit(report.passed, name, "" if report.passed else report.longreprtext)
        elif report.failed:
            self.emit(False, f"{name} ({report.when})", report.longreprtext)

    @staticmethod
    def reason(report):
        words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return words.removeprefix("Skipped: ").splitlines()[0]

    def emit(self, ok, name, words="", skip=None):
        self.number += 1
        name = name.replace("#", "no. ").replace("\n", " ")
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name}" + (f" # SKIP {skip}" if skip else ""))
        for line in words.splitlines():
            print("#", line)
        sys.stdout.flush()


def main(files):
    path = import_path()
    sys.path[:0] = path
    # Programs that tests start find the same.
    os.environ["PYTHONPATH"] = os.pathsep.join(path + [p for p in [os.environ.get("PYTHONPATH")] if p])
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    os.environ.setdefault("NIXL_TEST_SOURCE", SOURCE)
    os.environ.setdefault("NIXL_TEST_BUILD", BUILD)
    import pytest

    class Last(Tap):
        pytest_configure = pytest.hookimpl(trylast=True)(Tap.pytest_configure)

    arguments = ["-p", "no:cacheprovider", "-q", "--rootdir", HERE, "-c", os.path.join(HERE, "pytest.ini")]
    return pytest.main(arguments + [os.path.join(HERE, name) for name in files], plugins=[Last()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
