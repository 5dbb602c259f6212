# SPDX-License-Identifier: Apache-2.0
"""Metadata through PyTorch's own TCPStore, with both of its servers: the store in one process, each agent in another."""
import base64
import os
import time

import pytest
from conftest import BUILD, until
from remote import Remote

PYTHON = os.environ.get("NIXL_TEST_TORCH_PYTHON")
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="NIXL_TEST_TORCH_PYTHON names no interpreter that has torch"),
    pytest.mark.skipif(not os.path.exists(os.path.join(BUILD, "plugins", "libplugin_UCX.so")),
                       reason="the UCX backend is not built here"),
]

OPEN = "store = TCPStore('127.0.0.1', {}, is_master=True, wait_for_workers=False, use_libuv={})"
AGENT = """
import ctypes, nixl
agent = nixl.nixl_agent({name!r})
memory = ctypes.create_string_buffer({fill!r} * 65536, 65536)
addr = ctypes.addressof(memory)
registered = agent.register_memory([(addr, 65536, 0, "")], "DRAM")
descs = agent.get_xfer_descs([(addr, 65536, 0)], "DRAM")
"""


class Store(Remote):
    """The server, and a client of PyTorch's in the same process, by whose eyes the keys are seen."""

    def __init__(self, use_libuv):
        super().__init__(PYTHON, {**os.environ, "PYTHONPATH": ""})
        self.use_libuv = use_libuv
        self.run("import base64\nfrom torch.distributed import TCPStore")
        self.open(0)
        self.port = self.value("store.port")

    def open(self, port):
        self.run(OPEN.format(port, self.use_libuv))
        assert self.value("store.libuvBackend") is self.use_libuv

    def close(self):
        self.run("del store")

    def has(self, agent, label="metadata"):
        return self.value(f"store.check(['nixl/agents/{label}/{agent}/NULL_AGENT'])")

    def get(self, agent, label="metadata"):
        return base64.b64decode(
            self.value(f"base64.b64encode(store.get('nixl/agents/{label}/{agent}/NULL_AGENT')).decode()"))


class Agent(Remote):
    def __init__(self, store, name, fill=b"\0"):
        super().__init__(env={**os.environ, "NIXL_TCPSTORE_ENDPOINT": f"127.0.0.1:{store.port}",
                              "NIXL_LOG_LEVEL": "ERROR"})
        self.run(AGENT.format(name=name, fill=fill))
        self.name = name

    def metadata(self):
        self.run("import base64")
        return base64.b64decode(self.value("base64.b64encode(agent.get_agent_metadata()).decode()"))

    def knows(self, other):
        return self.value(f"agent.check_remote_metadata({other!r})")


@pytest.fixture(params=[True, False], ids=["libuv", "threads"])
def store(request):
    with Store(request.param) as made:
        yield made


def test_two_agents_find_each_other_and_move_bytes(store):
    with Agent(store, "giver", b"g") as giver, Agent(store, "taker") as taker:
        taker.run("agent.fetch_remote_metadata('giver')")  # nobody of that name is there yet
        assert not taker.knows("giver")
        giver.run("agent.send_local_metadata()")
        until(lambda: taker.knows("giver"), 20)
        assert store.get("giver") == giver.metadata()
        taker.run(f"theirs = agent.get_xfer_descs([({giver.value('addr')}, 65536, 0)], 'DRAM')\n"
                  "assert agent.check_remote_metadata('giver', theirs)\n"
                  "handle = agent.initialize_xfer('READ', descs, theirs, 'giver', b'taken')\n"
                  "agent.transfer(handle); handle.wait(20)\nassert memory.raw == b'g' * 65536")
        assert until(lambda: giver.value("[[n, [m.decode() for m in ms]] for n, ms in agent.get_new_notifs().items()]"),
                     10) == [["taker", ["taken"]]]


def test_what_was_withdrawn_is_found_no_more(store):
    with Agent(store, "fleeting") as fleeting, Agent(store, "late") as late:
        fleeting.run("agent.send_local_metadata()")
        until(lambda: store.has("fleeting"), 20)
        fleeting.run("agent.invalidate_local_metadata()")
        until(lambda: not store.has("fleeting"), 20)
        late.run("agent.fetch_remote_metadata('fleeting')")
        time.sleep(0.3)
        assert not late.knows("fleeting")
        fleeting.run("agent.send_local_metadata()")
        until(lambda: late.knows("fleeting"), 20)


def test_an_agent_that_ends_takes_its_keys_along(store):
    with Agent(store, "mortal") as mortal:
        mortal.run("agent.send_local_metadata()\n"
                   "agent.send_partial_agent_metadata(registered, True, label='part')")
        until(lambda: store.has("mortal") and store.has("mortal", "part"), 20)
        with Agent(store, "reader") as reader:
            reader.run("agent.fetch_remote_metadata('mortal', label='part')")
            until(lambda: reader.knows("mortal"), 20)
        mortal.run("agent.close()")
        until(lambda: not store.has("mortal") and not store.has("mortal", "part"), 20)


def test_metadata_of_megabytes(store):
    with Agent(store, "large") as large, Agent(store, "reader") as reader:
        large.run("many = agent.register_memory([(addr + i, 1, 0, '') for i in range(50000)], 'DRAM')\n"
                  "agent.send_local_metadata()")
        assert len(large.metadata()) > 1 << 20
        reader.run("agent.fetch_remote_metadata('large')")
        until(lambda: reader.knows("large"), 30)
        assert store.get("large") == large.metadata()


def test_what_pytorch_s_client_has_set_is_fetched(store):
    """By a key of PyTorch's client's own writing, and over what was there before."""
    with Agent(store, "author") as author, Agent(store, "reader") as reader:
        key = "'nixl/agents/metadata/author/NULL_AGENT'"
        store.run(f"store.set({key}, b'not metadata')")
        reader.run("agent.fetch_remote_metadata('author')")
        time.sleep(0.2)
        assert not reader.knows("author")
        store.run(f"store.set({key}, base64.b64decode({base64.b64encode(author.metadata()).decode()!r}))")
        reader.run("agent.fetch_remote_metadata('author')")
        until(lambda: reader.knows("author"), 20)


def test_a_store_that_comes_back_is_used_again(store):
    with Agent(store, "steady") as steady, Agent(store, "reader") as reader:
        steady.run("agent.send_local_metadata()")
        until(lambda: store.has("steady"), 20)
        store.close()
        steady.run("agent.send_local_metadata()")
        reader.run("agent.fetch_remote_metadata('steady')")
        store.open(store.port)
        until(lambda: store.has("steady"), 20)
        until(lambda: reader.knows("steady"), 20)
