#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small TCPStore, for tests where PyTorch is not installed: the operations that NIXL uses, by PyTorch's protocol.
Prints "port N" and serves until its standard input ends."""
import socketserver
import struct
import sys
import threading

values = {}
changed = threading.Condition()


class Connection(socketserver.StreamRequestHandler):
    def number(self, form):
        data = self.rfile.read(struct.calcsize(form))
        if len(data) < struct.calcsize(form):
            raise EOFError
        return struct.unpack(form, data)[0]

    def text(self):
        return self.rfile.read(self.number("<Q"))

    def handle(self):
        try:
            while True:
                self.operation(self.number("B"))
        except (EOFError, ConnectionError):
            pass

    def operation(self, op):
        if op == 0:
            if self.number("<I") != 0x3C85F7CE:
                raise EOFError
        elif op == 13:
            self.wfile.write(struct.pack("<I", self.number("<I")))
        elif op == 1:
            key = self.text()
            with changed:
                values[key] = self.text()
                changed.notify_all()
        elif op == 3:
            key = self.text()
            with changed:
                changed.wait_for(lambda: key in values, timeout=30)
                value = values.get(key, b"")
            self.wfile.write(struct.pack("<Q", len(value)) + value)
        elif op == 5:
            keys = [self.text() for _ in range(self.number("<Q"))]
            with changed:
                self.wfile.write(b"\0" if all(k in values for k in keys) else b"\1")
        elif op == 8:
            with changed:
                self.wfile.write(struct.pack("<q", int(values.pop(self.text(), None) is not None)))
        else:
            raise EOFError


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


with Server(("127.0.0.1", 0), Connection) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_address[1], flush=True)
    sys.stdin.read()
    print("keys", *sorted(k.decode() for k in values), flush=True)
