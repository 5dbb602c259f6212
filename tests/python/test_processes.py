# SPDX-License-Identifier: Apache-2.0
"""Two processes over UCX, files over POSIX, and the reference on either side: real bytes, compared."""
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD, SOURCE, Buffer, finish, until

import nixl._api as api
import nixl._bindings as b

PEER = os.path.join(SOURCE, "tests", "python", "peer.py")
UCX122 = os.environ.get("NIXL_TEST_UCX122")
REFERENCE = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")


def have_ucx():
    return os.path.exists(os.path.join(BUILD, "plugins", "libplugin_UCX.so"))


def peers(folder, tls, initiator=sys.executable, target=sys.executable, ucx=None, params=("", ""), blocks=16):
    """Runs both sides of peer.py; their outputs."""
    running = []
    for role, python, name, other, extra in (("initiator", initiator, "i", "t", params[0]), ("target", target, "t", "i", params[1])):
        env = {**os.environ, "UCX_TLS": tls, "NIXL_LOG_LEVEL": "WARN", "NIXL_PEER_PARAMS": extra, "NIXL_PEER_BLOCKS": str(blocks)}
        if python != sys.executable:
            for ours in ("PYTHONPATH", "NIXL_PLUGIN_DIR"):
                env.pop(ours, None)
        elif ucx:
            env["NIXL_UCX_PATH"] = ucx
        running.append(subprocess.Popen([python, PEER, role, str(folder), name, other], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    outputs = [process.communicate(timeout=50)[0] for process in running]
    for process, output in zip(running, outputs):
        assert process.returncode == 0, output
    return outputs


def check(outputs):
    initiator, target = outputs
    assert initiator.splitlines()[-3:] == ["read DONE True", "write DONE", "end"], initiator
    assert target.splitlines()[-2:] == ["[b'read\\x00done', b'written', b'bye'] True", "end"], target


@pytest.mark.parametrize("tls", ["tcp,self", "all"])
@pytest.mark.parametrize("version", ["system", "1.22"])
def test_two_processes_move_bytes_over_ucx(tmp_path, tls, version):
    if not have_ucx():
        pytest.skip("the UCX backend is not built here")
    if version == "1.22" and not UCX122:
        pytest.skip("UCX 1.22 cannot be had (scripts/ucx122.sh)")
    check(peers(tmp_path, tls, ucx=UCX122 if version == "1.22" else None))


@pytest.mark.parametrize("side", ["target", "initiator"])
def test_the_reference_is_the_peer(tmp_path, side):
    """Metadata, pickled lists, reads, writes and notifications, one side this library, the other the reference."""
    if not REFERENCE:
        pytest.skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    if not UCX122:
        pytest.skip("UCX 1.22, which the reference speaks, cannot be had (scripts/ucx122.sh)")
    check(peers(tmp_path, "tcp,self", ucx=UCX122, **{side: REFERENCE}))


@pytest.mark.parametrize("theirs", ["", "num_workers=4 num_threads=2"])
@pytest.mark.parametrize("tls", ["tcp,self", "all"])
@pytest.mark.parametrize("side", ["target", "initiator"])
def test_several_workers_here_reach_the_reference_with_any_number(tmp_path, side, tls, theirs):
    """4,096 scattered blocks both ways between four workers here and one or more there: one address carries all."""
    if not REFERENCE:
        pytest.skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    if not UCX122:
        pytest.skip("UCX 1.22, which the reference speaks, cannot be had (scripts/ucx122.sh)")
    ours = "num_workers=4 num_threads=2 split_batch_size=64"
    params = (theirs, ours) if side == "initiator" else (ours, theirs)
    check(peers(tmp_path, tls, ucx=UCX122, params=params, blocks=4096, **{side: REFERENCE}))


def test_an_idle_agent_uses_no_processor():
    if not have_ucx():
        pytest.skip("the UCX backend is not built here")
    code = textwrap.dedent("""
        import time, nixl._api as a
        A, B = a.nixl_agent("A"), a.nixl_agent("B")
        A.add_remote_agent(B.get_agent_metadata())
        A.send_notif("B", b"x")
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(2)
        print(time.process_time() - before)
    """)
    out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "NIXL_LOG_LEVEL": "WARN"}, text=True,
                         capture_output=True, timeout=30, check=True).stdout
    assert float(out) < 0.02, "1 % of a core"


# ---- files ----

@pytest.fixture
def storage():
    with api.nixl_agent("storage", api.nixl_agent_config(backends=["POSIX"])) as made:
        yield made


def test_pages_go_to_a_file_and_come_back(storage, tmp_path):
    page, n = 4096, 16
    memory, back = Buffer(page * n, 0x33), Buffer(page * n)
    fd = os.open(tmp_path / "pool", os.O_RDWR | os.O_CREAT)
    storage.register_memory([(memory.addr + i * page, page, 2, "") for i in range(n)], "DRAM")
    storage.register_memory(back.reg(), "DRAM")
    storage.register_memory([(0, page * n, fd, "")], "FILE")
    host = storage.prep_xfer_dlist("", [(memory.addr + i * page, page, 2) for i in range(n)], mem_type="DRAM")
    other = storage.prep_xfer_dlist("", back.blocks(page), mem_type="DRAM")
    file = storage.prep_xfer_dlist("storage", [(i * page, page, fd) for i in range(n)], mem_type="FILE")
    for operation, side in (("WRITE", host), ("READ", other)):
        handle = storage.make_prepped_xfer(operation, side, list(range(n)), file, list(range(n)))
        storage.transfer(handle)
        assert finish(storage, handle) == "DONE"
        assert handle.transport.startswith("POSIX")
    assert (tmp_path / "pool").read_bytes() == memory.bytes == back.bytes
    os.close(fd)


def test_files_are_named_by_path(storage, tmp_path):
    memory, path = Buffer(4096, 0x44), tmp_path / "by-path"
    storage.register_memory(memory.reg(), "DRAM")
    reg = storage.register_memory([(0, 4096, 7, f"rw,create:{path}")], "FILE")
    handle = storage.initialize_xfer("WRITE", storage.get_xfer_descs(memory.blocks(4096), "DRAM"), reg.trim(), "storage")
    storage.transfer(handle)
    finish(storage, handle)
    storage.release_xfer_handle(handle)
    storage.deregister_memory(reg)
    assert path.read_bytes() == memory.bytes


def test_the_probe_for_path_mode_is_refused_and_creates_nothing(storage):
    """A storage client asks this way whether files can be named by path."""
    with pytest.raises(b.nixlError, match="nonexistent-nixl-probe"):
        storage.register_memory(storage.get_reg_descs([(0, 4096, 1, "rw:/nonexistent-nixl-probe")], "FILE"))
    assert not os.path.exists("/nonexistent-nixl-probe")


def test_files_are_queried(storage, tmp_path):
    (tmp_path / "there").write_bytes(b"12345")
    answers = storage.query_memory([(0, 0, 0, str(tmp_path / "there")), (0, 0, 0, str(tmp_path / "not"))], "POSIX", mem_type="FILE")
    assert answers[0]["size"] == "5" and answers[1] is None


def test_a_short_read_fails_in_words(storage, tmp_path):
    (tmp_path / "short").write_bytes(b"x" * 100)
    memory = Buffer(4096)
    fd = os.open(tmp_path / "short", os.O_RDONLY)
    storage.register_memory(memory.reg(), "DRAM")
    storage.register_memory([(0, 4096, fd, "")], "FILE")
    handle = storage.initialize_xfer("READ", storage.get_xfer_descs(memory.blocks(4096), "DRAM"),
                                     storage.get_xfer_descs([(0, 4096, fd)], "FILE"), "storage")
    with pytest.raises(b.nixlBackendError) as caught:
        storage.transfer(handle)
        finish(storage, handle)
    assert caught.value.backend == "POSIX" and len(str(caught.value)) > len("NIXL_ERR_BACKEND: ")
    os.close(fd)


def test_both_kinds_of_backend_serve_one_agent(tmp_path):
    if not have_ucx():
        pytest.skip("the UCX backend is not built here")
    with api.nixl_agent("both", api.nixl_agent_config(backends=["UCX", "POSIX"])) as both, api.nixl_agent("peer") as peer:
        memory, theirs = Buffer(8192, 1), Buffer(8192)
        both.register_memory(memory.reg(), "DRAM")
        peer.register_memory(theirs.reg(), "DRAM", backends=("UCX",))
        both.add_remote_agent(peer.get_agent_metadata())
        reg = both.register_memory([(0, 8192, 1, f"rw,create:{tmp_path / 'f'}")], "FILE")
        local = both.get_xfer_descs(memory.blocks(4096), "DRAM")
        for remote, name in ((peer.get_xfer_descs(theirs.blocks(4096), "DRAM"), "peer"),
                             (both.get_xfer_descs([(i * 4096, 4096, 1) for i in range(2)], "FILE"), "both")):
            handle = both.initialize_xfer("WRITE", local, remote, name)
            both.transfer(handle)
            finish(both, handle)
            assert both.query_xfer_backend(handle) == ("UCX" if name == "peer" else "POSIX")
        assert theirs.bytes == memory.bytes == (tmp_path / "f").read_bytes()
        assert reg


@pytest.mark.parametrize("version", ["system", "1.22"])
def test_an_agent_in_c_is_the_peer(tmp_path, version):
    """Each reads and writes the other's memory, and each hears of it."""
    if not have_ucx():
        pytest.skip("the UCX backend is not built here")
    if version == "1.22" and not UCX122:
        pytest.skip("UCX 1.22 cannot be had (scripts/ucx122.sh)")
    if version == "1.22":
        code = "import test_processes as t, sys; t.c_peer_session(sys.argv[1])"
        env = {**os.environ, "NIXL_UCX_PATH": UCX122, "NIXL_LOG_LEVEL": "WARN"}
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        c_peer_session(str(tmp_path))


def c_peer_session(folder):
    peer = subprocess.Popen([os.path.join(BUILD, "tests", "python", "python-c-peer"), folder], stderr=subprocess.PIPE, text=True)

    def read(name):
        path = os.path.join(folder, name)
        until(lambda: os.path.exists(path) or peer.poll() is not None, 20)
        with open(path, "rb") as file:
            return file.read()

    def heard(message):
        until(lambda: message in agent.update_notifs().get("c", []), 20)

    try:
        with api.nixl_agent("python") as agent:
            memory, mine = Buffer(1 << 20, ord("P")), Buffer(1 << 20, ord("C") ^ 1)
            agent.register_memory(memory.reg() + mine.reg(), "DRAM")
            for name, data in (("python.metadata", agent.get_agent_metadata()), ("python.address", str(memory.addr).encode())):
                with open(os.path.join(folder, name + ".part"), "wb") as file:
                    file.write(data)
                os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))
            address = int(read("c.address"))
            assert agent.add_remote_agent(read("c.metadata")) == b"c"
            heard(b"c has read")
            heard(b"c has written")
            assert memory.bytes == b"w" * memory.size
            local = agent.get_strided_descs([(mine.addr, 4096, 0, 4096, 256)], mem_type="DRAM")
            remote = agent.get_strided_descs([(address, 4096, 0, 4096, 256)], mem_type="DRAM")
            with agent.initialize_xfer("READ", local, remote, "c") as handle:
                agent.transfer(handle)
                finish(agent, handle, 20)
                assert mine.bytes == b"C" * mine.size
            mine.memory.raw = b"v" * mine.size
            with agent.initialize_xfer("WRITE", local, remote, "c", b"python has written") as handle:
                agent.transfer(handle)
                finish(agent, handle, 20)
            heard(b"bye")
        assert peer.wait(20) == 0
    finally:
        peer.kill()
        words = peer.communicate()[1]
    assert words == ""
