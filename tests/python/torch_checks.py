# SPDX-License-Identifier: Apache-2.0
"""What test_torch.py has an interpreter with torch run:  torch_checks.py [CHECK...]

Each function named check_... is one check; for each a line "ok NAME" is printed, or "not ok NAME" and why.
"""
import gc
import io
import logging
import sys
import traceback

import torch

import nixl
from nixl import _bindings as b

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]


def lone():
    return nixl.nixl_agent("lone", nixl.nixl_agent_config(backends=[]))


def block(tensor):
    return tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0


class Peers:
    """Two agents of this process that know each other, over UCX."""

    def __enter__(self):
        self.left, self.right = nixl.nixl_agent("left"), nixl.nixl_agent("right")
        return self

    def meet(self, *tensors):
        for tensor in tensors:
            for agent in (self.left, self.right):
                agent.register_memory(tensor)
        self.left.add_remote_agent(self.right.get_agent_metadata())

    def move(self, operation, mine, theirs):
        with self.left.initialize_xfer(operation, mine, theirs, "right") as handle:
            self.left.transfer(handle)
            assert handle.wait(timeout=20) == "DONE"

    def __exit__(self, *_):
        self.left.close()
        self.right.close()


class Logged:
    """What is logged meanwhile."""

    def __enter__(self):
        self.handler = logging.StreamHandler(io.StringIO())
        logging.getLogger("nixl").addHandler(self.handler)
        return self

    def __exit__(self, *_):
        logging.getLogger("nixl").removeHandler(self.handler)
        self.words = self.handler.stream.getvalue()


def check_every_dtype_is_one_block():
    agent = lone()
    for dtype in DTYPES:
        tensor = torch.zeros(3, 5, 7).to(dtype)
        assert list(agent.get_xfer_descs(tensor)) == [block(tensor)], dtype
        assert list(agent.get_reg_descs(tensor)) == [(*block(tensor), b"")], dtype
        assert agent.get_xfer_descs(tensor).getType() is b.DRAM_SEG


def check_kinds_of_tensors():
    """Views, parameters, tensors with gradients, in shared memory, over a file, of no and of one element."""
    agent = lone()
    whole = torch.arange(4096, dtype=torch.float32).reshape(64, 64)
    tensors = [whole[7], whole[8:24], whole[3, 5], whole.view(torch.bfloat16), whole.T.T, whole.reshape(-1)[5:9],
               torch.nn.Parameter(whole), (whole.clone().requires_grad_() * 2), whole.clone().share_memory_(),
               torch.zeros(4, 4).to(memory_format=torch.contiguous_format), torch.from_numpy(whole.numpy())]
    with torch.inference_mode():
        tensors.append(torch.ones(5, dtype=torch.float64))
    for tensor in tensors:
        assert list(agent.get_xfer_descs(tensor)) == [block(tensor)]
    assert list(agent.get_xfer_descs(tensors)) == [block(t) for t in tensors]
    assert list(agent.get_reg_descs(tensors)) == [(*block(t), b"") for t in tensors]
    assert agent.get_xfer_descs(whole[7]).descCount() == 1


def check_what_is_not_contiguous_is_refused_in_words():
    agent = lone()
    whole = torch.zeros(8, 8)
    for tensor in (whole.T, whole[:, :4], whole[::2], torch.zeros(1, 8).expand(4, 8),
                   torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)):
        for given in (tensor, [whole, tensor], [tensor, whole]):
            for method in (agent.get_xfer_descs, agent.get_reg_descs):
                with Logged() as log:
                    assert method(given) is None
                assert "contiguous" in log.words, log.words


def check_what_has_no_memory_is_refused_in_words():
    agent = lone()
    for tensor, words in ((torch.empty(4, device="meta"), "a tensor without memory of its own"),
                          (torch.eye(3).to_sparse(), "doesn't have storage")):
        for given in (tensor, [torch.zeros(1), tensor]):
            try:
                made = agent.get_xfer_descs(given)
            except (ValueError, RuntimeError) as error:
                assert words in str(error), error
            else:
                raise AssertionError(list(made))


def check_strided_descriptors():
    agent = lone()
    cache = torch.zeros(6, 10, 4, 8, dtype=torch.bfloat16)
    for dim in range(-4, 4):
        made = agent.get_strided_descs(cache, dim)
        flat = cache.flatten(0, dim % 4)
        assert made.isStrided() and list(made) == [block(row) for row in flat], dim
    part = cache[:, 2:5]  # not contiguous as a whole; each index of dimension 1 is one block
    assert list(agent.get_strided_descs(part, 1)) == [block(part[i, j]) for i in range(6) for j in range(3)]
    wide = cache[..., :4]
    assert list(agent.get_strided_descs(wide, 2)) == [block(wide[i, j, k]) for i in range(6) for j in range(10)
                                                      for k in range(4)]
    for dim in (0, 1):
        try:
            agent.get_strided_descs(wide, dim)
        except ValueError as error:
            assert f"not contiguous behind dimension {dim}" in str(error)
        else:
            raise AssertionError("a cut through what is not contiguous")


class OnlyDLPack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **more):
        return self.tensor.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def check_dlpack():
    agent = lone()
    for dtype in (torch.uint8, torch.int32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.bool):
        tensor = torch.zeros(4, 6).to(dtype)[1:]
        assert list(agent.get_xfer_descs(OnlyDLPack(tensor))) == [block(tensor)], dtype
        assert list(agent.get_strided_descs(OnlyDLPack(tensor), 0)) == [block(row) for row in tensor], dtype
    with Logged() as log:
        assert agent.get_xfer_descs(OnlyDLPack(torch.zeros(4, 4).T)) is None
    assert "contiguous" in log.words, log.words
    tensor = torch.zeros(1 << 20)
    before = sys.getrefcount(tensor)
    for _ in range(1000):
        agent.get_xfer_descs(OnlyDLPack(tensor))
    gc.collect()
    assert sys.getrefcount(tensor) == before


def check_rows_and_indices_as_tensors():
    """N x 3 descriptors in a tensor's memory (as NumPy sees it), and indices that are tensors."""
    with Peers() as peers:
        source = torch.arange(1 << 12, dtype=torch.int32)
        target = torch.zeros_like(source)
        peers.meet(source, target)
        rows = torch.tensor([[source.data_ptr() + 64 * i, 64, 0] for i in range(256)], dtype=torch.int64)
        mine = peers.left.prep_xfer_dlist("", rows.numpy(), "DRAM")
        theirs = peers.left.prep_xfer_dlist("right", peers.left.get_strided_descs(target.view(256, 16), 0))
        for dtype in (torch.int64, torch.int32, torch.uint8):
            chosen = torch.arange(0, 256, 3).to(dtype)
            target.zero_()
            with peers.left.make_prepped_xfer("WRITE", mine, chosen, theirs, chosen) as handle:
                peers.left.transfer(handle)
                handle.wait(timeout=20)
            assert torch.equal(target.view(256, 16)[chosen.long()], source.view(256, 16)[chosen.long()])
            assert int((target != 0).sum()) <= chosen.numel() * 16


def check_lists_of_tensors_move():
    with Peers() as peers:
        source = torch.randn(32, 4, 128).to(torch.bfloat16)
        target = torch.zeros_like(source)
        peers.meet(source, target)
        left = peers.left
        peers.move("WRITE", left.get_xfer_descs(list(source.unbind())), left.get_xfer_descs(list(target.unbind())))
        assert torch.equal(source, target)
        back = torch.zeros_like(source)
        left.register_memory([back])
        peers.move("READ", left.get_xfer_descs(back), left.get_xfer_descs(target))
        assert torch.equal(source.view(torch.int16), back.view(torch.int16))


def check_strided_tensors_move():
    """A slice of heads of a KV cache into a smaller one."""
    with Peers() as peers:
        source = torch.randn(64, 8, 16).to(torch.bfloat16)
        target = torch.zeros(64, 4, 16, dtype=torch.bfloat16)
        peers.meet(source, target)
        left = peers.left
        peers.move("WRITE", left.get_strided_descs(source[:, 2:6], 1), left.get_strided_descs(target, 1))
        assert torch.equal(source[:, 2:6], target)


def check_registering_tensors_as_programs_do():
    with Peers() as peers:
        tensors = [torch.zeros(1024), torch.zeros(10, dtype=torch.int8)]
        one = peers.left.register_memory(tensors[0])
        both = peers.left.register_memory(tensors)
        assert one and both and both.descCount() == 2
        peers.left.deregister_memory(one)
        peers.left.deregister_memory(both)
        storage = tensors[0].untyped_storage()
        by_hand = peers.left.register_memory([(storage.data_ptr(), storage.nbytes(), 0, "cpu")], "cpu")
        peers.left.deregister_memory(peers.left.get_reg_descs(tensors[0]))
        assert by_hand


def main(names):
    checks = {name: value for name, value in globals().items() if name.startswith("check_")}
    for name in names or checks:
        try:
            checks[name]()
        except Exception:
            print("not ok", name, traceback.format_exc(), sep="\n", flush=True)
        else:
            print("ok", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
