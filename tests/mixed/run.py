#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One agent in each language, all with all others (README.md).   run.py C CAPI CPP

First over the system's UCX; then, where NIXL_TEST_REFERENCE_PYTHON names an interpreter that has the reference and
NIXL_TEST_UCX122 a UCX that the reference's can speak with, all of them with an agent of the reference."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD = os.environ["NIXL_TEST_SOURCE"], os.environ["NIXL_TEST_BUILD"]
HERE = os.path.join(SOURCE, "tests", "mixed")
REFERENCE, UCX122 = os.environ.get("NIXL_TEST_REFERENCE_PYTHON"), os.environ.get("NIXL_TEST_UCX122")
PACKAGE = os.path.join(BUILD, "bindings", "python")
LIBRARIES = os.pathsep.join([os.path.join(BUILD, "bindings", "capi"), BUILD])


def build_rust():
    """The Rust agent, built in a copy of the crate without serde: it needs no crate of others. None without cargo."""
    if not shutil.which("cargo"):
        return None, "there is no cargo"
    crate = os.path.join(BUILD, "mixed-rust")
    shutil.rmtree(os.path.join(crate, "crate"), ignore_errors=True)
    shutil.copytree(os.path.join(SOURCE, "bindings", "rust"), os.path.join(crate, "crate"),
                    ignore=shutil.ignore_patterns("target", "Cargo.lock", "tests"))
    shutil.copy(os.path.join(HERE, "peer.rs"), os.path.join(crate, "crate", "examples", "mixed_peer.rs"))
    manifest = os.path.join(crate, "crate", "Cargo.toml")
    with open(manifest, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("serde =")]
    with open(manifest, "w", encoding="utf-8") as file:
        file.writelines('default = []\n' if line.startswith("default =") else line for line in lines)
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(crate, "target"), LD_LIBRARY_PATH=LIBRARIES,
               NIXL_PREFIX=os.path.join(BUILD, "bindings", "capi"), NIXL_NO_STUBS_FALLBACK="1", CARGO_TERM_COLOR="never")
    done = subprocess.run(["cargo", "build", "--quiet", "--offline", "--example", "mixed_peer"], env=env,
                          cwd=os.path.join(crate, "crate"), capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        sys.exit("Bail out! the Rust agent is not built: " + done.stderr.replace("\n", " "))
    return [os.path.join(crate, "target", "debug", "examples", "mixed_peer")], None


def exchange(peers, env, folder, without):
    """Runs one process for each of `peers`, {name: command}; returns {name: words of a failure or None}."""
    names = ",".join(peers)
    running, results = {}, {}
    for name, command in peers.items():
        own = dict(env)
        for variable in without.get(name, ()):
            own.pop(variable, None)
        log = open(os.path.join(folder, name + ".log"), "w+", encoding="utf-8", errors="replace")
        running[name] = (subprocess.Popen(command + [folder, name, names], env=own, stdout=log, stderr=log,
                                          stdin=subprocess.DEVNULL), log)
    end = time.monotonic() + 90
    for name, (process, log) in running.items():
        try:
            code = process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "none in 90 s"
        log.seek(0)
        words = log.read()
        log.close()
        results[name] = None if code == 0 else f"exit status {code}: {words[-2000:]}"
    return results


def main():
    peers = {"c": [os.path.abspath(sys.argv[1])], "capi": [os.path.abspath(sys.argv[2])],
             "cpp": [os.path.abspath(sys.argv[3])]}
    skipped = {}
    rust, why = build_rust()
    if rust:
        peers["rust"] = rust
    else:
        skipped["rust"] = why
    env = dict(os.environ, LD_LIBRARY_PATH=LIBRARIES, PYTHONPATH=PACKAGE, UCX_LOG_LEVEL="error")
    probe = subprocess.run([sys.executable, "-c", "import nixl._api"], env=env, capture_output=True, text=True,
                           check=False, timeout=60)
    if probe.returncode == 0:
        peers["python"] = [sys.executable, os.path.join(HERE, "peer.py")]
    else:
        skipped["python"] = "the Python binding was not built"

    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name, words in exchange(peers, env, folder, {}).items():
            cases.append((f"{name} with all others", words, None))
    for name, why in skipped.items():
        cases.append((f"{name} with all others", None, why))

    if not REFERENCE:
        cases.append(("all with the reference", None, "NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference"))
    elif not UCX122:
        cases.append(("all with the reference", None, "NIXL_TEST_UCX122 names no UCX 1.22"))
    else:
        peers["reference"] = [REFERENCE, os.path.join(HERE, "peer.py")]
        env["NIXL_UCX_PATH"] = UCX122
        # The reference's wheel finds its own libraries and plugins.
        without = {"reference": ("LD_LIBRARY_PATH", "PYTHONPATH", "NIXL_PLUGIN_DIR", "NIXL_UCX_PATH")}
        with tempfile.TemporaryDirectory() as folder:
            for name, words in exchange(peers, env, folder, without).items():
                cases.append((f"{name} with all others, one of them the reference", words, None))

    print(f"1..{len(cases)}")
    for number, (name, words, why) in enumerate(cases, 1):
        if why:
            print(f"ok {number} - {name} # SKIP {why}")
            continue
        print(f"{'not ok' if words else 'ok'} {number} - {name}")
        for line in (words or "").splitlines():
            print(f"# {line}")
    sys.exit(any(words for _, words, _ in cases))


if __name__ == "__main__":
    main()
