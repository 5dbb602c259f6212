# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: its modules and aliases, its logger, what its import costs, its types."""
import os
import subprocess
import sys

import pytest
from conftest import BUILD, SOURCE, run_python

PACKAGE = os.path.join(BUILD, "bindings", "python")


def test_the_package_has_the_reference_s_modules_and_their_names():
    code = """
import sys, nixl
for module in ("_api", "_bindings", "_utils", "logging"):
    assert sys.modules["nixl." + module] is getattr(nixl, module)
for name in ("nixl_agent nixl_agent_config nixlBind nixlAgent nixl_status_t DRAM_SEG get_logger setup_logging LOGGING_CONFIG "
             "malloc_passthru verify_transfer nixlXferTelemetry NIXL_THREAD_SYNC_STRICT DEFAULT_COMM_PORT _pkg np").split():
    assert hasattr(nixl, name), name
assert set(nixl.__all__) == set("DEFAULT_COMM_PORT nixl_agent nixl_agent_config nixl_backend_handle "
                                "nixl_prepped_dlist_handle nixl_thread_sync_t nixl_xfer_handle".split())
assert nixl.__version__ and nixl.library_version()
"""
    run_python(code)


@pytest.mark.parametrize("name", ["nixl_cu12", "nixl_cu13"])
def test_the_reference_s_package_names_are_aliases(name):
    code = f"""
from {name}._api import nixl_agent, nixl_agent_config
import {name}, {name}._bindings, {name}._utils, {name}.logging, nixl._api, nixl._bindings, pickle
assert nixl_agent is nixl._api.nixl_agent and {name}._bindings is nixl._bindings
made = pickle.loads(pickle.dumps(nixl._bindings.nixlXferDList(nixl._bindings.DRAM_SEG, [(1, 2, 3)]))
                    .replace(b"\\x0enixl._bindings", b"\\x13{name}._bindings"))
assert type(made) is nixl._bindings.nixlXferDList and made[0] == (1, 2, 3)
"""
    run_python(code)


def test_another_nixl_beside_this_one_is_told_and_left_whole(tmp_path):
    (tmp_path / "nixl_cu12").mkdir()
    (tmp_path / "nixl_cu12" / "__init__.py").write_text("whose = 'the other'\n")
    env = {"PYTHONPATH": PACKAGE + os.pathsep + str(tmp_path)}
    out = run_python("import nixl; print(nixl.nixl_agent.__module__)", env=env).stdout
    assert "nixl_cu12 in" in out and "another NIXL" in out and out.endswith("nixl._api\n")


def test_the_reference_s_package_wins_over_the_alias_in_one_folder(tmp_path):
    import shutil

    shutil.copy(os.path.join(SOURCE, "bindings", "python", "alias.py"), tmp_path / "nixl_cu12.py")
    (tmp_path / "nixl_cu12").mkdir()
    (tmp_path / "nixl_cu12" / "__init__.py").write_text("whose = 'the other'\n")
    assert run_python("import nixl_cu12; print(nixl_cu12.whose)", env={"PYTHONPATH": str(tmp_path)}).stdout == "the other\n"


def test_an_import_takes_neither_long_nor_numpy_nor_torch():
    # Processor time: what else the machine does at that moment is no part of it.
    code = """
import sys, time
before = time.process_time()
import nixl
took = time.process_time() - before
assert not {"numpy", "torch", "asyncio", "pickle"} & set(sys.modules), sorted(sys.modules)
print(took)
"""
    assert min(float(run_python(code).stdout) for _ in range(5)) < 0.05


@pytest.mark.parametrize("env, lines", [
    ({}, 2), ({"NIXL_LOG_LEVEL": "INFO"}, 2), ({"NIXL_LOG_LEVEL": "WARN"}, 0), ({"NIXL_LOG_LEVEL": "error"}, 0),
])
def test_the_log_level_is_the_environment_s(env, lines):
    code = "import nixl._api as a; a.nixl_agent('x', a.nixl_agent_config(backends=['MOCK']))"
    env = {"NIXL_LOG_LEVEL": "", **env}
    done = run_python(code, env=env)
    assert len([line for line in done.stdout.splitlines() if "NIXL INFO" in line]) == lines
    assert len(done.stdout.splitlines()) == lines, done.stdout


def test_an_unknown_log_level_is_told():
    assert "NIXL_LOG_LEVEL=LOUD" in run_python("import nixl", env={"NIXL_LOG_LEVEL": "LOUD"}).stdout


def test_a_logger_of_the_program_s_is_left_alone():
    code = """
import logging, io
mine = io.StringIO()
logging.getLogger("nixl").addHandler(logging.StreamHandler(mine))
import nixl.logging
assert len(logging.getLogger("nixl").handlers) == 1
nixl.logging.get_logger("_api").warning("seen")
assert mine.getvalue() == "seen\\n" and nixl.logging.get_logger("__x").name == "nixl.x"
"""
    run_python(code, env={"NIXL_LOG_LEVEL": ""})


def test_utils_are_memory_by_address():
    import nixl._utils as u

    first, second = u.malloc_passthru(100), u.malloc_passthru(100)
    assert first % 4096 == 0
    u.ba_buf(first, 100)
    u.ba_buf(second, 100)
    assert u.verify_transfer(first, second, 100) is None
    u.ba_buf(second, 0)
    import ctypes

    ctypes.memset(second + 50, 1, 1)
    with pytest.raises(AssertionError, match="byte 50 is 0xba"):
        u.verify_transfer(first, second, 100)
    u.free_passthru(first)
    u.free_passthru(second)
    for call in (lambda: u.malloc_passthru(), lambda: u.ba_buf(first), lambda: u.malloc_passthru(-1), lambda: u.malloc_passthru("x")):
        with pytest.raises((TypeError, OverflowError)):
            call()


def mypy(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], text=True, capture_output=True, timeout=300,
                          cwd=PACKAGE, env={**os.environ, "MYPY_CACHE_DIR": os.path.join(BUILD, "mypy-cache")})


def test_the_package_is_clean_under_mypy_strict():
    done = mypy("mypy", "--strict", "-p", "nixl")
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_say_what_is_there():
    done = mypy("mypy.stubtest", "nixl", "--allowlist",
                os.path.join(SOURCE, "tests", "python", "stubtest-allowlist.txt"), "--ignore-unused-allowlist")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_of_the_usual_kind_type_checks(tmp_path):
    program = tmp_path / "program.py"
    program.write_text('''
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

async def main() -> None:
    with nixl_agent("me", nixl_agent_config(backends=["UCX"])) as agent:
        reg = agent.register_memory([(1, 2, 0, "")], "DRAM")
        local = agent.prep_xfer_dlist("", np.zeros((1, 3), np.uint64), "DRAM")
        handle = agent.make_prepped_xfer("READ", local, np.arange(3), local, [0, 1, 2], notif_msg=b"x", timeout=1.5)
        state: str = agent.transfer(handle)
        await agent.wait(handle)
        async for name, message in agent.notifications():
            print(name.upper(), message.hex())
        agent.deregister_memory(reg)
''')
    done = mypy("mypy", "--strict", str(program))
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text("from nixl._api import nixl_agent\nnixl_agent(5)\n")
    assert "incompatible type" in mypy("mypy", "--strict", str(program)).stdout
