#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File transfers beside fio, on the same file, in alternation: `make bench-files JSON=file`.

Each row (block size, depth, direction, buffered or direct) is measured by each tool once a round; the medians
over the rounds are compared. Every row and ratio is printed, those below the goal again at the end. Goals:
bandwidth at least 0.95 of fio's io_uring, processor seconds per GiB not above fio's, bandwidth above the
reference's where it is installed (NIXL_REFERENCE_BENCH names its nixlbench).

Environment: ROUNDS=5  SECONDS_EACH=0.5 per measurement  FILE_MIB=512  DIR=the folder for the file
             ROWS="4096:1:read:direct,..." measures these only
"""
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

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


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("bench-files: %s failed (%d):\n%s%s" %
                 (command[0], done.returncode, done.stdout, done.stderr))
    return done.stdout


def ours(tool, path, row, seconds):
    block, depth, op, how = row
    result = json.loads(run([tool, path, op, str(block), str(depth), how, str(seconds)]))
    return {"bytes_per_s": result["bytes"] / result["seconds"],
            "cpu_per_gib": result["cpu_seconds"] / (result["bytes"] / GIB)}


def fio_command(engine, path, row, file_bytes):
    block, depth, op, how = row
    return ["fio", "--name=row", "--filename=" + path, "--size=%d" % file_bytes, "--ioengine=" + engine,
            "--bs=%d" % block, "--iodepth=%d" % depth, "--rw=rand" + op, "--direct=%d" % (how == "direct"),
            "--invalidate=0", "--norandommap", "--overwrite=1", "--gtod_reduce=1", "--output-format=json"]


def fio(engine, path, row, seconds, file_bytes):
    """Processor time is that of the whole process, less what starting costs: fio's own figure leaves out the
    kernel's workers, which do the copying of buffered writes."""
    command = fio_command(engine, path, row, file_bytes)
    before = children_cpu()
    run(command + ["--number_ios=1"])
    start = children_cpu() - before
    before = children_cpu()
    out = run(command + ["--time_based", "--runtime=%dms" % int(seconds * 1000)])
    cpu = max(children_cpu() - before - start, 0)
    side = json.loads(out[out.index("{"):])["jobs"][0][row[2]]
    took = side["runtime"] / 1000.0
    if side["io_bytes"] == 0 or took == 0:
        sys.exit("bench-files: fio moved nothing")
    return {"bytes_per_s": side["io_bytes"] / took, "cpu_per_gib": cpu / (side["io_bytes"] / GIB)}


def reference(tool, folder, row, file_bytes):
    """Its own program: one request of `depth` blocks again and again."""
    block, depth, op, how = row
    iterations = 16 * max(16, int(2e8 / (block * depth)) // 16)
    out = run([tool, "--backend=POSIX", "--filepath=" + folder, "--op_type=" + op.upper(),
               "--posix_api_type=AIO", "--start_block_size=%d" % block, "--max_block_size=%d" % block,
               "--start_batch_size=%d" % depth, "--max_batch_size=%d" % depth, "--num_iter=%d" % iterations,
               "--total_buffer_size=%d" % max(file_bytes, block * depth)] +
              (["--storage_enable_direct"] if how == "direct" else []))
    for line in out.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[0] == str(block) and re.fullmatch(r"[0-9.]+", fields[2]):
            return {"bytes_per_s": float(fields[2]) * 1e9, "cpu_per_gib": None}
    sys.exit("bench-files: no result in what %s printed:\n%s" % (tool, out))


def median(results, key):
    return statistics.median(r[key] for r in results)


def name_of(row):
    block, depth, op, how = row
    size = "%d MiB" % (block >> 20) if block >= 1 << 20 else "%d KiB" % (block >> 10)
    return "%-8s %-5s %-7s depth %3d" % (how, op, size, depth)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bench_files.py BENCH-FILES-PROGRAM JSON-FILE")
    tool, json_path = sys.argv[1], sys.argv[2]
    if shutil.which("fio") is None:
        sys.exit("bench-files: fio is missing (Debian: apt-get install fio)")
    rounds = int(os.environ.get("ROUNDS", "5"))
    seconds = float(os.environ.get("SECONDS_EACH", "0.5"))
    file_bytes = int(os.environ.get("FILE_MIB", "512")) << 20
    ref = os.environ.get("NIXL_REFERENCE_BENCH", "")
    folder = tempfile.mkdtemp(prefix="nixl-bench-files-", dir=os.environ.get("DIR") or None)
    path = os.path.join(folder, "file")
    report = []
    try:
        with open(path, "wb") as file:
            for _ in range(file_bytes >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        tools = {"ours": lambda row: ours(tool, path, row, seconds),
                 "fio io_uring": lambda row: fio("io_uring", path, row, seconds, file_bytes),
                 "fio libaio": lambda row: fio("libaio", path, row, seconds, file_bytes)}
        if ref:
            tools["reference"] = lambda row: reference(ref, folder, row, file_bytes)
        print("%d rounds of %.2f s each on %s, medians; reference: %s" %
              (rounds, seconds, folder, ref or "not installed (NIXL_REFERENCE_BENCH is not set)"))
        print("%-32s %12s %12s %9s %9s %9s %10s %10s" %
              ("row", "ours MB/s", "fio MB/s", "/io_uring", "/libaio", "/ref", "CPU s/GiB", "fio's"))
        for row in wanted_rows():
            results = {name: [] for name in tools}
            for turn in range(rounds):
                order = list(tools)
                order = order[turn % len(order):] + order[:turn % len(order)]
                for name in order:
                    results[name].append(tools[name](row))
            entry = {"block": row[0], "depth": row[1], "op": row[2], "how": row[3]}
            for name in tools:
                entry[name] = {"bytes_per_s": median(results[name], "bytes_per_s"), "rounds": results[name]}
                if results[name][0]["cpu_per_gib"] is not None:
                    entry[name]["cpu_per_gib"] = median(results[name], "cpu_per_gib")
            mine = entry["ours"]
            entry["ratio_io_uring"] = mine["bytes_per_s"] / entry["fio io_uring"]["bytes_per_s"]
            entry["ratio_libaio"] = mine["bytes_per_s"] / entry["fio libaio"]["bytes_per_s"]
            entry["ratio_reference"] = None
            if ref:
                entry["ratio_reference"] = mine["bytes_per_s"] / entry["reference"]["bytes_per_s"]
            entry["ratio_cpu"] = mine["cpu_per_gib"] / entry["fio io_uring"]["cpu_per_gib"]
            report.append(entry)
            print("%-32s %12.1f %12.1f %9.2f %9.2f %9s %10.3f %10.3f" %
                  (name_of(row), mine["bytes_per_s"] / 1e6, entry["fio io_uring"]["bytes_per_s"] / 1e6,
                   entry["ratio_io_uring"], entry["ratio_libaio"],
                   "%.2f" % entry["ratio_reference"] if ref else "-", mine["cpu_per_gib"],
                   entry["fio io_uring"]["cpu_per_gib"]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with open(json_path, "w", encoding="utf-8") as file:
        json.dump({"rounds": rounds, "seconds_each": seconds, "file_bytes": file_bytes, "rows": report}, file,
                  indent=1)
    below = [(e, "bandwidth %.2f of fio's io_uring" % e["ratio_io_uring"]) for e in report
             if e["ratio_io_uring"] < GOAL]
    below += [(e, "processor time %.2f of fio's" % e["ratio_cpu"]) for e in report if e["ratio_cpu"] > 1]
    below += [(e, "bandwidth %.2f of the reference's" % e["ratio_reference"]) for e in report
              if e["ratio_reference"] is not None and e["ratio_reference"] <= 1]
    print("%d rows, %d results below the goal%s" % (len(report), len(below), ":" if below else ""))
    for entry, words in below:
        print("  %s: %s" % (name_of((entry["block"], entry["depth"], entry["op"], entry["how"])), words))


if __name__ == "__main__":
    main()
