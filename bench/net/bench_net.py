#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_net.py PROGRAM JSON [ROUNDS]: transfers between two processes of this machine, in rounds, settings in alternation.

PROGRAM is bench-net. Settings: the system's UCX and, where NIXL_TEST_UCX122 or build/ucx122 has it, 1.22; UCX's default and
UCX_TLS=tcp,self; with and without the progress thread; and without NIXL's own copies by the kernel (ucx alone). Where ucx_perftest is
installed its put latency is measured in each round too. Medians over the rounds, and the load, go to the JSON file and to a
table."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys


def settings():
    here = os.path.dirname(os.path.abspath(__file__))
    new = os.environ.get("NIXL_TEST_UCX122") or os.path.join(here, "../../build/ucx122/libucx/lib")
    versions = [("system", "")] + ([("1.22", new)] if os.path.exists(os.path.join(new, "libucp.so.0")) else [])
    for version, path in versions:
        for tls in ("", "tcp,self"):
            for thread in (False, True):
                yield {"ucx": version, "path": path, "tls": tls, "thread": thread, "cma": True}
        yield {"ucx": version, "path": path, "tls": "", "thread": False, "cma": False}


def name_of(s):
    return " ".join([s["ucx"], s["tls"] or "default", "thread" if s["thread"] else "no-thread"] +
                    ([] if s["cma"] else ["ucx-alone"]))


def run_ours(program, s):
    env = dict(os.environ, NIXL_UCX_PATH=s["path"], NIXL_UCX_CMA="y" if s["cma"] else "n")
    env.pop("UCX_TLS", None)
    if s["tls"]:
        env["UCX_TLS"] = s["tls"]
    out = subprocess.run([program] + (["--thread"] if s["thread"] else []), env=env, stdout=subprocess.PIPE, text=True,
                         timeout=600, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def run_perftest(size):
    """Latency of a put of the system's UCX, in microseconds: the target in the background, the test in front."""
    args = ["ucx_perftest", "-t", "ucp_put_lat", "-s", str(size), "-n", "20000" if size < 65536 else "500", "-p", "23456"]
    target = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(20):
            test = subprocess.run(args[:1] + ["127.0.0.1"] + args[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  timeout=120)
            found = re.search(r"^Final:\s+(.*)$", test.stdout, re.M)
            if found:
                return float(found.group(1).split()[1])
    finally:
        target.kill()
        target.wait()
    return None


def main():
    program, path = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    rows, heads, perftest, loads = {}, {}, {}, []
    for n in range(rounds):
        loads.append(os.getloadavg()[0])
        for s in settings():
            print(f"round {n + 1} of {rounds}: {name_of(s)}", file=sys.stderr, flush=True)
            head, *lines = run_ours(program, s)
            heads[name_of(s)] = head
            for line in lines:
                rows.setdefault((name_of(s), line["row"]), []).append(line)
        if shutil.which("ucx_perftest"):
            for size in (8, 4096, 65536, 1 << 20):
                value = run_perftest(size)
                if value is not None:
                    perftest.setdefault(size, []).append(value)
    result = {"rounds": rounds, "load": loads, "settings": heads,
              "ucx_perftest_put_lat_us": {str(k): statistics.median(v) for k, v in perftest.items()}, "rows": []}
    for (setting, row), lines in rows.items():
        entry = {key: statistics.median(line[key] for line in lines) for key in ("us", "p99_us", "post_us", "gb_s")}
        result["rows"].append({"setting": setting, "row": row, **entry})
        print(f"{setting:34} {row:38} {entry['us']:12.2f} us {entry['post_us']:10.2f} us in the post {entry['gb_s']:8.3f} GB/s")
    for size, value in result["ucx_perftest_put_lat_us"].items():
        print(f"ucx_perftest put latency {size} bytes {value:.2f} us")
    print("load " + " ".join(f"{load:.1f}" for load in loads))
    empty = [row["row"] for row in result["rows"] if not row["us"] > 0]
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
    if empty or not result["rows"]:
        sys.exit("rows without a value: " + ", ".join(empty))


main()
