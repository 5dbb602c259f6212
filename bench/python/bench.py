#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calls from Python cost, this library's and (where NIXL_TEST_REFERENCE_PYTHON names an interpreter that has it)
the reference's, in alternation:  bench.py [--json FILE] [--rounds N] [ROW...]

Each round starts a process for each side, which measures every row; the figure is the median over the rounds of the
best of each process. Both sides run the same code of this file over UCX 1.22 in their default configuration. A row has
a goal: how many times less than the reference ours must take.
"""
import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

# Row: (goal, unit). A goal of 1 is "ahead"; None: told, not compared.
ROWS = {
    "import": (1, "ms"),
    "first agent": (1, "ms"),
    "get_xfer_descs 100k tuples": (1.5, "us"),
    "get_xfer_descs 1M tuples": (1.5, "us"),
    "get_xfer_descs 100k array": (5, "us"),
    "get_xfer_descs 1M array": (5, "us"),
    "get_xfer_descs 100k strided": (5, "us"),
    "get_xfer_descs 1M strided": (5, "us"),
    "prep_xfer_dlist 100k tuples": (1.5, "us"),
    "prep_xfer_dlist 1M tuples": (1.5, "us"),
    "prep_xfer_dlist 100k array": (5, "us"),
    "prep_xfer_dlist 1M array": (5, "us"),
    "prep_xfer_dlist 100k strided": (5, "us"),
    "prep_xfer_dlist 1M strided": (5, "us"),
    "make_prepped_xfer 4096 list": (1.5, "us"),
    "make_prepped_xfer 4096 array": (1, "us"),
    "make_prepped_xfer 100k list": (1.5, "us"),
    "make_prepped_xfer 100k array": (1, "us"),
    "transfer + check of 8 B": (1, "us"),
    "get_new_notifs, none": (1, "us"),
    "get_new_notifs, 1000": (1, "us"),
    "get_agent_metadata, 10,000 regions": (1, "us"),
    "write + notification, half a round trip": (1, "us"),
    "idle agent": (1, "% of a core"),
    "peak memory": (1, "MiB"),
}


def best(call, seconds=0.25, least=3, before=None):
    """The least time of one call, in microseconds."""
    gc.collect()
    gc.disable()
    found, end, n = float("inf"), time.perf_counter() + seconds, 0
    while n < least or time.perf_counter() < end:
        if before:
            before()
        start = time.perf_counter()
        kept = call()
        found = min(found, time.perf_counter() - start)
        del kept
        n += 1
    gc.enable()
    return found * 1e6


def per_call(call, n=2000, rounds=5):
    """The least average of n calls, in microseconds."""
    found = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(n):
            call()
        found = min(found, (time.perf_counter() - start) / n)
    return found * 1e6


def measure(rows):
    """One process's figures; prints them as JSON."""
    figures = {}
    started = time.perf_counter()
    import nixl._api as api

    figures["import"] = (time.perf_counter() - started) * 1e3
    started = time.perf_counter()
    agent = api.nixl_agent("bench")
    figures["first agent"] = (time.perf_counter() - started) * 1e3
    peer = api.nixl_agent("peer")
    import numpy as np

    ours = hasattr(agent, "get_strided_descs")
    wanted = lambda name: not rows or any(r in name for r in rows)  # noqa: E731
    block, stride, count = 64, 128, 1_000_000
    memory, other = (np.zeros(stride * count, np.uint8) for _ in range(2))
    agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    peer.register_memory([(other.ctypes.data, other.nbytes, 0, "")], "DRAM")
    agent.add_remote_agent(peer.get_agent_metadata())
    peer.add_remote_agent(agent.get_agent_metadata())

    def array(buffer, n):
        made = np.zeros((n, 3), np.uint64)
        made[:, 0] = buffer.ctypes.data + np.arange(n, dtype=np.uint64) * stride
        made[:, 1] = block
        return made

    for n, name in ((100_000, "100k"), (1_000_000, "1M")):
        table = array(memory, n)
        tuples = [tuple(row) for row in table.tolist()]
        forms = {"tuples": lambda: tuples, "array": lambda: table}
        for form, value in forms.items():
            if wanted(f"get_xfer_descs {name} {form}"):
                figures[f"get_xfer_descs {name} {form}"] = best(lambda: agent.get_xfer_descs(value(), "DRAM"))
            if wanted(f"prep_xfer_dlist {name} {form}"):
                figures[f"prep_xfer_dlist {name} {form}"] = best(lambda: agent.prep_xfer_dlist("", value(), "DRAM"))
        # The reference has no strided lists: there a program makes the array that stands for the same blocks.
        view = memory[: n * stride].reshape(n, stride)[:, :block]
        make = (lambda: agent.get_strided_descs(view)) if ours else (lambda: agent.get_xfer_descs(array(memory, n), "DRAM"))
        if wanted(f"get_xfer_descs {name} strided"):
            figures[f"get_xfer_descs {name} strided"] = best(make)
        if wanted(f"prep_xfer_dlist {name} strided"):
            figures[f"prep_xfer_dlist {name} strided"] = best(lambda: agent.prep_xfer_dlist("", make()))
        del tuples, forms

    size = 100_000
    left = agent.prep_xfer_dlist("", array(memory, size), "DRAM")
    right = agent.prep_xfer_dlist("peer", array(other, size), "DRAM")
    for n, name in ((4096, "4096"), (size, "100k")):
        chosen = np.random.default_rng(1).permutation(size)[:n].astype(np.int64)
        for form, value in (("list", chosen.tolist()), ("array", chosen)):
            if wanted(f"make_prepped_xfer {name} {form}"):
                figures[f"make_prepped_xfer {name} {form}"] = best(
                    lambda: agent.make_prepped_xfer("WRITE", left, value, right, value))

    one = agent.get_xfer_descs([(memory.ctypes.data, 8, 0)], "DRAM")
    two = agent.get_xfer_descs([(other.ctypes.data, 8, 0)], "DRAM")
    handle = agent.initialize_xfer("WRITE", one, two, "peer")

    def transfer_and_check():
        state = agent.transfer(handle)
        while state != "DONE":
            state = agent.check_xfer_state(handle)

    transfer_and_check()
    if wanted("transfer + check of 8 B"):
        figures["transfer + check of 8 B"] = per_call(transfer_and_check)
    if wanted("get_new_notifs, none"):
        peer.get_new_notifs()
        figures["get_new_notifs, none"] = per_call(peer.get_new_notifs)
    if wanted("get_new_notifs, 1000"):
        found = float("inf")
        for _ in range(10):
            for _ in range(1000):
                agent.send_notif("peer", b"x" * 32)
            time.sleep(0.1)
            start = time.perf_counter()
            got = peer.get_new_notifs()
            took = time.perf_counter() - start
            if sum(map(len, got.values())) == 1000:
                found = min(found, took)
            while sum(map(len, peer.get_new_notifs().values())):
                time.sleep(0.01)
        if found < 1:
            figures["get_new_notifs, 1000"] = found * 1e6
    if wanted("get_agent_metadata, 10,000 regions"):
        regions = agent.get_reg_descs([(memory.ctypes.data + i * 4096, 2048, 0, "") for i in range(10_000)], "DRAM")
        agent.register_memory(regions)
        figures["get_agent_metadata, 10,000 regions"] = best(agent.get_agent_metadata)
        agent.deregister_memory(regions)
    if wanted("idle agent"):
        time.sleep(0.3)
        before = time.process_time()
        time.sleep(2)
        figures["idle agent"] = (time.process_time() - before) / 2 * 100 / 2  # two agents
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    figures["peak memory"] = int(peak.split()[1]) / 1024
    print(json.dumps({k: v for k, v in figures.items() if wanted(k)}), flush=True)
    os._exit(0)


def ping_pong(role, folder, rounds=300, warm=50):
    """One side of write + notification there and back; the initiator prints the median half round trip in us."""
    import nixl._api as api

    agent = api.nixl_agent(role)
    other = "b" if role == "a" else "a"
    memory = ctypes.create_string_buffer(8192)
    address = ctypes.addressof(memory)
    agent.register_memory([(address, 8192, 0, "")], "DRAM")

    def put(name, data):
        with open(f"{folder}/{name}.part", "wb") as out:
            out.write(data)
        os.rename(f"{folder}/{name}.part", f"{folder}/{name}")

    def get(name):
        while not os.path.exists(f"{folder}/{name}"):
            time.sleep(0.01)
        with open(f"{folder}/{name}", "rb") as data:
            return data.read()

    put(role + ".md", agent.get_agent_metadata())
    put(role + ".ad", str(address).encode())
    agent.add_remote_agent(get(other + ".md"))
    theirs = int(get(other + ".ad"))
    handle = agent.initialize_xfer("WRITE", agent.get_xfer_descs([(address, 8, 0)], "DRAM"),
                                   agent.get_xfer_descs([(theirs + 4096, 8, 0)], "DRAM"), other, b"go")

    def send():
        state = agent.transfer(handle)
        while state != "DONE":
            state = agent.check_xfer_state(handle)

    def receive():
        while not agent.get_new_notifs():
            pass

    times = []
    for i in range(rounds + warm):
        start = time.perf_counter()
        if role == "a":
            send()
            receive()
            if i >= warm:
                times.append((time.perf_counter() - start) / 2)
        else:
            receive()
            send()
    time.sleep(0.3)
    if role == "a":
        print(json.dumps({"write + notification, half a round trip": statistics.median(times) * 1e6}), flush=True)
    os._exit(0)


# ---- the front: starts the processes of both sides ----

def environment(reference):
    env = {**os.environ, "NIXL_LOG_LEVEL": "ERROR"}
    if reference:
        for name in ("PYTHONPATH", "NIXL_PLUGIN_DIR", "NIXL_UCX_PATH"):
            env.pop(name, None)
    return env


def run(python, *arguments, reference):
    done = subprocess.run([python, os.path.abspath(__file__), *arguments], env=environment(reference), text=True,
                          capture_output=True, timeout=900)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"{python} measured nothing (exit status {done.returncode}):\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def run_ping_pong(python, reference, rounds):
    with tempfile.TemporaryDirectory() as folder:
        command = [python, os.path.abspath(__file__), "--ping-pong"]
        b = subprocess.Popen([*command, "b", folder, str(rounds)], env=environment(reference), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        try:
            return run(python, "--ping-pong", "a", folder, str(rounds), reference=reference)
        finally:
            b.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("rows", nargs="*", help="only rows whose names contain one of these")
    options = parser.parse_args()
    reference = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    sides = [("ours", sys.executable, False)] + ([("reference", reference, True)] if reference else [])
    raw = {side: {} for side, _, _ in sides}
    trip = "write + notification, half a round trip"
    for _ in range(options.rounds):
        for side, python, is_reference in sides:
            figures = run(python, "--measure", *options.rows, reference=is_reference)
            if not options.rows or any(r in trip for r in options.rows):
                figures.update(run_ping_pong(python, is_reference, 50 if is_reference else 2000))
            for row, value in figures.items():
                raw[side].setdefault(row, []).append(value)
    missed = 0
    print(f"{'':42}{'ours':>12}{'reference':>12}{'ratio':>9}{'goal':>7}")
    for row, (goal, unit) in ROWS.items():
        if row not in raw["ours"]:
            continue
        mine = statistics.median(raw["ours"][row])
        theirs = statistics.median(raw["reference"][row]) if row in raw.get("reference", {}) else None
        ratio = theirs / max(mine, 1e-9) if theirs is not None else None
        mark = ""
        if ratio is not None and goal is not None and ratio < goal:
            mark, missed = " missed", missed + 1
        print(f"{row + ', ' + unit:42}{mine:12.2f}" + (f"{theirs:12.2f}{ratio:9.1f}{goal:7.1f}{mark}" if ratio is not None else ""))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"python": sys.version.split()[0], "rounds": options.rounds, "figures": raw}, out, indent=1)
    if "reference" in raw:
        print(f"{missed} goals missed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2:])
    elif sys.argv[1:2] == ["--ping-pong"]:
        ping_pong(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
