# SPDX-License-Identifier: Apache-2.0
"""nixl._api over a backend of one process: the reference's surface, answers and quirks, and what programs rely on."""
import gc
import inspect
import logging
import os

import numpy as np
import pytest
from conftest import Buffer, agent_named, finish, until

import nixl._api as api
import nixl._bindings as b

# Method: its parameters and defaults, as programs written for the reference call them.
SURFACE = {
    "get_plugin_list": "()",
    "get_plugin_mem_types": "(backend)",
    "get_plugin_params": "(backend)",
    "get_backend_mem_types": "(backend)",
    "get_backend_params": "(backend)",
    "create_backend": "(backend, initParams={})",
    "register_memory": "(reg_list, mem_type=None, backends=[])",
    "deregister_memory": "(dereg_list, backends=[])",
    "query_memory": "(reg_list, backend, mem_type=None)",
    "make_connection": "(remote_agent, backends=[])",
    "prep_xfer_dlist": "(agent_name, xfer_list, mem_type=None, backends=[])",
    "estimate_xfer_cost": "(req_handle)",
    "make_prepped_xfer": "(operation, local_xfer_side, local_indices, remote_xfer_side, remote_indices, notif_msg=b'', "
                         "backends=[], skip_desc_merge=False)",
    "initialize_xfer": "(operation, local_descs, remote_descs, remote_agent, notif_msg=b'', backends=[])",
    "transfer": "(handle, notif_msg=b'')",
    "check_xfer_state": "(handle)",
    "get_xfer_telemetry": "(handle)",
    "query_xfer_backend": "(handle)",
    "release_xfer_handle": "(handle)",
    "release_dlist_handle": "(handle)",
    "prep_mem_view": "(dlist, *, backends=None)",
    "release_mem_view": "(mvh)",
    "get_new_notifs": "(backends=[])",
    "update_notifs": "(backends=[])",
    "check_remote_xfer_done": "(remote_agent_name, lookup_tag, backends=[], tag_is_prefix=True)",
    "send_notif": "(remote_agent_name, notif_msg, backend=None)",
    "get_agent_metadata": "()",
    "get_partial_agent_metadata": "(descs, inc_conn_info=False, backends=[])",
    "add_remote_agent": "(metadata)",
    "remove_remote_agent": "(agent)",
    "send_local_metadata": "(ip_addr='', port=8888)",
    "send_partial_agent_metadata": "(descs, inc_conn_info=False, backends=[], ip_addr='', port=8888, label='')",
    "fetch_remote_metadata": "(remote_agent, ip_addr='', port=8888, label='')",
    "invalidate_local_metadata": "(ip_addr='', port=8888)",
    "check_remote_metadata": "(agent, descs=None)",
    "get_xfer_descs": "(descs, mem_type=None)",
    "get_reg_descs": "(descs, mem_type=None)",
    "get_remote_descs": "(descs, mem_type=None)",
    "get_serialized_descs": "(descs)",
    "deserialize_descs": "(serialized_descs)",
}


@pytest.mark.parametrize("name", SURFACE)
def test_methods_have_the_reference_s_parameters(name):
    signature = inspect.signature(getattr(api.nixl_agent, name))
    beyond = {"timeout"}
    kept = [p.replace(annotation=inspect.Parameter.empty) for n, p in signature.parameters.items()
            if n != "self" and n not in beyond]
    assert str(inspect.Signature(kept)) == SURFACE[name]
    assert all(p.kind is p.KEYWORD_ONLY for n, p in signature.parameters.items() if n in beyond)
    assert inspect.getdoc(getattr(api.nixl_agent, name))


def test_the_configuration_has_the_reference_s_names():
    keywords = dict(enable_prog_thread=False, enable_listen_thread=False, listen_port=1234, capture_telemetry=True,
                    num_threads=4, backends=("MOCK",), sync_mode=api.nixl_thread_sync_t.NIXL_THREAD_SYNC_RW)
    conf = api.nixl_agent_config(**keywords)
    assert (conf.enable_pthread, conf.enable_listen, conf.port, conf.capture_telemetry) == (False, False, 1234, True)
    assert (conf.num_threads, conf.backends) == (4, ("MOCK",))
    assert api.nixl_agent_config(False, False, 1234, True, 4, ["A"]).backends == ["A"]
    assert api.nixl_agent_config().backends == ["UCX"] and api.nixl_agent_config().enable_pthread is True
    with pytest.raises(TypeError, match=r"sync_mode must be a nixl_thread_sync_t \(got 'int'\)"):
        api.nixl_agent_config(sync_mode=1)


def test_names_that_programs_import_are_there():
    for name in ("nixl_agent nixl_agent_config nixlBind nixl_thread_sync_t nixl_prepped_dlist_handle nixl_xfer_handle "
                 "nixl_backend_handle DEFAULT_COMM_PORT").split():
        assert hasattr(api, name)
    for name in ("nixlAgent nixlAgentConfig nixlRegDList nixlXferDList nixlXferTelemetry NIXL_THREAD_SYNC_STRICT "
                 "NIXL_THREAD_SYNC_RW nixlBackendError nixlCancelledError nixlRemoteDisconnectError NIXL_INIT_AGENT "
                 "nixlNotPostedError nixlInvalidParamError nixlNotFoundError nixlMismatchError nixlNotAllowedError "
                 "nixlRepostActiveError nixlUnknownError nixlNotSupportedError nixlNoTelemetryError").split():
        assert hasattr(b, name)
    assert api.nixl_backend_handle is int and b.DEFAULT_COMM_PORT == 8888
    assert issubclass(b.nixlBackendError, Exception)


def test_an_agent_has_the_reference_s_attributes(agent):
    assert isinstance(agent.agent, b.nixlAgent) and agent.notifs == {} and agent._leaked_xfer_handles == []
    assert list(agent.backends) == ["MOCK"] and isinstance(agent.backends["MOCK"], int)
    assert "MOCK" in agent.plugin_list and agent.plugin_list == agent.get_plugin_list()
    assert agent.backend_mems["MOCK"] == agent.get_backend_mem_types("MOCK") == ["DRAM_SEG", "VRAM_SEG"]
    assert agent.get_plugin_mem_types("MOCK")[:2] == ["DRAM_SEG", "VRAM_SEG"]
    assert agent.get_plugin_params("MOCK")["delay_us"] == "0" == agent.get_backend_params("MOCK")["delay_us"]
    assert agent.nixl_mems["cuda"] is b.VRAM_SEG and agent.nixl_ops["READ"] is b.NIXL_READ


def test_what_is_not_there_is_warned_of_and_answered_empty(agent, capsys):
    assert agent.get_plugin_params("NOPE") == {} and agent.get_plugin_mem_types("NOPE") == []
    assert agent.get_backend_params("NOPE") == {} and agent.get_backend_mem_types("NOPE") == []
    assert capsys.readouterr().out.count("NIXL WARNING _api.py:") == 4
    with pytest.raises(KeyError):
        agent.register_memory([(1, 2, 0, "")], "DRAM", backends=["NOPE"])
    with pytest.raises(ValueError, match=r"Backend 'NOPE' not found. Available backends: \['MOCK'\]"):
        agent.query_memory([(0, 0, 0, "x")], "NOPE", "FILE")
    with pytest.raises(b.nixlNotFoundError, match="NOPE") as caught:
        agent.create_backend("NOPE", {})
    assert caught.value.backend == "NOPE"


def test_a_start_prints_the_two_lines_and_nothing_else(capsys):
    agent_named("two-lines").close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].split("_api.py:")[1].split(" ", 1)[1] == "Backend MOCK was instantiated"
    assert lines[1].split("_api.py:")[1].split(" ", 1)[1].startswith("Initialized NIXL agent: two-lines")
    assert " NIXL INFO    _api.py:" in lines[0]


def test_a_missing_plugin_is_skipped_with_a_warning(capsys):
    with agent_named("skips", backends=("MOCK", "NOPE")) as made:
        assert list(made.backends) == ["MOCK"]
    assert "Skipping backend registration NOPE due to the missing plugin." in capsys.readouterr().out


def test_parameters_a_plugin_does_not_know_are_left_out_with_a_warning(capsys):
    with agent_named("left-out", backends=[]) as made:
        made.create_backend("MOCK", {"num_threads": "8", "delay_us": "5"})
        assert made.get_backend_params("MOCK")["delay_us"] == "5"
        assert "MOCK has no parameter 'num_threads'" in capsys.readouterr().out
    with agent_named("refused", backends=[]) as made:
        with pytest.raises(b.nixlInvalidParamError, match="delay_us"):
            made.create_backend("MOCK", {"delay_us": "soon"})


def test_an_empty_name_is_a_value_error():
    with pytest.raises(ValueError, match="Agent needs a non-empty name"):
        api.nixl_agent("", api.nixl_agent_config(backends=[]))


def test_no_plugins_is_a_runtime_error(tmp_path):
    from conftest import run_python

    code = "import nixl._api as a; a.nixl_agent('x', a.nixl_agent_config(backends=[]))"
    done = run_python(code, env={"NIXL_PLUGIN_DIR": str(tmp_path)}, check=False)
    assert "RuntimeError: No plugins available for NIXL, cannot start transfers!" in done.stderr


# ---- transfers ----

@pytest.mark.parametrize("operation", ["READ", "WRITE"])
@pytest.mark.parametrize("local", ["", "NIXL_INIT_AGENT"])
@pytest.mark.parametrize("form", ["tuples", "array", "int64", "list", "strided"])
def test_prepared_lists_of_every_form_move_the_right_bytes(pair, operation, local, form):
    size, n = 1024, 64

    def shape(buffer):
        blocks = buffer.blocks(size, n)
        return {"tuples": (blocks, "DRAM"), "array": (np.array(blocks, np.uint64), "DRAM"),
                "int64": (np.array(blocks, np.int64), "DRAM"), "list": (pair.left.get_xfer_descs(blocks, "DRAM"), None),
                "strided": (pair.left.get_strided_descs([(buffer.addr, size, 0, size, n)], mem_type="DRAM"), None)}[form]

    left = pair.left.prep_xfer_dlist(local, *shape(pair.source))
    right = pair.left.prep_xfer_dlist(pair.right.name, *shape(pair.target))
    assert len(left) == n and left and right
    chosen = np.array([3, 4, 5, 60, 7], np.int64)
    handle = pair.left.make_prepped_xfer(operation, left, chosen, right, chosen[::-1].copy(), b"note")
    pair.left.transfer(handle)
    assert finish(pair.left, handle) == "DONE"
    moved = pair.target if operation == "WRITE" else pair.source
    fresh, old = (0x5A, 0) if operation == "WRITE" else (0, 0x5A)
    for i in range(n):
        assert set(moved.bytes[i * size:(i + 1) * size]) == {fresh if i in chosen else old}
    assert until(pair.right.get_new_notifs) == {pair.left.name: [b"note"]}


@pytest.mark.parametrize("indices", [
    [0, 2], (0, 2), range(0, 3, 2), np.array([0, 2], np.int64), np.array([0, 2], np.int32), np.array([0, 2], np.uint8),
    np.array([0, 2], np.int16), np.array([0, 2], np.uint64), np.array([0, 2], np.uint32), np.array([0, 9, 2])[::2],
    [np.int64(0), np.int32(2)],
])
def test_indices_are_integers_of_any_kind(pair, indices):
    left = pair.left.prep_xfer_dlist("", pair.source.blocks(4096), "DRAM")
    right = pair.left.prep_xfer_dlist(pair.right.name, pair.target.blocks(4096), "DRAM")
    handle = pair.left.make_prepped_xfer("WRITE", left, indices, right, [0, 1])
    pair.left.transfer(handle)
    assert finish(pair.left, handle) == "DONE"
    assert pair.target.bytes == b"\x5a" * 8192 + bytes(pair.target.size - 8192)


def test_indices_that_cannot_be_right_are_refused(pair):
    left = pair.left.prep_xfer_dlist("", pair.source.blocks(4096), "DRAM")
    right = pair.left.prep_xfer_dlist(pair.right.name, pair.target.blocks(4096), "DRAM")

    def make(local, remote=(0,)):
        return pair.left.make_prepped_xfer("WRITE", left, local, right, remote)

    for local in ([99], [-1], np.array([2**40]), np.array([-1]), np.array([-1], np.int8), [2**70]):
        with pytest.raises(b.nixlInvalidParamError):
            make(local)
    with pytest.raises(b.nixlInvalidParamError, match="2 local and 1 remote"):
        make([0, 1])
    with pytest.raises(b.nixlInvalidParamError):
        make([], [])
    with pytest.raises(ValueError, match="1D"):
        make(np.zeros((1, 1), int))
    for local in (np.array([0.0]), ["0"], [0.5], 5):
        with pytest.raises(TypeError):
            make(local)
    with pytest.raises(KeyError, match="COPY"):
        pair.left.make_prepped_xfer("COPY", left, [0], right, [0])
    assert make(None, None)


def test_adjoining_blocks_become_one_descriptor_unless_asked_not_to(make_pair):
    pair = make_pair(capture_telemetry=True)
    left = pair.left.prep_xfer_dlist("", pair.source.blocks(64), "DRAM")
    right = pair.left.prep_xfer_dlist(pair.right.name, pair.target.blocks(64), "DRAM")
    for more, count in (({}, 1), ({"skip_desc_merge": True}, 8)):
        handle = pair.left.make_prepped_xfer("WRITE", left, np.arange(8), right, list(range(8)), **more)
        pair.left.transfer(handle)
        finish(pair.left, handle)
        assert pair.left.get_xfer_telemetry(handle).descCount == count


def test_a_transfer_s_states_are_words(pair):
    handle = pair.write(notif=b"a\0b")
    with pytest.raises(b.nixlNotPostedError, match="NIXL_ERR_NOT_POSTED"):
        pair.left.check_xfer_state(handle)
    assert pair.left.transfer(handle) in ("PROC", "DONE")
    assert [finish(pair.left, handle) for _ in range(3)] == ["DONE"] * 3
    assert pair.target.bytes == pair.source.bytes
    assert pair.left.query_xfer_backend(handle) == "MOCK"
    assert until(pair.right.get_new_notifs) == {pair.left.name: [b"a\0b"]}


def test_a_repost_sends_the_notification_again_and_a_new_one_replaces_it(pair):
    handle = pair.write(notif=b"one")
    for message in (b"", b"two", b""):
        pair.left.transfer(handle, message)
        finish(pair.left, handle)
    got = []
    until(lambda: got.extend(pair.right.get_new_notifs().get(pair.left.name, [])) or len(got) == 3)
    assert got == [b"one", b"two", b"two"]


def test_keywords_are_the_reference_s(pair):
    local = pair.left.get_xfer_descs(descs=pair.source.blocks(64), mem_type="cpu")
    remote = pair.left.get_xfer_descs(descs=pair.target.blocks(64), mem_type="cpu")
    handle = pair.left.initialize_xfer(operation="WRITE", local_descs=local, remote_descs=remote,
                                       remote_agent=pair.right.name, notif_msg=b"k", backends=["MOCK"])
    pair.left.transfer(handle, b"dynamo")
    finish(pair.left, handle)
    assert until(pair.right.get_new_notifs) == {pair.left.name: [b"dynamo"]}


def test_lists_that_do_not_fit_are_refused_with_index_and_words(pair):
    local = pair.left.get_xfer_descs([(pair.source.addr, 8, 0)], "DRAM")
    remote = pair.left.get_xfer_descs([(pair.target.addr, 16, 0)], "DRAM")
    with pytest.raises(b.nixlInvalidParamError) as caught:
        pair.left.initialize_xfer("WRITE", local, remote, pair.right.name)
    assert caught.value.status is b.NIXL_ERR_INVALID_PARAM and caught.value.index == 0
    with pytest.raises(TypeError):
        pair.left.initialize_xfer("WRITE", None, None, pair.right.name)
    with pytest.raises(b.nixlNotFoundError, match="nobody"):
        pair.left.initialize_xfer("WRITE", local, local, "nobody")


def test_memory_that_is_not_registered_is_named(pair):
    with pytest.raises(b.nixlNotFoundError, match=r"^NIXL_ERR_NOT_FOUND: .*descriptor 1 .*0x1,") as caught:
        pair.left.prep_xfer_dlist("", [(pair.source.addr, 8, 0), (1, 2, 0)], "DRAM")
    assert (caught.value.status, caught.value.index) == (b.NIXL_ERR_NOT_FOUND, 1)


def test_own_name_is_the_remote_side_of_a_copy_within_the_agent(pair):
    other = Buffer(4096)
    with pair.left.registered(other.reg(), "DRAM"):
        left = pair.left.prep_xfer_dlist("", [(pair.source.addr, 4096, 0)], mem_type="DRAM")
        right = pair.left.prep_xfer_dlist(pair.left.name, [(other.addr, 4096, 0)], mem_type="DRAM")
        handle = pair.left.make_prepped_xfer("WRITE", left, [0], right, [0])
        pair.left.transfer(handle)
        finish(pair.left, handle)
        assert other.bytes == b"\x5a" * 4096
        handle.release()


def test_handles_are_true_hashable_and_say_what_they_are(pair):
    handle, dlist = pair.write(), pair.left.prep_xfer_dlist("", pair.source.blocks(64), "DRAM")
    assert handle and dlist and len({handle, dlist}) == 2
    assert repr(handle).startswith("nixl_xfer_handle(0x") and repr(handle).endswith(", released=False)")
    assert repr(dlist).startswith("nixl_prepped_dlist_handle(0x")
    for each in (lambda: pair.left.release_xfer_handle(handle), lambda: pair.left.release_dlist_handle(dlist)):
        each()
        each()
    assert repr(handle).endswith("released=True)") and repr(dlist).endswith("released=True)")
    with pytest.raises(b.nixlInvalidParamError, match="released"):
        pair.left.check_xfer_state(handle)
    with pytest.raises(b.nixlInvalidParamError, match="released"):
        pair.left.make_prepped_xfer("WRITE", dlist, [0], dlist, [0])


def test_numbers_of_released_handles_are_never_taken_for_others(pair):
    old = pair.write()
    number = old._handle
    old.release()
    fresh = [pair.write() for _ in range(50)]
    assert number not in [h._handle for h in fresh]
    for call in (pair.left.agent.postXferReq, pair.left.agent.releaseXferReq, pair.left.agent.xferError):
        with pytest.raises(b.nixlInvalidParamError):
            call(number)
        with pytest.raises((b.nixlInvalidParamError, TypeError)):
            call(2**63)


def test_a_handle_in_flight_can_be_dropped_and_released(make_pair):
    pair = make_pair(params={"delay_us": "30000"})
    handle = pair.write()
    assert pair.left.transfer(handle) == "PROC"
    del handle
    gc.collect()
    second = pair.write()
    pair.left.transfer(second)
    pair.left.release_xfer_handle(second)
    pair.left.agent.getNotifs()


def test_telemetry_is_numbers_in_microseconds(make_pair):
    pair = make_pair(capture_telemetry=True)
    handle = pair.write(blocks=2)
    pair.left.transfer(handle)
    finish(pair.left, handle)
    times = pair.left.get_xfer_telemetry(handle)
    assert isinstance(times, b.nixlXferTelemetry) and times.postDuration / 1e6 > 0
    assert times.xferDuration >= times.postDuration >= 1 and times.startTime > 0
    assert (times.totalBytes, times.descCount) == (1 << 16, 2)


def test_a_transfer_s_cost_is_microseconds_and_how_they_were_found(pair):
    handle = pair.write(blocks=2)
    # MOCK says 8 bytes a nanosecond and a tenth in doubt: 8192 and 819 ns of 65536 bytes, rounded up.
    assert pair.left.estimate_xfer_cost(handle) == (9, 1, "ANALYTICAL_BACKEND")
    pair.left.release_xfer_handle(handle)


def test_the_cost_of_a_backend_that_cannot_tell_is_declared_then_measured(make_pair):
    pair = make_pair(params={"mute": "yes"})
    handle = pair.write(blocks=1)
    duration, margin, method = pair.left.estimate_xfer_cost(handle)
    assert duration > 0 and margin > 0 and method == "DECLARED"
    handle = pair.write(blocks=1)
    pair.left.transfer(handle)
    finish(pair.left, handle)
    duration, margin, method = pair.left.estimate_xfer_cost(handle)
    assert duration > 0 and margin > 0 and method == "MEASURED"


def test_a_finished_transfer_has_telemetry_also_while_it_is_off(pair):
    handle = pair.write(blocks=2)
    with pytest.raises(b.nixlNotPostedError):
        pair.left.get_xfer_telemetry(handle)
    pair.left.transfer(handle)
    finish(pair.left, handle)
    times = pair.left.get_xfer_telemetry(handle)
    assert times.xferDuration >= times.postDuration >= 1 and (times.totalBytes, times.descCount) == (1 << 16, 2)
    with pytest.raises(b.nixlNoTelemetryError):
        pair.left.agent.getXferTelemetry(handle._handle)


def test_a_failure_is_raised_with_its_words_and_the_handle_stays_good(make_pair):
    pair = make_pair(params={"fail_at": "0", "fail_text": "the cable is out"})
    handle = pair.write()
    with pytest.raises(b.nixlBackendError, match="the cable is out") as caught:
        pair.left.transfer(handle)
        finish(pair.left, handle)
    assert caught.value.backend == "MOCK" and "the cable is out" in handle.error
    with pytest.raises(b.nixlBackendError):
        pair.left.check_xfer_state(handle)
    pair.left.release_xfer_handle(handle)


def test_wait_and_cancel_and_timeouts(make_pair):
    pair = make_pair(params={"hold": "yes"})
    handle = pair.write()
    pair.left.transfer(handle)
    assert handle.wait(0.05) == "PROC" and handle.wait(0) == "PROC"
    handle.cancel()
    with pytest.raises(b.nixlCancelledError):
        handle.wait(5)
    handle = pair.write(timeout=0.05)
    pair.left.transfer(handle)
    with pytest.raises(b.nixlCancelledError):
        handle.wait(5)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="negative"):
            pair.write(timeout=wrong)


def test_a_deadline_for_all_transfers_of_an_agent(make_pair):
    pair = make_pair(params={"hold": "yes"}, xfer_timeout=0.05)
    handle = pair.write()
    pair.left.transfer(handle)
    with pytest.raises(b.nixlCancelledError):
        handle.wait(5)


def test_with_releases(pair):
    with pair.write() as handle, pair.left.prep_xfer_dlist("", pair.source.blocks(64), "DRAM") as dlist:
        pair.left.transfer(handle)
        assert handle.wait(5) == "DONE" and handle.transport.startswith("MOCK")
    assert handle._released and dlist._released


def test_a_closed_agent_says_so_and_releases_are_silent(pair):
    handle, dlist = pair.write(), pair.left.prep_xfer_dlist("", pair.source.blocks(64), "DRAM")
    pair.left.close()
    pair.left.close()
    for call in (lambda: pair.left.get_agent_metadata(), lambda: pair.left.check_xfer_state(handle),
                 lambda: pair.left.send_notif("x", b"y"), lambda: pair.left.register_memory(pair.source.reg(), "DRAM")):
        with pytest.raises(b.nixlNotFoundError, match="closed"):
            call()
    pair.left.release_xfer_handle(handle)
    pair.left.release_dlist_handle(dlist)


# ---- memory ----

def test_registrations_are_dropped_by_the_list_that_was_passed_or_an_equal_one(agent):
    buffer = Buffer(8192)
    passed = agent.get_reg_descs([(buffer.addr, 8192, 0, "cpu")], mem_type="DRAM")
    returned = agent.register_memory(passed, backends=("MOCK",))
    assert returned is passed and bool(returned)
    again = agent.register_memory(buffer.reg(), mem_type="DRAM")
    agent.deregister_memory(passed)
    agent.deregister_memory(agent.get_reg_descs([(buffer.addr, 8192, 0, "")], "DRAM"))
    with pytest.raises(b.nixlNotFoundError):
        agent.deregister_memory(again)
    agent.register_memory(np.array([[buffer.addr, 8192, 0]], np.uint64), "DRAM")


def test_device_numbers_of_host_memory_are_allowed(agent):
    buffer = Buffer(8192)
    agent.register_memory([(buffer.addr, 4096, 3, "")], "DRAM")
    agent.prep_xfer_dlist("", [(buffer.addr, 16, 3)], "DRAM")
    assert agent.register_memory([(buffer.addr + 7, 33, 0, "")], "DRAM")


def test_wrong_forms_of_registrations_raise(agent, capsys):
    with pytest.raises(TypeError):
        agent.register_memory([(1, 2, 0)], "DRAM")
    assert "tuples of 4" in capsys.readouterr().out
    with pytest.raises(TypeError):
        agent.register_memory(None)
    with pytest.raises(TypeError):
        agent.deregister_memory(None)


# ---- peers, notifications, metadata ----

def test_add_remote_agent_returns_bytes_and_may_be_called_again(pair):
    blob = pair.right.get_agent_metadata()
    assert isinstance(blob, bytes)
    assert pair.left.add_remote_agent(blob) == pair.right.name.encode() == pair.left.add_remote_agent(blob)
    more = Buffer(4096)
    pair.right.register_memory(more.reg(), "DRAM")
    pair.left.add_remote_agent(pair.right.get_agent_metadata())
    assert pair.left.check_remote_metadata(pair.right.name, pair.left.get_xfer_descs(more.blocks(64), "DRAM"))


def test_removing_an_agent_never_raises(pair):
    for name in (pair.right.name, pair.right.name, "nobody", pair.left.name, b"bytes"):
        assert pair.left.remove_remote_agent(name) is None
    assert pair.left.check_remote_metadata(pair.right.name) is False


def test_removing_an_agent_ends_what_is_in_flight_to_it(make_pair):
    pair = make_pair(params={"hold": "yes"})
    handle = pair.write()
    pair.left.transfer(handle)
    pair.left.remove_remote_agent(pair.right.name)
    with pytest.raises(b.nixlNotFoundError, match="removed"):
        finish(pair.left, handle)
    pair.left.release_xfer_handle(handle)


def test_metadata_that_cannot_be_right_is_refused(pair):
    for junk in (b"junk", b"", pair.right.get_agent_metadata()[:-5]):
        with pytest.raises(b.nixlMismatchError):
            pair.left.add_remote_agent(junk)
    with pytest.raises(b.nixlInvalidParamError):
        pair.left.add_remote_agent(pair.left.get_agent_metadata())


def test_partial_metadata_opens_what_it_names_only(pair):
    first, second = Buffer(4096), Buffer(4096)
    pair.right.register_memory(first.reg() + second.reg(), "DRAM")
    part = pair.right.get_partial_agent_metadata(pair.right.get_reg_descs(first.reg(), "DRAM"), inc_conn_info=True,
                                                 backends=["MOCK"])
    third = agent_named("third")
    assert third.add_remote_agent(part) == pair.right.name.encode()
    assert third.check_remote_metadata(pair.right.name, third.get_xfer_descs(first.blocks(64), "DRAM"))
    assert not third.check_remote_metadata(pair.right.name, third.get_xfer_descs(second.blocks(64), "DRAM"))
    third.close()


def test_new_notifications_are_drained_and_updates_are_gathered(pair):
    for i in range(3):
        pair.left.send_notif(pair.right.name, b"m%d" % i)
    until(lambda: sum(map(len, pair.right.update_notifs().values())) == 3)
    assert pair.right.notifs == {pair.left.name: [b"m0", b"m1", b"m2"]} == pair.right.update_notifs()
    pair.left.send_notif(pair.right.name, notif_msg=b"late")
    assert until(pair.right.get_new_notifs) == {pair.left.name: [b"late"]}
    assert pair.right.get_new_notifs() == {} == pair.right.get_new_notifs(backends=["MOCK"])
    assert pair.right.notifs[pair.left.name] == [b"m0", b"m1", b"m2"]


def test_notifications_of_any_bytes_and_size(pair):
    for message in (b"\0", b"\0a\0", b"x" * 100_000, bytes(range(256))):
        pair.left.send_notif(pair.right.name, message, backend="MOCK")
        assert until(pair.right.get_new_notifs) == {pair.left.name: [message]}
    pair.left.send_notif(pair.left.name, "to myself")
    assert until(pair.left.get_new_notifs) == {pair.left.name: [b"to myself"]}
    with pytest.raises(b.nixlNotFoundError, match="nobody"):
        pair.left.send_notif("nobody", b"x")


def test_a_tag_is_looked_up_and_taken_once(pair):
    pair.right.notifs = {"X": [b"strmsg", b"", b"q", b"q2"]}
    assert pair.right.check_remote_xfer_done("X", b"trm", tag_is_prefix=False)
    assert not pair.right.check_remote_xfer_done("X", b"trm")
    assert pair.right.check_remote_xfer_done("X", b"q") and pair.right.notifs == {"X": [b"", b"q2"]}
    assert pair.right.check_remote_xfer_done("X", b"") and pair.right.notifs == {"X": [b"q2"]}
    assert not pair.right.check_remote_xfer_done("nobody", b"q")


def test_native_getnotifs_adds_to_the_map_it_is_given(pair):
    pair.left.send_notif(pair.right.name, b"new")
    given = {pair.left.name: [b"old"], "else": [b"x"]}
    got = {}
    until(lambda: got.update(pair.right.agent.getNotifs(given)) or len(got[pair.left.name]) == 2)
    assert got == {pair.left.name: [b"old", b"new"], "else": [b"x"]} and given[pair.left.name] == [b"old"]


def test_lists_travel_between_agents(pair):
    blob = pair.left.get_serialized_descs(pair.left.get_xfer_descs(pair.source.blocks(64), "DRAM"))
    assert isinstance(blob, bytes)
    assert list(pair.right.deserialize_descs(blob)) == pair.source.blocks(64)


def test_a_native_agent_put_in_from_outside_is_the_one_that_is_used():
    # As SGLang's storage does: the same name, a configuration of its own, then the attribute is replaced.
    outer = api.nixl_agent("outer", api.nixl_agent_config(backends=[]))
    conf = b.nixlAgentConfig()
    conf.useProgThread, conf.useListenThread, conf.listenPort = True, False, 0
    conf.syncMode = getattr(b, "NIXL_THREAD_SYNC_RW", b.NIXL_THREAD_SYNC_STRICT)
    conf.pthrDelay, conf.lthrDelay, conf.captureTelemetry = 0, 100000, True
    outer.agent = b.nixlAgent("outer", conf)
    outer.plugin_list = outer.agent.getAvailPlugins()
    outer.create_backend("MOCK", {})
    buffer = Buffer(8192, 7)
    outer.register_memory(buffer.reg(), "DRAM")
    local = outer.get_xfer_descs([(buffer.addr, 4096, 0)], "DRAM")
    remote = outer.get_xfer_descs([(buffer.addr + 4096, 4096, 0)], "DRAM")
    handle = outer.initialize_xfer("WRITE", local, remote, "outer")
    outer.transfer(handle)
    finish(outer, handle)
    assert outer.get_xfer_telemetry(handle).totalBytes == 4096
    outer.close()


def test_native_configuration_has_the_reference_s_names_and_defaults():
    import datetime

    conf = b.nixlAgentConfig()
    assert (conf.useProgThread, conf.useListenThread, conf.listenPort, conf.syncMode) == (False, False, 8888, b.NIXL_THREAD_SYNC_NONE)
    assert (conf.pthrDelay, conf.lthrDelay, conf.captureTelemetry) == (0, 100000, False)
    assert conf.etcdWatchTimeout == datetime.timedelta(seconds=5)
    conf.etcdWatchTimeout = datetime.timedelta(milliseconds=1500)
    assert conf.etcdWatchTimeout == datetime.timedelta(seconds=1.5)
    full = b.nixlAgentConfig(True, False, 1, b.NIXL_THREAD_SYNC_RW, 4, 5, 6, True)
    assert (full.useProgThread, full.listenPort, full.syncMode) == (True, 1, b.NIXL_THREAD_SYNC_RW)
    assert (full.pthrDelay, full.lthrDelay, full.captureTelemetry) == (5, 6, True)
    for attribute, value in (("listenPort", 70000), ("syncMode", "x"), ("pthrDelay", -1)):
        with pytest.raises((ValueError, TypeError)):
            setattr(conf, attribute, value)


def test_wrong_calls_are_type_errors(agent):
    native = agent.agent
    for call in (lambda: native.registerMem(), lambda: native.registerMem(1, 2, 3, 4), lambda: native.genNotif("a", 5),
                 lambda: native.genNotif("a", b"x", wrong=1), lambda: native.genNotif("a", remote_agent="b"),
                 lambda: native.createBackend(5), lambda: native.getXferStatus("x"), lambda: b.nixlAgent(5),
                 lambda: b.nixlAgent("x", 5), lambda: native.makeXferReq("READ"), lambda: native.getNotifs(5)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="NUL"):
        native.genNotif("a\0b", b"x")


def test_memory_views_are_numbers_and_end_once(pair):
    view = pair.left.prep_mem_view(pair.left.get_xfer_descs(pair.source.blocks(64), "DRAM"))
    remote = pair.left.get_remote_descs([(pair.target.addr, 64, 0, pair.right.name), (0, 0, 0, "NULL_AGENT")], "DRAM")
    other = pair.left.prep_mem_view(remote, backends=["MOCK"])
    assert isinstance(view, int) and view and other and view != other
    for each in (view, other):
        pair.left.release_mem_view(each)
        with pytest.raises(b.nixlNotFoundError):
            pair.left.release_mem_view(each)


def test_the_reference_has_all_these_methods():
    reference = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not reference:
        pytest.skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    from conftest import run_python

    code = ("import nixl._api as a, nixl._bindings as b, inspect, json, os, sys\n"
            "print(json.dumps([sorted(n for n in dir(a.nixl_agent) if n[0] != '_'), sorted(n for n in dir(b) if n[0] != '_'),"
            "sorted(n for n in dir(b.nixlAgent) if n[0] != '_'), sorted(n for n in dir(b.nixlXferDList) if n[0] != '_'),"
            "sorted(n for n in dir(b.nixlRegDList) if n[0] != '_')])); sys.stdout.flush(); os._exit(0)")
    import json

    out = run_python(code, python=reference, env={"PYTHONPATH": "", "NIXL_PLUGIN_DIR": ""}).stdout
    theirs = json.loads(out.splitlines()[-1])
    for names, ours in zip(theirs, (api.nixl_agent, b, b.nixlAgent, b.nixlXferDList, b.nixlRegDList)):
        assert set(names) - set(dir(ours)) == set()
