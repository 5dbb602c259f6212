# SPDX-License-Identifier: Apache-2.0
"""Real torch tensors (CPU) and PyTorch's own TCPStore, in the interpreter that NIXL_TEST_TORCH_PYTHON names."""
import glob
import os
import re
import subprocess
import zipfile

import pytest
from conftest import BUILD, SOURCE

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("NIXL_TEST_TORCH_PYTHON")
CHECKS = os.path.join(HERE, "torch_checks.py")
WHEELS = glob.glob(os.path.join(SOURCE, "dist", "nixl-*.whl"))
with open(CHECKS, encoding="utf-8") as file:
    NAMES = re.findall(r"^def check_(\w+)", file.read(), re.M)

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="NIXL_TEST_TORCH_PYTHON names no interpreter that has torch"),
    pytest.mark.skipif(not os.path.exists(os.path.join(BUILD, "plugins", "libplugin_UCX.so")),
                       reason="the UCX backend is not built here"),
]
# Its own packages and the package under test, nothing of this interpreter's.
ENV = {**{k: v for k, v in os.environ.items() if k != "NIXL_PLUGIN_DIR"},
       "PYTHONPATH": os.path.join(BUILD, "bindings", "python"), "NIXL_LOG_LEVEL": "WARN"}


def torch(*arguments, timeout=120, **env):
    done = subprocess.run([PYTHON, *arguments], text=True, capture_output=True, timeout=timeout, env={**ENV, **env})
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checks():
    """All checks in one process: torch takes seconds to import."""
    return torch(CHECKS)


@pytest.mark.parametrize("name", NAMES)
def test_torch_tensors(checks, name):
    assert f"\nok check_{name}\n" in "\n" + checks, checks


MOVE = """
a, b = nixl.nixl_agent("a"), nixl.nixl_agent("b")
x = torch.randn(1 << 16).to(torch.bfloat16); y = torch.zeros_like(x)
a.register_memory(x); b.register_memory(y)
a.add_remote_agent(b.get_agent_metadata())
h = a.initialize_xfer("WRITE", a.get_xfer_descs(x), a.get_xfer_descs(y), "b")
a.transfer(h); h.wait(20)
assert torch.equal(x, y)
assert torch.allclose(torch.eye(64) @ torch.ones(64, 64), torch.ones(64, 64))
print("moved")
"""


@pytest.mark.parametrize("order", ["torch, nixl", "nixl, torch"])
def test_torch_is_imported_before_or_after(order):
    assert torch("-c", f"import {order}\n{MOVE}") == "moved\n"


@pytest.mark.parametrize("package", ["build", "wheel"])
def test_torch_and_a_distribution_ucx_in_one_process(package, tmp_path):
    """The system's UCX is loaded for all to see, and asked, before and after NIXL and torch have worked: a build here
    uses that one, for two of one name in a process would be mixed up; a wheel's own has other names."""
    system = glob.glob("/usr/lib/*-linux-gnu/libucp.so.0") + glob.glob("/usr/lib64/libucp.so.0")
    if not system:
        pytest.skip("there is no UCX of the system's")
    env = {}
    if package == "wheel":
        if not WHEELS:
            pytest.skip("there is no wheel in dist/ (make wheel)")
        with zipfile.ZipFile(WHEELS[0]) as wheel:
            wheel.extractall(tmp_path)
        env["PYTHONPATH"] = str(tmp_path)
    code = f"""
import ctypes
system = ctypes.CDLL({system[0]!r}, mode=ctypes.RTLD_GLOBAL)
system.ucp_get_version_string.restype = ctypes.c_char_p
before = system.ucp_get_version_string()
import torch, nixl
{MOVE}
words = a.agent.backendDescription(a.backends["UCX"])
assert ("UCX 1.22" if {package == "wheel"} else "loaded before NIXL") in words, words
assert system.ucp_get_version_string() == before
"""
    assert torch("-c", code, **env) == "moved\n"
