#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the wire fuzz targets to tests/fuzz/corpus/wire_*, and those of the listener.

The reference's vectors, and bytes put together here from the description in src/wire/wire.h, right and wrong,
one file a way to be wrong.
Run it after a change of the format and commit what it writes.
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = json.loads((HERE.parent / "vectors" / "reference-1.4.0.json").read_text())
PREFIX = b"nixlSerDes|"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def u64(value):
    return struct.pack("<Q", value)


def field(tag, payload):
    return tag.encode() + u64(len(payload)) + payload + b"|"


def row(addr, length, dev, meta=b""):
    return field("", struct.pack("<QQQ", addr, length, dev) + meta)


def dlist(form, mem, body, count):
    return field("nixlDList", form) + field("t", struct.pack("<I", mem)) + field("n", u64(count)) + body


def section(backend, mem, *rows):
    return field("bknd", backend) + dlist(b"nixlSDList", mem, b"".join(rows), len(rows))


def blob(agent, conns, sections, conn_count=None, section_count=None):
    return (PREFIX + field("Agent", agent)
            + field("Conns", u64(len(conns) if conn_count is None else conn_count))
            + b"".join(field("t", t) + field("c", c) for t, c in conns)
            + field("", b"MemSection")
            + field("nixlSecElms", u64(len(sections) if section_count is None else section_count))
            + b"".join(sections))


def item(number, payload):
    return struct.pack("<HI", number, len(payload)) + payload


def head(version=1, kind=0, generation=7, base=0):
    return item(1, struct.pack("<BBHQQQQ", version, kind, 0, 0x1122334455667788, 42, generation, base))


def sealed(start, items, end=b"nixlEnd!"):
    digits = items.hex().encode()
    start += b"nixlTrailer" + u64(len(digits) + 24) + digits
    return start + struct.pack("<I", crc32c(start)).hex().encode() + end.hex().encode() + b"|"


def write(target, seeds):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


BARE = blob(b"B", [], [])
NOTE = item(2, b"\x03UCX1.22.0")
GONE = item(3, b"\x03UCX" + struct.pack("<I", 0) + struct.pack("<QQQ", 1, 2, 3) * 2)
MAC = item(4, b"\x01" + bytes(range(32)))
RICH = blob(b"agent-one", [(b"UCX", b"ucx address"), (b"MOCK", b"m")],
            [section(b"UCX", 0, row(0x1000, 0x100, 0, b"key1"), row(0x3000, 0x200, 1, b"k2")),
             section(b"UCX", 1, row(2**64 - 1, 1, 3)), section(b"MOCK", 0)])

write("wire_blob", {
    **{name: bytes.fromhex(VECTORS[name])
       for name in ("full_metadata", "partial_with_conn", "partial_without_conn")},
    "example": blob(b"B", [(b"FAKE", b"CONN")], []),
    "update": sealed(RICH, head(kind=2, base=5) + NOTE + GONE + item(99, b"later") + MAC),
    "partial": sealed(BARE, head(kind=1)) + bytes(20),
    "garbage-behind": RICH + b"garbage",
    "trailer-cut": sealed(BARE, head())[:-9],
    "trailer-tail": sealed(BARE, head()) + b"x",
    "trailer-checksum": sealed(BARE, head()).replace(b"42", b"43"),
    "trailer-no-end-mark": sealed(BARE, head(), b"nixlEnd?"),
    "trailer-no-head": sealed(BARE, NOTE),
    "trailer-empty-head": sealed(BARE, item(1, b"")),
    "trailer-version-2": sealed(BARE, head(version=2)),
    "trailer-short-head": sealed(BARE, item(1, b"\x01\0\0\0")),
    "trailer-kind-3": sealed(BARE, head(kind=3)),
    "trailer-late-base": sealed(BARE, head(base=8)),
    "trailer-two-heads": sealed(BARE, head() + head()),
    "trailer-item-too-long": sealed(BARE, head() + NOTE[:-1]),
    "trailer-bad-note": sealed(BARE, head() + item(2, b"\x00x")),
    "trailer-empty-note": sealed(BARE, head() + item(2, b"")),
    "trailer-removes-in-full": sealed(BARE, head() + GONE),
    "trailer-removes-badly": sealed(BARE, head(kind=2) + item(3, b"\x03UCX\x05\0\0\0")),
    "trailer-bad-mac": sealed(BARE, head() + item(4, b"\x01short")),
    "trailer-item-behind-mac": sealed(BARE, head() + MAC + NOTE),
    "trailer-no-digits": sealed(BARE, head()).replace(b"01000000", b"01000g00", 1),
    "two-conns": blob(b"B", [(b"UCX", b"1"), (b"UCX", b"2")], []),
    "many-conns": blob(b"B", [(b"%d" % i, b"c") for i in range(65)], []),
    "huge-conns": blob(b"B", [], [], conn_count=2**64 - 1),
    "two-sections": blob(b"B", [], [section(b"UCX", 0), section(b"UCX", 0)]),
    "plain-section": blob(b"B", [], [field("bknd", b"UCX") + dlist(b"nixlBDList", 0, b"", 0)]),
    "no-sections": BARE.replace(b"MemSection", b"MemSectiom"),
    "nul-in-name": blob(b"a\0b", [], []),
})

lists = {name: bytes.fromhex(VECTORS[name]["bytes"])
         for name in ("xfer_list", "xfer_list_empty", "reg_list", "reg_list_obj")}
write("wire_desclist", {
    **lists,
    "kind-5": PREFIX + dlist(b"nixlBDList", 5, b"", 0),
    "form": PREFIX + dlist(b"nixlXDList", 0, b"", 0),
    "count-too-high": PREFIX + dlist(b"nixlBDList", 0, field("", bytes(24)), 2**63),
    "count-too-high-meta": PREFIX + dlist(b"nixlSDList", 0, row(1, 2, 3), 2**63),
    "body-too-short": PREFIX + dlist(b"nixlBDList", 0, field("", bytes(24)) + bytes(24), 2),
    "row-too-short": PREFIX + dlist(b"nixlSDList", 0, field("", bytes(23)) + bytes(9), 1),
    "row-too-long": PREFIX + dlist(b"nixlSDList", 0, u64(99) + bytes(40), 1),
    "rows-end-early": PREFIX + dlist(b"nixlSDList", 0, row(1, 2, 3, bytes(40)), 2),
    "no-count": PREFIX + field("nixlDList", b"nixlSDList") + field("t", bytes(4)),
    "count-of-4-bytes":
        PREFIX + field("nixlDList", b"nixlSDList") + field("t", bytes(4)) + field("n", bytes(4)),
})

write("wire_notif", {
    "message": PREFIX + field("name", b"agent") + field("msg", b"message"),
    "empty-message": PREFIX + field("name", b"agent") + field("msg", b""),
    "no-name": PREFIX + field("name", b"") + field("msg", b"message"),
    "nul-in-name": PREFIX + field("name", b"a\0b") + field("msg", b"message"),
    "no-message": PREFIX + field("name", b"agent") + field("mgs", b"message"),
    "cut": PREFIX + field("name", b"agent") + field("msg", b"message")[:-1],
})

# First byte: 1 a frame, 0 as it is, +2 in two pieces.
write("listener", {
    "send": b"\x01NIXLCOMM:SEND",
    "send-in-pieces": b"\x03NIXLCOMM:SEND",
    "load": b"\x01NIXLCOMM:LOAD" + BARE,
    "load-sealed": b"\x01NIXLCOMM:LOAD" + sealed(BARE, head()),
    "load-nothing": b"\x01NIXLCOMM:LOAD",
    "invalidate": b"\x01NIXLCOMM:INVLB",
    "several": b"\x01NIXLCOMM:LOAD" + BARE + b"NIXLCOMM:INVLBNIXLCOMM:SEND",
    "hello": b"\x01NIXLCOMM:HELO" + bytes(40),
    "seal": b"\x01NIXLCOMM:SEAL" + bytes(60),
    "no-command": b"\x01hello",
    "empty-frame": b"\x01",
    "huge-frame": b"\x00" + u64(2**63) + b"NIXLCOMM:SEND",
    "frame-cut": b"\x00" + u64(100) + b"NIXLCOMM:SEND",
    "two-frames": b"\x02" + 2 * (u64(13) + b"NIXLCOMM:SEND"),
    "zero-frames": b"\x00" + bytes(64),
})
