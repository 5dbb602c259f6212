# SPDX-License-Identifier: Apache-2.0
"""The wheel, where it was built (`make wheel`): installed alone into fresh environments of every Python there is."""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import SOURCE

HERE = os.path.dirname(os.path.abspath(__file__))
WHEELS = glob.glob(os.path.join(SOURCE, "dist", "nixl-*.whl"))
# No compiler, no build tree, no UCX of the environment's choice; no warning that tcp, asked for here, is slow.
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "NIXL_LOG_LEVEL": "ERROR", "UCX_TLS": "tcp,self"}

pytestmark = pytest.mark.skipif(not WHEELS, reason="there is no wheel in dist/ (make wheel)")


def interpreters():
    """One of each Python version from 3.11 on: those of NIXL_TEST_PYTHONS, on the path, pyenv's, the system's."""
    found = {}
    named = [path for path in os.environ.get("NIXL_TEST_PYTHONS", "").split(":") if path]
    names = [os.path.join(folder, f"python3.{minor}") for minor in range(11, 20)
             for folder in os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]]
    for path in [*named, sys.executable, *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")), "/usr/bin/python3", *names]:
        if not os.access(path, os.X_OK):
            continue
        asked = subprocess.run([path, "-c", "import sys; print(sys.version.split()[0], sys.prefix)"], text=True,
                               capture_output=True)
        version, _, prefix = asked.stdout.strip().partition(" ")
        numbers = re.match(r"3\.(\d+)\.", version)
        if numbers and int(numbers.group(1)) >= 11:
            found.setdefault((version, prefix == "/usr"), path)
    return {version + (" (system)" if system else ""): path for (version, system), path in sorted(found.items())}


PYTHONS = interpreters()


def environment(folder, python):
    """A virtual environment that has the wheel and nothing else; its interpreter."""
    place = str(folder / "env")
    subprocess.run([python, "-m", "venv", "--without-pip", place], check=True, timeout=60)
    inside = os.path.join(place, "bin", "python")
    site = subprocess.run([inside, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], text=True,
                          capture_output=True, check=True).stdout.strip()
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site,
                    "--disable-pip-version-check", WHEELS[0]], check=True, timeout=120, env={**os.environ, "PYTHONPATH": ""})
    return inside


def run(python, *arguments, env=BARE, timeout=60):
    done = subprocess.run([python, *arguments], text=True, capture_output=True, timeout=timeout, env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def two_processes(python, folder, env=BARE):
    folder.mkdir()
    sides = [subprocess.Popen([python, os.path.join(HERE, "peer.py"), role, str(folder), name, other], text=True, env=env,
                              cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for role, name, other in (("initiator", "i", "t"), ("target", "t", "i"))]
    outputs = [side.communicate(timeout=60)[0] for side in sides]
    assert "read DONE True\nwrite DONE\nend\n" == outputs[0], outputs
    assert outputs[1].endswith("True\nend\n"), outputs


def test_there_is_one_small_wheel_for_all():
    assert len(WHEELS) == 1
    assert re.search(r"-cp311-abi3-manylinux_2_28_(x86_64|aarch64)\.whl$", WHEELS[0])
    assert os.path.getsize(WHEELS[0]) < 4 << 20
    with zipfile.ZipFile(WHEELS[0]) as wheel:
        metadata = wheel.read(next(n for n in wheel.namelist() if n.endswith("/METADATA"))).decode()
    assert "\nName: nixl\n" in metadata and not re.search(r"^Requires-Dist:(?!.*extra ==)", metadata, re.M)


def test_its_version_names_this_library_s():
    with open(os.path.join(SOURCE, "include", "nixl", "nixl.h"), encoding="utf-8") as header:
        numbers = ".".join(re.findall(r"^#define NIXL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read(), re.M))
    with open(os.path.join(SOURCE, "pyproject.toml"), encoding="utf-8") as project:
        assert f'+c{numbers}"' in project.read()


@pytest.mark.parametrize("version", PYTHONS)
def test_alone_in_a_fresh_environment_it_moves_bytes_over_ucx(tmp_path, version):
    python = environment(tmp_path, PYTHONS[version])
    code = """
import nixl
from importlib import metadata
import nixl_cu12._api, nixl_cu13._bindings, sys
assert nixl_cu12._api is nixl._api and metadata.version("nixl") == nixl.__version__
a = nixl.nixl_agent("a")
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libuc" in line}
assert maps and all("/site-packages/nixl/ucx/" in m for m in maps), maps
assert "UCX 1.22" in a.agent.backendDescription(a.backends["UCX"])
assert sorted(a.get_plugin_list()) == ["POSIX", "UCX"], a.get_plugin_list()
"""
    run(python, "-c", code)
    two_processes(python, tmp_path / "work")


def test_an_import_of_what_is_installed_is_quick(tmp_path):
    python = environment(tmp_path, sys.executable)
    # The processor's time: how long it takes depends on who else is there.
    code = "import time; t = time.process_time(); import nixl; print(time.process_time() - t)"
    assert min(float(run(python, "-c", code)) for _ in range(5)) < 0.05


def test_a_moved_environment_still_works(tmp_path):
    environment(tmp_path, sys.executable)
    shutil.move(tmp_path / "env", tmp_path / "elsewhere")
    two_processes(str(tmp_path / "elsewhere" / "bin" / "python"), tmp_path / "work")


def test_a_ucx_of_the_system_in_the_same_process_does_no_harm(tmp_path):
    """Both have a libucs; what was loaded first must not be taken by the other."""
    if not glob.glob("/usr/lib/*-linux-gnu/libucp.so.0") + glob.glob("/usr/lib64/libucp.so.0"):
        pytest.skip("there is no UCX of the system's")
    python = environment(tmp_path, sys.executable)
    code = """
import ctypes
system = ctypes.CDLL("libucp.so.0", mode=ctypes.RTLD_GLOBAL)
version = system.ucp_get_version_string
version.restype = ctypes.c_char_p
import nixl
a, b = nixl.nixl_agent("a"), nixl.nixl_agent("b")
assert "UCX 1.22" in a.agent.backendDescription(a.backends["UCX"])
x, y = ctypes.create_string_buffer(b"x" * 9999, 10000), ctypes.create_string_buffer(10000)
ax, ay = ctypes.addressof(x), ctypes.addressof(y)
a.register_memory([(ax, 10000, 0, "")], "DRAM"); b.register_memory([(ay, 10000, 0, "")], "DRAM")
a.add_remote_agent(b.get_agent_metadata())
h = a.initialize_xfer("WRITE", a.get_xfer_descs([(ax, 10000, 0)], "DRAM"), a.get_xfer_descs([(ay, 10000, 0)], "DRAM"), "b")
a.transfer(h); h.wait(10)
assert y.raw == x.raw
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libucs" in line}
assert len(maps) == 2, maps
print(version().decode())
"""
    run(python, "-c", code)


def test_another_ucx_can_be_named(tmp_path):
    other = os.environ.get("NIXL_TEST_UCX122")
    if not other:
        pytest.skip("UCX 1.22 cannot be had (scripts/ucx122.sh)")
    python = environment(tmp_path, sys.executable)
    code = "import nixl; a = nixl.nixl_agent('a'); print(a.agent.backendDescription(a.backends['UCX']))"
    assert other in run(python, "-c", code, env={**BARE, "NIXL_UCX_PATH": other})
