#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finishes a wheel:  wheel_check.py WHEEL UCX_FOLDER GLIBC OUT_FOLDER

Adds the UCX folder as nixl/ucx, looks at each ELF file (no symbol of a newer glibc, nothing needed but glibc and what
the wheel brings, no path of this machine), names the platform by what was found, and writes the wheel and its size.
"""
import base64
import csv
import hashlib
import io
import os
import platform
import re
import struct
import sys
import zipfile

# What every machine of the policy has: the C library's own.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# A module of UCX that is opened only where the vendor's library is.
OPTIONAL = {"libuct_cuda.so.0": {"libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.12"}}


def sections(data):
    """{type: [(offset, size, link, name offset)]} and the section list of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]


def text(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


def needs(data):
    """(needed libraries, runpath, {glibc versions})."""
    found, runpath, versions = set(), "", set()
    every = sections(data)
    for _, kind, _, _, offset, size, link, info, _, _ in every:
        strings = every[link][4] if link < len(every) else 0
        if kind == 6:  # SHT_DYNAMIC
            for at in range(offset, offset + size, 16):
                tag, value = struct.unpack_from("<QQ", data, at)
                if tag == 1:
                    found.add(text(data, strings + value))
                elif tag in (15, 29):
                    runpath = text(data, strings + value)
        elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            at = offset
            for _ in range(info):
                _, count, _, aux, following = struct.unpack_from("<HHIII", data, at)
                entry = at + aux
                for _ in range(count):
                    _, _, _, name, next_entry = struct.unpack_from("<IHHII", data, entry)
                    versions.add(text(data, strings + name))
                    entry += next_entry
                at += following
    return found, runpath, versions


def main(wheel, ucx, limit, out):
    limit = tuple(map(int, limit.split(".")))
    with zipfile.ZipFile(wheel) as source:
        files = {i.filename: (source.read(i), i.external_attr) for i in source.infolist() if not i.is_dir()}
    for folder, _, names in os.walk(ucx):
        for name in names:
            path = os.path.join(folder, name)
            inside = "nixl/ucx/" + os.path.relpath(path, ucx)
            with open(path, "rb") as file:
                files[inside] = (file.read(), (0o100755 if ".so" in name else 0o100644) << 16)
    libraries = {os.path.basename(n) for n in files if ".so" in n}
    newest, faults = (0, 0), []
    for name, (data, _) in sorted(files.items()):
        if data[:4] != b"\x7fELF":
            continue
        base = os.path.basename(name)
        needed, runpath, versions = needs(data)
        for library in needed - SYSTEM - libraries - OPTIONAL.get(base, set()):
            faults.append(f"{name} needs {library}, which not every machine has")
        for part in filter(None, runpath.split(":")):
            if not part.startswith("$ORIGIN"):
                faults.append(f"{name} has the path {part} of the machine it was built on")
        for version in versions:
            if version.startswith("GLIBC_"):
                if not re.fullmatch(r"GLIBC_[\d.]+", version):
                    faults.append(f"{name} needs {version}")
                    continue
                number = tuple(map(int, version[6:].split(".")))[:2]
                newest = max(newest, number)
                if number > limit:
                    faults.append(f"{name} needs glibc {version[6:]}")
            elif version.startswith(("GCC_", "GLIBCXX_", "CXXABI_")):
                faults.append(f"{name} needs {version}: a runtime that not every machine has")
    if not any(n.startswith("nixl/_bindings.abi3") for n in files):
        faults.append("there is no nixl/_bindings.abi3.so")
    for name in ("nixl_cu12.py", "nixl_cu13.py", "nixl/py.typed", "nixl/ucx/libucp-nixl.so.0"):
        if name not in files:
            faults.append(f"there is no {name}")
    for plugin in ("UCX", "POSIX"):
        if not any(n.endswith(f"plugins/libplugin_{plugin}.so") for n in files):
            faults.append(f"there is no plugin {plugin}")
    if faults:
        sys.exit("\n".join(faults))

    tag = f"cp311-abi3-manylinux_{limit[0]}_{limit[1]}_{platform.machine()}"
    record = next(n for n in files if n.endswith(".dist-info/RECORD"))
    described = record.replace("RECORD", "WHEEL")
    words = re.sub(r"(?m)^Tag: .*\n?", "", files[described][0].decode()).rstrip("\n") + f"\nTag: {tag}\n"
    files[described] = (words.encode(), files[described][1])
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name, (data, _) in sorted(files.items()):
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            writer.writerow([name, f"sha256={digest}", len(data)])
    writer.writerow([record, "", ""])
    files[record] = (rows.getvalue().encode(), files[record][1])
    name = "-".join(os.path.basename(wheel).split("-")[:2]) + f"-{tag}.whl"
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        # RECORD last, as installers expect.
        for inside in sorted(files, key=lambda n: (n == record, n)):
            info = zipfile.ZipInfo(inside, (2020, 1, 1, 0, 0, 0))
            info.external_attr = files[inside][1] or 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, files[inside][0], compresslevel=9)
    print(f"{path}: {os.path.getsize(path):,} bytes, glibc {newest[0]}.{newest[1]} or later")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
