#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Transfers between two processes of this machine, in rounds: ours beside the reference and ucx_perftest, in alternation.

    bench_net.py FOLDER JSON [--rounds 5] [--quick] [--only bslnp] [--settings REGEX] [--seconds N] [--table]

FOLDER holds bench-net and bench-net-capi. Settings: the system's UCX and, where NIXL_TEST_UCX122 or build/ucx122 has it, 1.22; UCX's
default transports (one host: shared memory, the kernel's copies) and UCX_TLS=tcp,self; without and with the progress thread. The
reference is measured where NIXL_TEST_REFERENCE_PYTHON names a Python that has it: by the same program through its C
interface, over the UCX it brings. ucx_perftest is the system's.

A unit is a setting and a group of rows (b single blocks, s lists of 16 and 128, l lists of 10,000 and 100,000, n notifications,
p ucx_perftest). Ours and the reference take turns in each unit, and who goes first changes with the round. Every unit goes to the
JSON file when it is done: a run that was stopped (--seconds N: after that time; Ctrl-C) is continued by the next one, a finished
one is measured anew. --quick: one round, short rows, no lists above 128. --table prints what is in the file.

ratio = time of the reference / ours, of one round; above 1 ours is faster. Exit status: 0 whole, 3 stopped before the end."""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PERFTEST_SIZES = (8, 4096, 65536, 1 << 20, 16 << 20)
GROUPS = "bslnp"


def settings():
    new = os.environ.get("NIXL_TEST_UCX122") or os.path.join(HERE, "../../build/ucx122/libucx/lib")
    versions = [("1.22", os.path.abspath(new))] if os.path.exists(os.path.join(new, "libucp.so.0")) else []
    versions.append(("system", ""))
    for version, path in versions:
        for tls in ("", "tcp,self"):
            for thread in (False, True):
                yield {"ucx": version, "path": path, "tls": tls, "thread": thread}


def name_of(s):
    return f"{s['ucx']} {'tcp' if s['tls'] else 'one host'}{' thread' if s['thread'] else ''}"


def find_reference():
    """Where its libraries lie, and its version; None without one."""
    python = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not python:
        return None
    code = ("import importlib.metadata as m, sysconfig; print(sysconfig.get_path('platlib')); "
            "print(next(d.version for d in m.distributions() if (d.name or '').startswith('nixl')))")
    found = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    lines = found.stdout.splitlines()
    libraries = glob.glob(os.path.join(glob.escape(lines[0]), ".nixl*.mesonpy.libs", "libnixl_capi.so")) if lines else []
    if found.returncode != 0 or not libraries:
        sys.exit(f"NIXL_TEST_REFERENCE_PYTHON={python} has no reference with a libnixl_capi.so")
    return {"libraries": os.path.dirname(libraries[0]), "version": lines[1]}


def environment(s, reference=None):
    env = {k: v for k, v in os.environ.items() if k not in ("UCX_TLS", "NIXL_UCX_PATH", "NIXL_CONFIG_FILE")}
    if s["tls"]:
        env["UCX_TLS"] = s["tls"]
    if reference is None:
        env["NIXL_UCX_PATH"] = s["path"]
    else:
        env["LD_LIBRARY_PATH"] = reference["libraries"]
        env["NIXL_PLUGIN_DIR"] = os.path.join(reference["libraries"], "plugins")
    return env


def run_agents(program, s, group, ms, reference=None):
    args = [program, f"--only={group}", f"--ms={ms}"] + (["--thread"] if s["thread"] else [])
    p = subprocess.run(args, env=environment(s, reference), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240,
                       check=False)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)}: {p.stderr.strip()[-600:]}")
    head, *rows = [json.loads(line) for line in p.stdout.splitlines()]
    return {"head": head, "rows": rows}


def run_perftest(s):
    """Medians in microseconds: a put seen by the other side (half of there and back), puts one after the other, a get."""
    tests = [(kind, f"-t {test} -s {size} -n {2000 if size <= 65536 else 30} -w {200 if size <= 65536 else 3}", size)
             for size in PERFTEST_SIZES
             for kind, test in (("put_lat", "ucp_put_lat"), ("put_bw", "ucp_put_bw -O 1"), ("get", "ucp_get"))]
    with tempfile.NamedTemporaryFile("w", suffix=".tests") as batch:
        batch.write("".join(f"{kind}.{size} {args}\n" for kind, args, size in tests))
        batch.flush()
        args = ["ucx_perftest", "-p", "23456", "-b", batch.name]
        env = environment({**s, "path": ""})
        target = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            for _ in range(20):
                out = subprocess.run(args[:1] + ["127.0.0.1"] + args[1:] + ["-f", "-v"], stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True, timeout=120, env=env, check=False).stdout
                rows = [line.split(",") for line in out.splitlines()[1:]]
                if len(rows) == len(tests):
                    return {"head": {}, "rows": [{"row": f"ucx_perftest {row[0].replace('.', ' ')}", "us": float(row[2])} for row in rows]}
                time.sleep(0.2)
        finally:
            target.kill()
            target.wait()
    sys.exit("ucx_perftest gave no figures")


def plan(args, reference):
    """The units in their order: (round, setting, group, sides)."""
    for n in range(args.rounds):
        for s in settings():
            if not re.search(args.settings, name_of(s)):
                continue
            for group in args.only:
                if group == "p":
                    if s["ucx"] == "system" and not s["thread"] and shutil.which("ucx_perftest"):
                        yield n, s, group, ["ucx_perftest"]
                    continue
                # The reference has one UCX, its own.
                with_it = reference is not None and (s["ucx"] == "1.22" or not any(t["ucx"] == "1.22" for t in settings()))
                sides = ["ours", "reference"] if with_it else ["ours"]
                yield n, s, group, sides if n % 2 == 0 else sides[::-1]


def measure(args, data, reference, program):
    units = list(plan(args, reference))
    if "units" in data and len(data["units"]) >= len(units):
        data.clear()
    data.setdefault("units", [])
    data.update(rounds=args.rounds, machine=machine(), reference=reference["version"] if reference else None, date=time.strftime("%Y-%m-%d"))
    done = {tuple(u["key"]) for u in data["units"]}
    end = time.monotonic() + args.seconds if args.seconds else None
    for i, (n, s, group, sides) in enumerate(units):
        key = (n, name_of(s), group)
        if key in done:
            continue
        if end is not None and time.monotonic() >= end:
            print(f"stopped before unit {i + 1} of {len(units)}: run it again to go on", file=sys.stderr)
            return False
        unit = {"key": key, "load": os.getloadavg()[0]}
        for side in sides:
            print(f"unit {i + 1} of {len(units)}, round {n + 1}: {name_of(s)}, group {group}, {side}", file=sys.stderr, flush=True)
            if side == "ucx_perftest":
                unit[side] = run_perftest(s)
            else:
                unit[side] = run_agents(program[side], s, group, args.ms, reference if side == "reference" else None)
        data["units"].append(unit)
        with open(args.json + ".new", "w", encoding="utf-8") as f:
            json.dump(data, f)
        os.replace(args.json + ".new", args.json)
    return True


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"^model name\s*:\s*(.*)$", f.read(), re.M)
    return f"{found.group(1).strip() if found else 'unnamed processor'}, {os.cpu_count()} processors, Linux {os.uname().release}"


def summary(data):
    """One entry a setting and row: medians over the rounds, and the ratios of the rounds with the reference of the same
    transport and thread."""
    values, names = {}, []
    for unit in data["units"]:
        n, setting, _ = unit["key"]
        for side in ("ours", "reference", "ucx_perftest"):
            for row in unit.get(side, {}).get("rows", []):
                key = (setting, row["row"])
                if key not in names:
                    names.append(key)
                values.setdefault((key, side), {})[n] = row
    for key in names:
        setting, row = key
        ours = values.get((key, "ours"), {})
        theirs = values.get((key, "reference")) or values.get(((setting.replace("system", "1.22"), row), "reference"), {})
        entry = {"setting": setting, "row": row}
        for side, rows in (("ours", ours), ("reference", theirs), ("ucx_perftest", values.get((key, "ucx_perftest"), {}))):
            if rows:
                entry[side] = {k: statistics.median(r[k] for r in rows.values()) for k in next(iter(rows.values())) if k != "row"}
        both = sorted(set(ours) & set(theirs))
        if both:
            entry["ratios"] = [theirs[n]["us"] / ours[n]["us"] for n in both]
            entry["ratio"] = statistics.median(entry["ratios"])
            entry["longest_post_us"] = max(ours[n].get("post_max_us", 0) for n in both)
        yield entry


def number(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def print_table(data):
    below, posts, entries = [], [], list(summary(data))
    by_key = {(e["setting"], e["row"]): e for e in entries}
    for e in entries:
        words = f"{e['setting']:20} {e['row']:28}"
        if "ucx_perftest" in e:
            print(f"{words} {number(e['ucx_perftest']['us']):>10} us")
            continue
        words += f" {number(e['ours']['us']):>10} us, post {number(e['ours']['post_us']):>7}"
        if "ratio" in e:
            words += (f" | reference {number(e['reference']['us']):>10}, post {number(e['reference']['post_us']):>10} | ratio "
                      f"{e['ratio']:.2f} ({' '.join(f'{r:.2f}' for r in e['ratios'])})")
            if e["ratio"] < 1:
                below.append(f"{e['setting']}: {e['row']}: {e['ratio']:.2f}, {number(e['ours']['us'])} against "
                             f"{number(e['reference']['us'])} us")
        print(words)
        if " 100000 x" in e["row"]:
            posts.append(f"{e['setting']}: post of {e['row']}: {number(e['ours']['post_us'])} us")
    for (setting, row), e in by_key.items():
        bare = by_key.get((setting, row.replace("write+notification", "write 1 x")))
        if row.startswith("write+notification") and bare:
            posts.append(f"{setting}: {row} is {e['ours']['us'] - bare['ours']['us']:.2f} us above the bare write")
    print("\n".join(posts))
    print("load: " + " ".join(f"{load:.1f}" for load in sorted({u["load"] for u in data["units"]})[::max(1, len(data["units"]) // 12)]))
    print(f"rows below the reference: {len(below)}" + "".join("\n  " + line for line in below))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=GROUPS, metavar="GROUPS")
    parser.add_argument("--settings", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--ms", type=int, default=25)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.ms, args.only = 1, 10, args.only.replace("l", "")
    if set(args.only) - set(GROUPS):
        parser.error(f"--only takes letters of {GROUPS}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # ends what runs, too
    data = {}
    if os.path.exists(args.json):
        with open(args.json, encoding="utf-8") as f:
            data = json.load(f)
    whole = True
    if not args.table:
        reference = find_reference()
        if reference is None:
            print("no reference beside it: NIXL_TEST_REFERENCE_PYTHON names no Python that has one", file=sys.stderr)
        program = {"ours": os.path.join(args.folder, "bench-net"), "reference": os.path.join(args.folder, "bench-net-capi")}
        whole = measure(args, data, reference, program)
    if not data.get("units"):
        sys.exit("nothing was measured")
    print_table(data)
    sys.exit(0 if whole else 3)


if __name__ == "__main__":
    main()
