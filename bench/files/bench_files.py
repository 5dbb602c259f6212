#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File transfers beside fio, on the same file, in alternation: `make bench-files JSON=file`.

Each row (block size, depth, direction, buffered or direct) is measured by each tool once a round, in an order that
turns; a ratio is the median of the rounds' ratios, so that a device whose speed drifts does not favour anybody. Every
row and ratio is printed, those below the goal again at the end. Goals: bandwidth at least 0.95 of fio's io_uring,
processor seconds per GiB not above fio's, bandwidth above the reference's.

fio sleeps until something ends, and so does this library beside it. The reference has no call to sleep in, it is
polled without pause; beside it this library is polled as well. It runs the same requests through its C library where
NIXL_TEST_REFERENCE_PYTHON names an interpreter that has it (bench/files/reference.c). All keep the same number of
blocks in flight, one a request.

Environment: ROUNDS=5  SECONDS_EACH=0.3 per measurement  FILE_MIB=512  DIR=the folder for the file
             ROWS="4096:1:read:direct,..." measures these only
             RESUME=1  keeps the rows that are in the JSON file and measures the others
             LIMIT=200  begins no row after that many seconds: call again with RESUME=1
             NIXL_BENCH_OPTION=use_aio  an option of the backend, also name=value
"""
import glob
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BLOCKS = (4096, 65536, 1048576)
DEPTHS = (1, 32, 256)
GOAL = 0.95
GIB = float(1 << 30)


def all_rows():
    return [(block, depth, op, how) for how in ("buffered", "direct") for op in ("read", "write")
            for block in BLOCKS for depth in DEPTHS]


def wanted_rows():
    text = os.environ.get("ROWS", "")
    if not text:
        return all_rows()
    rows = []
    for item in text.split(","):
        block, depth, op, how = item.split(":")
        rows.append((int(block), int(depth), op, how))
    return rows


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        sys.exit("bench-files: %s failed (%d):\n%s%s" %
                 (command[0], done.returncode, done.stdout, done.stderr))
    return done.stdout


def nixl(tool, path, row, seconds, extra=(), env=None):
    block, depth, op, how = row
    result = json.loads(run([tool, path, op, str(block), str(depth), how, str(seconds)] + list(extra), env))
    return {"bytes_per_s": result["bytes"] / result["seconds"],
            "cpu_per_gib": result["cpu_seconds"] / (result["bytes"] / GIB)}


class Fio:
    """Processor time is fio's own figure for direct files. For buffered ones it is that of the whole process, less
    what starting costs: fio's leaves out the kernel's workers, which do the copying of buffered writes."""

    def __init__(self, engine, path, file_bytes):
        self.engine, self.path, self.file_bytes = engine, path, file_bytes
        self.starts = {}

    def command(self, row):
        block, depth, op, how = row
        return ["fio", "--name=row", "--filename=" + self.path, "--size=%d" % self.file_bytes,
                "--ioengine=" + self.engine, "--bs=%d" % block, "--iodepth=%d" % depth, "--rw=rand" + op,
                "--direct=%d" % (how == "direct"), "--invalidate=0", "--norandommap", "--overwrite=1",
                "--thread", "--gtod_reduce=1", "--output-format=json"]

    def start_cost(self, row):
        if row not in self.starts:
            costs = []
            for _ in range(3):
                before = children_cpu()
                run(self.command(row) + ["--number_ios=1"])
                costs.append(children_cpu() - before)
            self.starts[row] = statistics.median(costs)
        return self.starts[row]

    def measure(self, row, seconds):
        start = self.start_cost(row) if row[3] == "buffered" else 0
        before = children_cpu()
        out = run(self.command(row) + ["--time_based", "--runtime=%dms" % int(seconds * 1000)])
        cpu = max(children_cpu() - before - start, 0)
        job = json.loads(out[out.index("{"):])["jobs"][0]
        side = job[row[2]]
        took = side["runtime"] / 1000.0
        if row[3] == "direct":
            cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * took
        if side["io_bytes"] == 0 or took == 0:
            sys.exit("bench-files: fio moved nothing")
        return {"bytes_per_s": side["io_bytes"] / took, "cpu_per_gib": cpu / (side["io_bytes"] / GIB)}


def reference_env():
    """What makes the reference's C library the one that bench-files-reference finds; None, why."""
    python = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not python:
        return None, "NIXL_TEST_REFERENCE_PYTHON names no interpreter that has it"
    packages = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    found = glob.glob(os.path.join(packages, ".nixl*.mesonpy.libs", "libnixl_capi.so"))
    if not found:
        return None, "there is no libnixl_capi.so in " + packages
    folder = os.path.dirname(found[0])
    return dict(os.environ, LD_LIBRARY_PATH=folder, NIXL_PLUGIN_DIR=os.path.join(folder, "plugins")), folder


def machine(folder):
    processor = ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    system = run(["findmnt", "-n", "-o", "FSTYPE", "-T", folder]).strip()
    return {"processor": processor, "processors": os.cpu_count(), "kernel": platform.release(),
            "file_system": system, "fio": run(["fio", "--version"]).strip()}


def median(results, key):
    return statistics.median(r[key] for r in results)


def ratio(entry, name, key, mine="ours"):
    """The median of the rounds' ratios; None where there is no other."""
    if name not in entry:
        return None
    pairs = zip(entry[mine]["rounds"], entry[name]["rounds"])
    return statistics.median(own[key] / other[key] if other[key] > 0 else 1.0 for own, other in pairs)


def name_of(row):
    block, depth, op, how = row
    size = "%d MiB" % (block >> 20) if block >= 1 << 20 else "%d KiB" % (block >> 10)
    return "%-8s %-5s %-7s depth %3d" % (how, op, size, depth)


def settle(path):
    """What was written goes to the device now, so that nobody pays for another's writes."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def measure(row, tools, rounds, path):
    results = {name: [] for name in tools}
    for turn in range(rounds):
        order = list(tools)
        order = order[turn % len(order):] + order[:turn % len(order)]
        for name in order:
            settle(path)
            results[name].append(tools[name](row))
    entry = {"block": row[0], "depth": row[1], "op": row[2], "how": row[3]}
    for name in tools:
        entry[name] = {"bytes_per_s": median(results[name], "bytes_per_s"),
                       "cpu_per_gib": median(results[name], "cpu_per_gib"), "rounds": results[name]}
    entry["ratio_io_uring"] = ratio(entry, "fio io_uring", "bytes_per_s")
    entry["ratio_libaio"] = ratio(entry, "fio libaio", "bytes_per_s")
    entry["ratio_reference"] = ratio(entry, "reference", "bytes_per_s", "ours polled")
    entry["ratio_cpu"] = ratio(entry, "fio io_uring", "cpu_per_gib")
    return entry


def row_of(entry):
    return (entry["block"], entry["depth"], entry["op"], entry["how"])


def show(entry):
    theirs = entry["ratio_reference"]
    print("%-32s %12.1f %12.1f %9.2f %9.2f %9s %10.3f %10.3f %6.2f" %
          (name_of(row_of(entry)), entry["ours"]["bytes_per_s"] / 1e6, entry["fio io_uring"]["bytes_per_s"] / 1e6,
           entry["ratio_io_uring"], entry["ratio_libaio"], "%.2f" % theirs if theirs is not None else "-",
           entry["ours"]["cpu_per_gib"], entry["fio io_uring"]["cpu_per_gib"], entry["ratio_cpu"]), flush=True)


def below_goal(report):
    found = []
    for entry in report:
        if entry["ratio_io_uring"] < GOAL:
            found.append((entry, "bandwidth %.2f of fio's io_uring" % entry["ratio_io_uring"]))
        if entry["ratio_cpu"] > 1:
            found.append((entry, "processor time %.2f of fio's" % entry["ratio_cpu"]))
        if entry["ratio_reference"] is not None and entry["ratio_reference"] <= 1:
            found.append((entry, "bandwidth %.2f of the reference's" % entry["ratio_reference"]))
    return found


def kept_rows(json_path, settings):
    """Rows of an earlier call with the same settings."""
    if not os.environ.get("RESUME") or not os.path.exists(json_path):
        return []
    with open(json_path, encoding="utf-8") as file:
        data = json.load(file)
    for key, value in settings.items():
        if data.get(key) != value:
            sys.exit("bench-files: %s was measured with %s %s, not %s" % (json_path, key, data.get(key), value))
    return data["rows"]


def save(json_path, settings, report):
    report.sort(key=lambda entry: all_rows().index(row_of(entry)) if row_of(entry) in all_rows() else len(all_rows()))
    with open(json_path + ".new", "w", encoding="utf-8") as file:
        json.dump(dict(settings, rows=report), file, indent=1)
    os.replace(json_path + ".new", json_path)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bench_files.py BENCH-FILES-PROGRAM JSON-FILE")
    tool, json_path = sys.argv[1], sys.argv[2]
    if shutil.which("fio") is None:
        sys.exit("bench-files: fio is missing (Debian: apt-get install fio)")
    begin = time.monotonic()
    rounds = int(os.environ.get("ROUNDS", "5"))
    seconds = float(os.environ.get("SECONDS_EACH", "0.3"))
    limit = float(os.environ.get("LIMIT", "inf"))
    file_bytes = int(os.environ.get("FILE_MIB", "512")) << 20
    option = [os.environ["NIXL_BENCH_OPTION"]] if os.environ.get("NIXL_BENCH_OPTION") else []
    theirs, where = reference_env()
    folder = tempfile.mkdtemp(prefix="nixl-bench-files-", dir=os.environ.get("DIR") or None)
    path = os.path.join(folder, "file")
    settings = {"rounds": rounds, "seconds_each": seconds, "file_bytes": file_bytes, "machine": machine(folder),
                "reference": theirs is not None}
    report = kept_rows(json_path, settings)
    known = [row_of(entry) for entry in report]
    left = [row for row in wanted_rows() if row not in known]
    try:
        with open(path, "wb") as file:
            for _ in range(file_bytes >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        uring, libaio = Fio("io_uring", path, file_bytes), Fio("libaio", path, file_bytes)
        tools = {"ours": lambda row: nixl(tool, path, row, seconds, ["wait"] + option),
                 "fio io_uring": lambda row: uring.measure(row, seconds),
                 "fio libaio": lambda row: libaio.measure(row, seconds)}
        if theirs:
            tools["ours polled"] = lambda row: nixl(tool, path, row, seconds, ["poll"] + option)
            tools["reference"] = lambda row: nixl(tool + "-reference", path, row, seconds, env=theirs)
        print("%d rounds of %.2f s each on %s; reference: %s" %
              (rounds, seconds, folder, where if theirs else "not installed (%s)" % where))
        print("%-32s %12s %12s %9s %9s %9s %10s %10s %6s" %
              ("row", "ours MB/s", "fio MB/s", "/io_uring", "/libaio", "/ref", "CPU s/GiB", "fio's", "/fio"))
        while left and time.monotonic() - begin < limit:
            report.append(measure(left.pop(0), tools, rounds, path))
            show(report[-1])
            save(json_path, settings, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    below = below_goal(report)
    print("%d rows, %d results below the goal%s" % (len(report), len(below), ":" if below else ""))
    for entry, words in below:
        print("  %s: %s" % (name_of(row_of(entry)), words))
    if left:
        print("%d rows are left: call again with RESUME=1" % len(left))


if __name__ == "__main__":
    main()
