# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists: every form they are made of, their methods, their pickles."""
import json
import os
import pickle

import numpy as np
import pytest
from conftest import SOURCE, Buffer
from hypothesis import given, settings
from hypothesis import strategies as st

import nixl._bindings as b
from nixl import _api

MAX = 2**64 - 1
u64 = st.integers(0, MAX)
rows = st.lists(st.tuples(u64, u64, u64), max_size=40)


@given(rows)
def test_tuples_come_back_as_they_were_given(blocks):
    made = b.nixlXferDList(b.DRAM_SEG, blocks)
    assert [made[i] for i in range(made.descCount())] == blocks == list(made)
    assert len(made) == made.descCount() == len(blocks)
    assert made.isEmpty() == (not blocks)


@given(rows, st.sampled_from([np.uint64, np.int64]))
def test_arrays_of_64_bits_mean_the_same_as_tuples(blocks, kind):
    array = np.array(blocks, dtype=np.uint64).reshape(len(blocks), 3).astype(kind)
    assert b.nixlXferDList(b.VRAM_SEG, array) == b.nixlXferDList(b.VRAM_SEG, blocks)
    assert list(b.nixlRegDList(b.VRAM_SEG, array)) == [(*block, b"") for block in blocks]


@given(rows, st.sampled_from(list(b.nixl_mem_t)))
def test_a_pickled_list_is_the_same_list(blocks, mem):
    made = b.nixlXferDList(mem, blocks)
    back = pickle.loads(pickle.dumps(made))
    assert back == made and back.getType() is mem and type(back) is b.nixlXferDList


@given(st.lists(st.tuples(u64, u64, u64, st.binary(max_size=20)), max_size=20))
def test_metadata_of_any_bytes_survives_a_pickle(blocks):
    back = pickle.loads(pickle.dumps(b.nixlRegDList(b.FILE_SEG, blocks)))
    assert list(back) == blocks


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**20), st.integers(0, 3), st.integers(0, 2**20),
                          st.integers(0, 9)), max_size=8))
def test_a_strided_list_stands_for_its_blocks(strided):
    made = b.nixlXferDList(b.DRAM_SEG, strided=strided)
    plain = [(addr + i * step, size, dev) for addr, size, dev, step, count in strided for i in range(count)]
    assert list(made) == plain and made.descCount() == len(plain)
    assert made == b.nixlXferDList(b.DRAM_SEG, plain)
    assert pickle.dumps(made) == pickle.dumps(b.nixlXferDList(b.DRAM_SEG, plain))
    made.append((1, 2, 3))
    assert list(made) == plain + [(1, 2, 3)] and not made.isStrided()


@given(st.binary(max_size=200))
def test_bytes_that_are_no_list_are_refused(junk):
    made = b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)])
    with pytest.raises(b.nixlMismatchError):
        made.__setstate__(junk)
    assert list(made) == [(1, 2, 3)]


@settings(max_examples=300)
@given(rows.filter(len), st.data())
def test_a_damaged_state_is_refused_or_is_a_list(blocks, data):
    state = bytearray(b.nixlXferDList(b.DRAM_SEG, blocks).__getstate__())
    at = data.draw(st.integers(0, len(state) - 1))
    state[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        b.nixlXferDList(b.DRAM_SEG).__setstate__(bytes(state))
    except b.nixlMismatchError:
        pass
    with pytest.raises(b.nixlMismatchError):
        b.nixlXferDList(b.DRAM_SEG).__setstate__(bytes(state[: at // 2]))


def vectors(name):
    with open(os.path.join(SOURCE, "tests", "vectors", name), encoding="utf-8") as file:
        return json.load(file)


def test_states_are_the_reference_s_byte_for_byte():
    found = vectors("reference-1.4.0.json")
    lists = {k: v for k, v in found.items() if k.startswith(("xfer_list", "reg_list"))}
    assert lists
    for name, vector in lists.items():
        kind, state = (b.nixlXferDList if name.startswith("xfer") else b.nixlRegDList), bytes.fromhex(vector["bytes"])
        made = kind(b.DRAM_SEG)
        made.__setstate__(state)
        given = [tuple(d[:3]) + tuple(m.encode() for m in d[3:]) for d in vector["descs"]]
        assert list(made) == given and made.getType() == vector["mem"], name
        assert kind(b.nixl_mem_t(vector["mem"]), [tuple(d) for d in vector["descs"]]).__getstate__() == state, name


def test_the_reference_s_pickle_is_read():
    found = vectors("reference-1.4.0-more.json")["pickle_xfer_list"]
    data = bytes.fromhex(found["bytes"])
    from nixl import _pickle

    assert b"nixl_cu1" in data
    assert type(_pickle.loads(data)) is b.nixlXferDList and len(_pickle.loads(data)) > 0


def test_a_pickle_constructs_nothing_but_lists():
    from nixl import _pickle

    class Evil:
        def __reduce__(self):
            return os.system, ("true",)

    with pytest.raises(pickle.UnpicklingError, match="not constructed"):
        _pickle.loads(pickle.dumps(Evil()))
    mixed = {"n": [1, b"x", b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)])], "a": np.arange(3)}
    back = _pickle.loads(pickle.dumps(mixed))
    assert back["n"] == mixed["n"] and (back["a"] == mixed["a"]).all()


@pytest.mark.parametrize("descs, error, words", [
    ([(1, 2)], ValueError, "exactly 3 elements"),
    ([(1, 2, 3), 5], TypeError, "must be a tuple"),
    ([(1, 2, 3), (1, 2, -1)], ValueError, "descriptor 1: dev"),
    ([(2**64, 2, 3)], ValueError, "descriptor 0: addr"),
    ([(1, 2.5, 3)], TypeError, "descriptor 0: len"),
    ([("1", 2, 3)], TypeError, "addr must be an int"),
    (np.zeros((2, 3)), ValueError, "uint64 or int64"),
    (np.zeros((2, 3), np.int32), ValueError, "uint64 or int64"),
    (np.zeros((2, 3), ">u8"), ValueError, "uint64 or int64"),
    (np.zeros((2, 4), np.uint64), ValueError, "Nx3"),
    (np.zeros(3, np.uint64), ValueError, "Nx3"),
    (np.zeros((2, 3, 3), np.uint64), ValueError, "Nx3"),
    (np.zeros((4, 3), np.uint64)[::2], ValueError, "C-contiguous"),
    (np.asfortranarray(np.ones((4, 3), np.uint64)), ValueError, "C-contiguous"),
])
def test_wrong_descriptors_are_refused_in_words(descs, error, words):
    with pytest.raises(error, match=words):
        b.nixlXferDList(b.DRAM_SEG, descs)


def test_numbers_of_any_integer_kind_are_taken():
    made = b.nixlXferDList(b.DRAM_SEG, [(np.uint64(2**63 + 1), np.int32(2), True)])
    assert made[0] == (2**63 + 1, 2, 1)


def test_a_list_that_shrinks_while_it_is_read_is_no_fault():
    shrinking = [(1, 2, 3)] * 50

    class Number:
        def __index__(self):
            del shrinking[10:]
            return 7

    shrinking[5] = (Number(), 2, 3)
    assert len(b.nixlXferDList(b.DRAM_SEG, shrinking)) == 10


def test_lists_change_like_lists():
    made = b.nixlXferDList(b.DRAM_SEG, [(1, 1, 1), (2, 2, 2), (3, 3, 3)])
    made[1] = (9, 9, 9)
    assert made.index((9, 9, 9)) == 1
    made.remDesc(0)
    made.addDesc((4, 4, 4))
    assert list(made) == [(9, 9, 9), (3, 3, 3), (4, 4, 4)]
    for call in (lambda: made.remDesc(3), lambda: made.remDesc(-1), lambda: made[3], lambda: made.__setitem__(3, (1, 1, 1))):
        with pytest.raises(IndexError, match="out of range"):
            call()
    with pytest.raises(ValueError):
        made[0] = (1, 2)
    assert made[0] == (9, 9, 9)
    with pytest.raises(b.nixlNotFoundError):
        made.index((5, 5, 5))
    made.clear()
    assert made.isEmpty() and bool(made), "an empty list is true: programs ask `if not descs` for failure"


def test_lists_compare_by_kind_and_rows_and_cannot_be_hashed():
    one = b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)])
    assert one == b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)]) and not one != b.nixlXferDList(b.DRAM_SEG, [(1, 2, 3)])
    assert one != b.nixlXferDList(b.VRAM_SEG, [(1, 2, 3)]) and one != b.nixlXferDList(b.DRAM_SEG, [(1, 2, 4)])
    assert one != 5 and one != b.nixlRegDList(b.DRAM_SEG, [(1, 2, 3, "")])
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_metadata_is_text_or_bytes_and_comes_back_as_bytes():
    made = b.nixlRegDList(b.FILE_SEG, [(0, 5, 1, "rw:/tmp/é"), (0, 5, 2, b"\xff\0")])
    assert made[0] == (0, 5, 1, "rw:/tmp/é".encode()) and made[1] == (0, 5, 2, b"\xff\0")
    assert list(made.trim()) == [(0, 5, 1), (0, 5, 2)] and type(made.trim()) is b.nixlXferDList
    with pytest.raises(TypeError, match="not None"):
        b.nixlRegDList(b.FILE_SEG, [(0, 5, 1, None)])


def test_empty_lists_of_a_size_are_zeros():
    assert list(b.nixlXferDList(b.DRAM_SEG, 2)) == [(0, 0, 0)] * 2 == list(b.nixlXferDList(b.DRAM_SEG, init_size=2))
    assert list(b.nixlXferDList(type=b.DRAM_SEG, descs=[(1, 2, 3)])) == [(1, 2, 3)]
    with pytest.raises(TypeError):
        b.nixlXferDList("DRAM")


def test_remote_lists_name_agents():
    made = b.nixlRemoteDList(b.DRAM_SEG, [(1, 2, 0, "a"), (0, 0, 0, "NULL_AGENT")])
    assert list(made) == [(1, 2, 0, "a"), (0, 0, 0, "NULL_AGENT")]
    with pytest.raises(ValueError, match="agent_name"):
        b.nixlRemoteDList(b.DRAM_SEG, [(1, 2, 0)])


# ---- what get_xfer_descs and get_reg_descs take ----

bare = _api.nixl_agent.__new__(_api.nixl_agent)
bare.nixl_mems = {"DRAM": b.DRAM_SEG, "cpu": b.DRAM_SEG, "VRAM": b.VRAM_SEG}
array = np.array([[1, 2, 0], [3, 4, 0]], dtype=np.uint64)


@pytest.mark.parametrize("mem, kind", [("DRAM", b.DRAM_SEG), ("cpu", b.DRAM_SEG), ("VRAM", b.VRAM_SEG),
                                       ("cuda", b.VRAM_SEG), ("FILE", b.FILE_SEG), ("BLOCK", b.BLK_SEG),
                                       ("OBJ", b.OBJ_SEG)])
def test_memory_kinds_have_their_names(mem, kind):
    assert bare.get_xfer_descs([(1, 2, 0)], mem).getType() is kind
    assert bare.get_xfer_descs(descs=array, mem_type=mem).getType() is kind


@pytest.mark.parametrize("descs, mem, words", [
    ([(1, 2, 0)], None, "memory kind"),
    (array, None, "memory kind"),
    ([(1, 2, 0, "")], "DRAM", "tuples of 3"),
    ([[1, 2, 0]], "DRAM", "list of tuples"),
    (array[0], "DRAM", "N x 3"),
    (np.zeros((2, 4), np.uint64), "DRAM", "N x 3"),
    (b.nixlRegDList(b.DRAM_SEG), None, "trim"),
    (5, "DRAM", "list of tuples"),
])
def test_a_wrong_form_is_logged_and_answered_by_none(descs, mem, words, caplog):
    import logging

    logging.getLogger("nixl").addHandler(caplog.handler)
    try:
        assert bare.get_xfer_descs(descs, mem) is None
    finally:
        logging.getLogger("nixl").removeHandler(caplog.handler)
    assert [r.levelname for r in caplog.records] == ["ERROR"] and words in caplog.text


def test_other_faults_raise_as_in_the_reference():
    with pytest.raises(KeyError, match="FOO"):
        bare.get_xfer_descs(array, "FOO")
    with pytest.raises(IndexError):
        bare.get_xfer_descs([], "DRAM")
    with pytest.raises(TypeError):
        bare.get_xfer_descs(None, "DRAM")
    with pytest.raises(ValueError):
        bare.get_xfer_descs(array.astype(float), "DRAM")


def test_an_empty_array_is_an_empty_list():
    assert bare.get_xfer_descs(np.empty((0, 3), np.uint64), "DRAM").descCount() == 0


def test_a_list_object_is_returned_itself():
    made = bare.get_xfer_descs(array, "DRAM")
    assert bare.get_xfer_descs(made) is made and bare.get_xfer_descs(made, "DRAM") is made


def test_a_list_made_of_an_array_does_not_change_with_it():
    mine = array.copy()
    made = bare.get_xfer_descs(mine, "DRAM")
    mine[:] = 7
    assert list(made) == [(1, 2, 0), (3, 4, 0)]


# ---- tensors, by what they offer ----

class Device:
    def __init__(self, type, index=0):
        self.type, self.index = type, index


class Torch:
    """The methods of a torch tensor over a NumPy array."""

    def __init__(self, data, device="cpu", index=0):
        self.data, self.device, self.index = data, Device(device, index), index

    def data_ptr(self):
        return self.data.ctypes.data

    def numel(self):
        return self.data.size

    def element_size(self):
        return self.data.itemsize

    def get_device(self):
        return self.index if self.device.type != "cpu" else -1

    def is_contiguous(self):
        return bool(self.data.flags["C_CONTIGUOUS"])

    @property
    def shape(self):
        return self.data.shape

    def stride(self):
        return tuple(s // self.data.itemsize for s in self.data.strides)


class Cuda:
    def __init__(self, data):
        self.__cuda_array_interface__ = dict(data.__array_interface__)


class DLPack:
    def __init__(self, data):
        self.held = data

    def __dlpack__(self):
        return self.held.__dlpack__()


data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
here = data.ctypes.data


@pytest.mark.parametrize("tensor, mem, dev", [
    (Torch(data), b.DRAM_SEG, 0),
    (Torch(data, "cuda", 3), b.VRAM_SEG, 3),
    (Torch(data, "xpu", 1), b.VRAM_SEG, 1),
    (Cuda(data), b.VRAM_SEG, 0),
    (DLPack(data), b.DRAM_SEG, 0),
])
def test_a_tensor_is_one_block_of_its_own_kind(tensor, mem, dev):
    made = bare.get_xfer_descs(tensor)
    assert list(made) == [(here, 96, dev)] and made.getType() is mem
    assert list(bare.get_reg_descs([tensor, tensor])) == [(here, 96, dev, b"")] * 2


def test_tensors_of_one_list_are_contiguous_and_of_one_kind():
    assert bare.get_xfer_descs([Torch(data.T)]) is None
    assert bare.get_xfer_descs([Torch(data), Torch(data, "cuda")]) is None
    assert bare.get_xfer_descs([Torch(data), 5]) is None
    assert list(bare.get_xfer_descs([data[0], data[1]])) == [(here, 48, 0), (here + 48, 48, 0)]


def test_what_a_tensor_raises_is_not_hidden():
    class Broken(Torch):
        def numel(self):
            raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        bare.get_xfer_descs(Broken(data))


@pytest.mark.parametrize("wrap", [lambda a: a, Torch, DLPack, Cuda])
def test_a_tensor_is_cut_along_a_dimension(wrap):
    first = bare.get_strided_descs(wrap(data))
    assert first.isStrided() and list(first) == [(here, 48, 0), (here + 48, 48, 0)]
    second = bare.get_strided_descs(wrap(data), 1)
    assert list(second) == [(here + 16 * i, 16, 0) for i in range(6)]
    assert list(bare.get_strided_descs(wrap(data), -1)) == [(here + 4 * i, 4, 0) for i in range(24)]
    assert list(bare.get_strided_descs(wrap(data), dim=0)) == list(first)


def test_a_cut_through_what_is_not_contiguous_is_refused():
    with pytest.raises(ValueError, match="not contiguous behind dimension 0"):
        bare.get_strided_descs(data[:, :, ::2], 0)
    with pytest.raises(IndexError):
        bare.get_strided_descs(data, 3)
    with pytest.raises(ValueError, match="negative strides"):
        bare.get_strided_descs(data[::-1], 0)
    assert list(bare.get_strided_descs(data[:, ::2], 1)) == [(here + r * 48 + i * 32, 16, 0) for r in range(2) for i in range(2)]


def test_rows_are_strided_too():
    made = bare.get_strided_descs([(100, 8, 0, 32, 3)], mem_type="DRAM")
    assert list(made) == [(100, 8, 0), (132, 8, 0), (164, 8, 0)]
    with pytest.raises(TypeError, match="mem_type"):
        bare.get_strided_descs([(100, 8, 0, 32, 3)])
    with pytest.raises(ValueError, match="stride, count"):
        b.nixlXferDList(b.DRAM_SEG, strided=[(1, 2, 3)])


STRIDED = [(100, 8, 0, 32, 3), (1 << 63, 4, 2, 4, 2), (7, 1, 0, 0, 0)]
BLOCKS = [(100, 8, 0), (132, 8, 0), (164, 8, 0), (1 << 63, 4, 2), ((1 << 63) + 4, 4, 2)]


@pytest.mark.parametrize("give", [list, lambda rows: np.array(rows, np.uint64),
                                  lambda rows: np.array(rows, np.uint64).astype(np.int64)])
def test_strided_rows_are_descriptors_too(give):
    """As an N x 5 array or 5-tuples; rows that stand for no block are left out."""
    made = bare.get_xfer_descs(give(STRIDED), "DRAM")
    assert made.isStrided() and made.descCount() == 5 and list(made) == BLOCKS
    assert made == bare.get_xfer_descs(BLOCKS, "DRAM")
    assert bare.get_reg_descs(np.array(STRIDED, np.uint64), "DRAM") is None
    with pytest.raises(ValueError, match="count is too large"):
        bare.get_xfer_descs(np.array([(1, 1, 0, 1, 1 << 62)], np.uint64), "DRAM")


def test_an_empty_array_of_strided_rows_is_an_empty_list():
    assert list(bare.get_xfer_descs(np.empty((0, 5), np.uint64), "DRAM")) == []


@pytest.mark.parametrize("give", [list, lambda rows: np.array(rows, np.uint64)])
def test_strided_rows_are_prepared(agent, give):
    held = Buffer(1 << 12)
    agent.register_memory(held.reg(), "DRAM")
    rows = [(held.addr, 16, 0, 64, 50), (held.addr + 32, 4, 0, 8, 10), (held.addr, 1, 0, 1, 0)]
    with agent.prep_xfer_dlist("", give(rows), "DRAM") as ready:
        assert len(ready) == 60
    # The native call that the reference's wrapper makes of an N x 5 array.
    number = agent.agent.prepXferDlist("", b.DRAM_SEG, give(rows), [])
    assert agent.agent.dlistCount(number) == 60
    agent.agent.releasedDlistH(number)
    with pytest.raises(b.nixlNotFoundError, match="descriptor 63"):
        agent.prep_xfer_dlist("", give([(held.addr, 65, 0, 64, 64)]), "DRAM")


def test_enums_look_like_the_reference_s():
    assert repr(b.NIXL_SUCCESS) == "<nixl_status_t.NIXL_SUCCESS: 0>" and str(b.NIXL_SUCCESS) == "nixl_status_t.NIXL_SUCCESS"
    assert b.NIXL_SUCCESS == 0 and b.DRAM_SEG == 0 and b.nixl_mem_t(4) is b.FILE_SEG
    assert b.NIXL_COST_ANALYTICAL_BACKEND != 0 and b.NIXL_THREAD_SYNC_STRICT != 1
    assert b.NIXL_THREAD_SYNC_DEFAULT is b.NIXL_THREAD_SYNC_NONE
    assert pickle.loads(pickle.dumps(b.OBJ_SEG)) is b.OBJ_SEG
    assert _api.nixl_thread_sync_t.NIXL_THREAD_SYNC_RW.value is b.NIXL_THREAD_SYNC_RW
