# SPDX-License-Identifier: Apache-2.0
"""Ray's direct transport over NIXL: tensors go from actor to actor, and from actor to driver, without Ray's object store.

Ray itself calls nixl (ray.experimental.rdt.NixlTensorTransport); this only uses Ray as its users do. CPU tensors.
"""
import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else it writes a token into the home folder

import ray
import torch
from ray.experimental import deregister_nixl_memory, register_nixl_memory, register_nixl_memory_pool


def content(seed, count=1 << 20):
    return torch.arange(count, dtype=torch.int64).mul_(seed * 2654435761 + 1)


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Source:
    def __init__(self, pool=0):
        if pool:
            register_nixl_memory_pool(pool, torch.device("cpu"))
        self.weights = content(99, 1 << 16).reshape(256, 256)

    @ray.method(tensor_transport="nixl")
    def one(self, seed):
        return content(seed)

    @ray.method(tensor_transport="nixl")
    def several(self):
        return {"a": content(1), "b": [content(2).to(torch.bfloat16), content(3, 3).to(torch.uint8)]}

    def rows(self):
        """Views of one storage, registered once and for all."""
        register_nixl_memory(self.weights)
        return [ray.put([self.weights[i] for i in range(k, 256, 16)], _tensor_transport="nixl") for k in range(16)]

    def forget_weights(self):
        deregister_nixl_memory(self.weights)
        return True

    def agent(self):
        from ray.experimental.rdt.util import get_tensor_transport_manager
        agent = get_tensor_transport_manager("NIXL").get_nixl_agent()
        return type(agent).__module__, agent.name, os.getpid()


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Sink:
    def same(self, got, seed):
        return bool(torch.equal(got, content(seed)))

    def same_tree(self, got):
        return bool(torch.equal(got["a"], content(1)) and torch.equal(got["b"][0], content(2).to(torch.bfloat16))
                    and torch.equal(got["b"][1], content(3, 3).to(torch.uint8)))

    def rows(self, refs):
        whole = content(99, 1 << 16).reshape(256, 256)
        return all(torch.equal(row, whole[k + 16 * i]) for k, ref in enumerate(refs)
                   for i, row in enumerate(ray.get(ref)))

    def agent(self):
        return Source.__ray_metadata__.modified_class.agent(self)


def main():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for pool in (0, 64 << 20):
        source, sink = Source.remote(pool), Sink.remote()
        # Again and again: each object is registered, read by the peer, and deregistered when its reference goes.
        for seed in range(1, 21):
            assert ray.get(sink.same.remote(source.one.remote(seed), seed), timeout=30)
        assert ray.get(sink.same_tree.remote(source.several.remote()), timeout=30)
        assert torch.equal(ray.get(source.one.remote(5), timeout=30), content(5)), "the driver's own"
        if not pool:
            assert ray.get(sink.rows.remote(ray.get(source.rows.remote(), timeout=30)), timeout=30)
            assert ray.get(source.forget_weights.remote(), timeout=30)
            assert ray.get(sink.same.remote(source.one.remote(7), 7), timeout=30)
        agents = ray.get([source.agent.remote(), sink.agent.remote()], timeout=30)
        assert agents[0][2] != agents[1][2] and {module for module, _, _ in agents} == {"nixl._api"}, agents
        print(f"ray {ray.__version__}, torch {torch.__version__}: {24 if not pool else 22} objects "
              f"{'through a registered pool' if pool else 'in place'}, every element equal", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
