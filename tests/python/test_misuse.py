# SPDX-License-Identifier: Apache-2.0
"""Objects that lie, lists that change while they are read, handles of other agents: refused in words, never a crash."""
import asyncio
import gc
import os

import numpy as np
import pytest
from conftest import Buffer, agent_named

import nixl._bindings as b
from nixl import _api

bare = _api.nixl_agent.__new__(_api.nixl_agent)
bare.nixl_mems = {"DRAM": b.DRAM_SEG}


class Acts:
    """A number whose conversion does something first."""

    def __init__(self, act):
        self.act = act

    def __index__(self):
        self.act()
        return 7


# ---- lists that their own elements change ----


def test_an_element_that_clears_the_list_it_is_put_in():
    made = b.nixlRegDList(b.DRAM_SEG, [(1, 2, 3, b"x" * 100)] * 5000)
    with pytest.raises(IndexError, match="out of range"):
        made[4000] = (Acts(made.clear), 2, 3, b"y" * 50)
    assert list(made) == []
    made = b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)] * 9)
    made.append((Acts(made.clear), 2, 3))
    assert list(made) == [(7, 2, 3)]


def test_an_element_that_changes_the_form_of_its_list():
    made = b.nixlXferDList(b.DRAM_SEG)

    def strided():
        made.__init__(b.DRAM_SEG, strided=[(1, 2, 3, 4, 2)])

    made.append((Acts(strided), 2, 3))
    assert list(made) == [(1, 2, 3), (5, 2, 3), (7, 2, 3)] and not made.isStrided()
    made.__init__(b.DRAM_SEG, [(9, 9, 9), (Acts(strided), 2, 3), (4, 5, 6)])
    assert list(made) == [(1, 2, 3), (5, 2, 3), (7, 2, 3), (4, 5, 6)]


def test_a_strided_row_that_clears_its_list():
    made = b.nixlXferDList(b.DRAM_SEG)
    made.__init__(b.DRAM_SEG, strided=[(1, 2, 3, 4, 5), (Acts(made.clear), 2, 3, 4, 5)])
    assert made.descCount() == 10 and made[5] == (7, 2, 3)


def test_a_list_whose_only_element_goes_while_it_is_asked():
    class Tensor:
        def __getattr__(self, name):
            held.clear()
            gc.collect()
            raise AttributeError(name)

    for call in (bare.get_xfer_descs, bare.get_reg_descs):
        held = [Tensor()]
        assert call(held, "DRAM") is None


# ---- more blocks than can be counted ----


@pytest.mark.parametrize("give", [list, lambda rows: np.array(rows, np.uint64)])
def test_more_blocks_than_can_be_counted_are_refused(give):
    with pytest.raises(ValueError, match="strided row 3[0-9]: count is too large"):
        bare.get_xfer_descs(give([(1, 2, 3, 4, 10**16)] * 48), "DRAM")


# ---- tensors that lie ----


class Torch:
    device = "cpu"

    def __init__(self, pointer=4096, count=4, size=4, shape=(4,), strides=(1,)):
        self.pointer, self.count, self.size, self.shape, self.strides = pointer, count, size, shape, strides

    def data_ptr(self):
        return self.pointer

    def numel(self):
        return self.count

    def element_size(self):
        return self.size

    def is_contiguous(self):
        return True

    def stride(self):
        return self.strides


class Array:
    def __init__(self, **more):
        self.__array_interface__ = {"data": (4096, False), "shape": (4, 4), "typestr": "<f4", "version": 3, **more}


HUGE = (2**40, 2**40)


@pytest.mark.parametrize("tensor, error, words", [
    (Torch(pointer=None), TypeError, "data_ptr must be an int, not None"),
    (Torch(count=None), TypeError, "numel must be an int, not None"),
    (Torch(size=None), TypeError, "element_size must be an int, not None"),
    (Torch(count=-1), ValueError, "out of range"),
    (Torch(count=2**62 + 1), ValueError, "more than 2.*64 bytes"),
    (Array(data=(None, False)), TypeError, "data must be an int, not None"),
    (Array(data=(-1, False)), ValueError, "out of range"),
    (Array(data=None), ValueError, "no data"),
    (Array(shape=HUGE), ValueError, "more than 2.*64 bytes"),
    (Array(shape=(-1, 4)), ValueError, "negative"),
    (Array(shape=(1,) * 17), ValueError, "16 dimensions"),
    (Array(strides=(16,)), ValueError, "2 dimensions cannot have 1 strides"),
    (Array(typestr="<fx"), ValueError, "says no size"),
    (Array(typestr=5), ValueError, "typestr"),
])
def test_a_tensor_that_lies_is_refused(tensor, error, words):
    for call in (bare.get_xfer_descs, bare.get_reg_descs, bare.get_strided_descs):
        with pytest.raises(error, match=words):
            call(tensor)


def test_a_tensor_that_lies_about_its_dimensions_is_not_cut():
    with pytest.raises(ValueError, match="1 dimensions cannot have 2 strides"):
        bare.get_strided_descs(Torch(strides=(1, 1)))
    with pytest.raises(ValueError, match="count is too large"):
        bare.get_strided_descs(Torch(shape=HUGE, strides=(1, 1)), 1)


def test_an_empty_tensor_is_an_empty_block_whatever_else_it_says():
    assert list(bare.get_xfer_descs(Array(shape=(0, *HUGE)))) == [(4096, 0, 0)]


def test_an_agent_s_name_has_no_nul():
    with pytest.raises(ValueError, match="descriptor 1: the agent name contains a NUL"):
        b.nixlRemoteDList(b.DRAM_SEG, [(1, 2, 0, "a"), (1, 2, 0, b"a\0b")])


# ---- arrays ----


def test_rows_that_lie_at_an_odd_address(agent):
    held = Buffer(1 << 12)
    agent.register_memory(held.reg(), "DRAM")
    for rows in ([(held.addr, 8, 0), (held.addr + 8, 8, 0)], [(held.addr, 8, 0, 64, 2)]):
        whole = np.array(rows, np.uint64)
        odd = np.frombuffer(b"x" + whole.tobytes(), np.uint8)[1:].view(np.uint64).reshape(whole.shape)
        assert not odd.flags["ALIGNED"]
        assert list(bare.get_xfer_descs(odd, "DRAM")) == list(bare.get_xfer_descs(rows, "DRAM"))
        with agent.prep_xfer_dlist("", odd, "DRAM") as ready:
            assert len(ready) == 2


@pytest.mark.parametrize("indices", [
    np.zeros(2, np.complex64), np.zeros(2, ">i8"), np.zeros(2, ">u8"), np.zeros(2, ">i4"), np.zeros(2, "V8"),
    np.zeros(2, [("a", np.int32), ("b", np.int32)]), np.zeros(2), np.zeros(2, bool), np.zeros(2, "S8"), [0.0, 0],
], ids=str)
def test_indices_that_are_no_integers_of_this_machine_are_refused(pair, indices):
    ready = pair.left.prep_xfer_dlist("", pair.source.blocks(16), "DRAM")
    theirs = pair.left.prep_xfer_dlist(pair.right.name, pair.target.blocks(16), "DRAM")
    for one, other in ((indices, [0, 1]), ([0, 1], indices)):
        with pytest.raises(TypeError, match="integer"):
            pair.left.make_prepped_xfer("WRITE", ready, one, theirs, other)
    odd = np.frombuffer(b"x" + np.arange(2).tobytes(), np.uint8)[1:].view(np.int64)
    assert pair.left.make_prepped_xfer("WRITE", ready, odd, theirs, odd)


# ---- handles, configurations ----


def test_a_handle_of_another_agent_is_refused(pair):
    mine = pair.write()
    for _ in range(3):  # the same places in the other agent's table
        theirs = pair.right.prep_xfer_dlist("", pair.target.blocks(16), "DRAM")
        local = pair.right.get_xfer_descs(pair.target.blocks(16), "DRAM")
        other = pair.right.initialize_xfer("READ", local, pair.right.get_xfer_descs(pair.source.blocks(16), "DRAM"),
                                           pair.left.name)
        for call in (pair.left.transfer, pair.left.check_xfer_state, pair.left.get_xfer_telemetry,
                     pair.left.query_xfer_backend):
            with pytest.raises(b.nixlInvalidParamError, match="no transfer request of this agent"):
                call(other)
        with pytest.raises(b.nixlInvalidParamError, match="no prepared list of this agent"):
            pair.left.make_prepped_xfer("WRITE", theirs, [0], theirs, [0])
    assert pair.left.transfer(mine) in ("DONE", "PROC")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 10**400])
def test_a_deadline_is_a_number_of_seconds(seconds):
    for name in ("xfer_timeout", "stall_timeout"):
        with pytest.raises(ValueError, match=name):
            agent_named(**{name: seconds})


# ---- asyncio ----


def test_an_agent_that_was_awaited_ends_with_its_last_reference():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    async def once():
        agent = agent_named()
        held = Buffer(64)
        agent.register_memory(held.reg(), "DRAM")
        descs = agent.get_xfer_descs(held.blocks(32), "DRAM")
        with agent.initialize_xfer("WRITE", descs, descs, agent.name, b"told") as handle:
            agent.transfer(handle)
            assert await agent.wait(handle, 5) == "DONE"
        async for _, message in agent.notifications():
            assert message == b"told"
            break

    async def main():
        for _ in range(8):
            await once()
        for _ in range(500):  # the loop closes what is left of the iterators
            gc.collect()
            if descriptors() <= before:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{descriptors()} descriptors are open, {before} were")

    asyncio.run(asyncio.sleep(0))
    before = descriptors() + 3  # those of the event loop
    asyncio.run(main())
