#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A storage server: clients ask it by notifications to load a file's bytes into their memory, or to keep them.

The client tells its descriptors in the notification; the server moves between its file and a buffer of its own with
POSIX, and between that buffer and the client with UCX. Both run in this one program; they could be anywhere.
"""
import asyncio
import ctypes
import os
import tempfile

from nixl import nixl_agent, nixl_agent_config

SIZE = 1 << 16


class Server:
    def __init__(self, folder):
        self.agent = nixl_agent("server", nixl_agent_config(backends=["UCX", "POSIX"]))
        self.folder = folder
        self.buffer = ctypes.create_string_buffer(SIZE)
        self.address = ctypes.addressof(self.buffer)
        self.agent.register_memory([(self.address, SIZE, 0, "")], "DRAM")
        self.files = 0

    async def run(self, operation, local, remote, where, notif=b""):
        with self.agent.initialize_xfer(operation, local, remote, where, notif) as handle:
            self.agent.transfer(handle)
            await self.agent.wait(handle, timeout=10)

    async def serve(self):
        async for client, message in self.agent.notifications():
            command, name, descs = message.split(b"|", 2)
            theirs = self.agent.deserialize_descs(descs)
            mine = self.agent.get_xfer_descs([(self.address, theirs[0][1], 0)], "DRAM")
            self.files += 1
            path = os.path.join(self.folder, name.decode())
            with self.agent.registered([(0, theirs[0][1], self.files, f"rw,create:{path}")], "FILE") as file:
                if command == b"keep":
                    await self.run("READ", mine, theirs, client)
                    await self.run("WRITE", mine, file.trim(), "server")
                    self.agent.send_notif(client, b"kept|" + name)
                else:
                    await self.run("READ", mine, file.trim(), "server")
                    await self.run("WRITE", mine, theirs, client, b"loaded|" + name)


async def client(server_metadata, introduce):
    with nixl_agent("client") as agent:
        buffer = ctypes.create_string_buffer(b"worth keeping", SIZE)
        descs = [(ctypes.addressof(buffer), SIZE, 0)]
        agent.register_memory([(*descs[0], "")], "DRAM")
        agent.add_remote_agent(server_metadata)
        introduce(agent.get_agent_metadata())
        packed = agent.get_serialized_descs(agent.get_xfer_descs(descs, "DRAM"))
        answers = agent.notifications()
        for command, answer in ((b"keep", b"kept"), (b"load", b"loaded")):
            agent.send_notif("server", command + b"|notes|" + packed)
            _, message = await asyncio.wait_for(answers.__anext__(), 20)
            assert message == answer + b"|notes", message
            print("the server has", answer.decode(), message.split(b"|")[1].decode())
            if command == b"keep":
                ctypes.memset(ctypes.addressof(buffer), 0, SIZE)
        assert buffer.value == b"worth keeping"
        print("the buffer again has:", buffer.value.decode())


async def main(folder):
    server = Server(folder)
    serving = asyncio.ensure_future(server.serve())
    try:
        await client(server.agent.get_agent_metadata(), server.agent.add_remote_agent)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        server.agent.close()
    assert os.path.getsize(os.path.join(folder, "notes")) == SIZE


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(directory))
