# SPDX-License-Identifier: Apache-2.0
"""Threads on one agent in the default mode, the GIL, leaks, and the end of a process."""
import gc
import os
import threading
import time
import tracemalloc

import numpy as np
import pytest
from conftest import Buffer, Pair, agent_named, finish, run_python

import nixl._bindings as b


def test_threads_hammer_one_agent_in_the_default_mode():
    """As servers do: handshakes, posts, polls, notifications and registrations side by side."""
    pair, stop, errors, done = Pair(size=1 << 18), time.monotonic() + 3, [], [0] * 6

    def guarded(slot, work):
        def run():
            try:
                while time.monotonic() < stop:
                    work()
                    done[slot] += 1
            except BaseException as error:
                errors.append(error)
        return threading.Thread(target=run)

    left = pair.left.prep_xfer_dlist("", pair.source.blocks(1024), "DRAM")
    right = pair.left.prep_xfer_dlist(pair.right.name, pair.target.blocks(1024), "DRAM")

    def transfer():
        handle = pair.left.make_prepped_xfer("WRITE", left, [1, 3, 5], right, np.array([1, 3, 5]), b"n")
        pair.left.transfer(handle)
        assert finish(pair.left, handle) == "DONE"

    def handshake():
        third = agent_named("third")
        buffer = Buffer(4096)
        third.register_memory(buffer.reg(), "DRAM")
        pair.left.add_remote_agent(third.get_agent_metadata())
        pair.left.prep_xfer_dlist(third.name, buffer.blocks(64), "DRAM")
        pair.left.remove_remote_agent(third.name)
        third.close()

    def register():
        buffer = Buffer(4096)
        pair.left.deregister_memory(pair.left.register_memory(buffer.reg(), "DRAM"))
        pair.left.get_agent_metadata()

    received = [0]

    def drain():
        received[0] += sum(map(len, pair.right.get_new_notifs().values()))

    threads = [guarded(0, transfer), guarded(1, transfer), guarded(2, handshake), guarded(3, register), guarded(4, drain),
               guarded(5, lambda: pair.left.send_notif(pair.right.name, b"hb"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors and min(done) > 0, (errors, done)
    end = time.monotonic() + 5
    while received[0] < done[0] + done[1] + done[5] and time.monotonic() < end:
        drain()
    assert received[0] == done[0] + done[1] + done[5], "none lost, none twice"
    pair.close()


def test_a_handle_released_while_another_thread_waits_ends_that_wait():
    pair = Pair(params={"hold": "yes"})
    handle, seen = pair.write(), []

    def wait():
        try:
            seen.append(handle.wait(20))
        except b.nixlError as error:
            seen.append(error.status)

    pair.left.transfer(handle)
    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.1)
    pair.left.release_xfer_handle(handle)
    waiter.join(10)
    assert not waiter.is_alive() and seen == [b.NIXL_ERR_CANCELED]
    pair.close()


def test_the_gil_is_free_while_a_call_waits():
    pair = Pair(params={"hold": "yes"})
    handle, count, stop = pair.write(), [0], threading.Event()

    def counter():
        while not stop.is_set():
            count[0] += 1

    pair.left.transfer(handle)
    thread = threading.Thread(target=counter)
    thread.start()
    before = count[0]
    assert handle.wait(0.3) == "PROC"
    counted = count[0] - before
    stop.set()
    thread.join()
    assert counted > 10_000
    pair.close()


def test_a_list_in_use_by_another_thread_cannot_be_changed():
    pair = Pair()
    big = pair.left.get_xfer_descs(np.tile(np.array([[pair.source.addr, 1, 0]], np.uint64), (3_000_000, 1)), "DRAM")
    errors, stop = [], threading.Event()

    def change():
        while not stop.is_set():
            try:
                big[0] = (pair.source.addr, 1, 0)
            except BufferError as error:
                errors.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(5):
        pair.left.prep_xfer_dlist("", big)
    stop.set()
    thread.join()
    assert errors and "in use" in str(errors[0])
    pair.close()


def rss():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ten_thousand_of_everything_leak_nothing():
    pair = Pair()
    local, remote = pair.source.blocks(4096), pair.target.blocks(4096)
    left, right = pair.left.prep_xfer_dlist("", local, "DRAM"), pair.left.prep_xfer_dlist(pair.right.name, remote, "DRAM")
    array = np.array(local, np.uint64)

    def everything():
        handle = pair.left.make_prepped_xfer("WRITE", left, [0, 2], right, np.array([0, 2]), b"n")
        pair.left.transfer(handle, b"m")
        finish(pair.left, handle)
        pair.left.get_xfer_telemetry(handle)
        one = pair.left.initialize_xfer("READ", pair.left.get_xfer_descs(local, "DRAM"),
                                        pair.left.get_xfer_descs(array * 0 + np.array(remote, np.uint64), "DRAM"), pair.right.name)
        pair.left.release_xfer_handle(one)
        pair.right.get_new_notifs()
        with pair.left.registered([(pair.source.addr, 64, 0, "meta")], "DRAM"):
            pair.left.deserialize_descs(pair.left.get_serialized_descs(pair.left.get_reg_descs([(1, 2, 3, "x")], "DRAM")))
        pair.left.get_agent_metadata()
        pair.left.prep_xfer_dlist("", array, "DRAM")
        try:
            pair.left.prep_xfer_dlist("", [(1, 1, 0)], "DRAM")
        except b.nixlNotFoundError:
            pass

    for _ in range(1000):
        everything()
    gc.collect()
    tracemalloc.start()
    first, resident = tracemalloc.take_snapshot(), rss()
    for _ in range(10_000):
        everything()
    gc.collect()
    grown = sum(s.size_diff for s in tracemalloc.take_snapshot().compare_to(first, "filename")
                if "tracemalloc" not in s.traceback[0].filename)
    tracemalloc.stop()
    # Less than one smallest object a round; CPython's own caches take some.
    assert grown < 10_000 * 16, f"Python's memory grew by {grown} bytes"
    assert rss() - resident < 8 << 20, f"the process grew by {rss() - resident} bytes"
    pair.close()


def test_agents_that_come_and_go_leave_nothing():
    for _ in range(5):
        Pair().close()
    files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(30):
        Pair().close()
        pair = Pair()
        del pair
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files and len(os.listdir("/proc/self/task")) <= threads


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "keep.append(pair)", "threading.Thread(target=h.wait, daemon=True).start()"])
def test_a_process_ends_cleanly_with_transfers_in_flight_and_nothing_released(ending):
    code = f"""
import sys, threading
from conftest import Pair
keep = []
pair = Pair(params={{"hold": "yes"}})
h = pair.write(notif=b"x")
pair.left.transfer(h)
d = pair.left.prep_xfer_dlist("", pair.source.blocks(64), "DRAM")
print("to the end", flush=True)
{ending}
"""
    done = run_python(code, env={"NIXL_LOG_LEVEL": "WARN"})
    assert done.stdout == "to the end\n" and done.stderr == ""


def test_del_during_the_interpreter_s_end_is_silent():
    code = """
import sys
from conftest import Pair
class Server:
    def __init__(self):
        self.pair = Pair()
        self.reg = self.pair.left.register_memory(self.pair.source.reg(), "DRAM")
    def __del__(self):
        self.pair.left.remove_remote_agent(self.pair.right.name)
        self.pair.left.deregister_memory(self.reg)
sys.modules["holder"] = Server()
"""
    assert run_python(code, env={"NIXL_LOG_LEVEL": "WARN"}).stderr == ""


def test_ctrl_c_is_heard_while_waiting():
    code = """
import os, signal, threading, time
from conftest import Pair
pair = Pair(params={"hold": "yes"})
h = pair.write()
pair.left.transfer(h)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    h.wait()
except KeyboardInterrupt:
    print("heard")
"""
    assert run_python(code, env={"NIXL_LOG_LEVEL": "WARN"}).stdout == "heard\n"


def test_an_agent_inherited_by_a_forked_child_says_so():
    code = """
import os, warnings
warnings.simplefilter("ignore")
from conftest import Pair
import nixl._bindings as b
pair = Pair()
child = os.fork()
if child == 0:
    try:
        pair.left.send_notif(pair.right.name, b"x")
    except b.nixlNotAllowedError as error:
        os._exit(7 if "fork" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
h = pair.write()
pair.left.transfer(h)
print(h.wait(5))
"""
    assert run_python(code, env={"NIXL_LOG_LEVEL": "WARN"}).stdout == "7\nDONE\n"
