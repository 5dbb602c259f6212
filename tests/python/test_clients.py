# SPDX-License-Identifier: Apache-2.0
"""Programs written for the reference, unchanged, on this library: each where an interpreter that has it is named.

NIXL_TEST_CLIENT_RAY, _LMCACHE, _DYNAMO, ...: an interpreter with that program, and torch. The package under test is the wheel
in dist/ where there is one, else the build's; a nixl that the interpreter has is not used.
"""
import glob
import os
import re
import subprocess
import sys
import zipfile

import pytest
from conftest import BUILD, SOURCE

HERE = os.path.dirname(os.path.abspath(__file__))
WHEELS = glob.glob(os.path.join(SOURCE, "dist", "nixl-*.whl"))
# The program, and what its last line says.
CLIENTS = {
    "ray": (["ray_transport.py"], r"ray \S+, .*: 22 objects through a registered pool, every element equal"),
    "dynamo": (["dynamo_connect.py"], r"ai-dynamo \S+, .*: 20 readables, 20 writables, 4 at a time, every element equal"),
    "lmcache": (["lmcache_store.py"], r"storage adapter over POSIX with O_DIRECT: 24 objects of 256 KiB"),
    "vllm": (["engine_descriptors.py", "vllm"], r"vllm \S+: 24 blocks by its own strided rows, every byte equal"),
    "sglang": (["engine_descriptors.py", "sglang"], r"sglang \S+: 24 blocks by its own strided rows, every byte equal"),
}


def test_every_program_here_is_run():
    assert sorted(n for n in os.listdir(os.path.join(HERE, "clients")) if n.endswith(".py")) == sorted({command[0] for command, _ in CLIENTS.values()})


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_the_reference_runs_unchanged(client, tmp_path):
    name = f"NIXL_TEST_CLIENT_{client.upper()}"
    python = os.environ.get(name)
    if not python:
        pytest.skip(f"{name} names no interpreter that has {client}")
    if WHEELS:
        package = str(tmp_path / "wheel")
        with zipfile.ZipFile(WHEELS[0]) as wheel:
            wheel.extractall(package)
    else:
        package = os.path.join(BUILD, "bindings", "python")
        if not os.path.exists(os.path.join(BUILD, "plugins", "libplugin_UCX.so")):
            pytest.skip("the UCX backend is not built here")
    (program, *arguments), last = CLIENTS[client]
    env = {**{k: v for k, v in os.environ.items() if k != "NIXL_PLUGIN_DIR"}, "PYTHONPATH": package,
           "NIXL_TEST_FOLDER": str(tmp_path), "TMPDIR": "/tmp"}
    done = subprocess.run([python, os.path.join(HERE, "clients", program), *arguments], text=True, capture_output=True, timeout=300,
                          env=env, cwd=tmp_path)
    lines = done.stdout.strip().splitlines()
    assert done.returncode == 0 and lines and re.fullmatch(last, lines[-1]), done.stdout + done.stderr
    print(*lines, sep="\n", file=sys.stderr)
