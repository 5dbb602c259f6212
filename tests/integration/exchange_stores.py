#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metadata by name with the real library: the examples over etcd and over a TCPStore, what nixl-info --etcd shows, and the
reference's agents over the same etcd where NIXL_TEST_REFERENCE_PYTHON names an interpreter that has it."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from bench_support import INFO, Etcd, Skip, environment, free_port, main

BUILD = os.environ["NIXL_TEST_BUILD"]
SOURCE = os.environ["NIXL_TEST_SOURCE"]
EXAMPLE = os.path.join(BUILD, "examples", "c", "example-metadata_by_name")
EXAMPLE_CPP = os.path.join(BUILD, "examples", "cpp", "example-cpp-etcd_exchange")


class Store:
    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(SOURCE, "tests", "support", "tcpstore.py")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return f"127.0.0.1:{int(self.process.stdout.readline().split()[1])}"

    def keys(self):
        return self.process.communicate(timeout=10)[0].split()[1:]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def example(**extra):
    done = subprocess.run([EXAMPLE], env=environment(extra), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and 'owner has "found by name"' in done.stdout, done.stdout + done.stderr


def info(*args, **extra):
    return subprocess.run([INFO, "--etcd", *args], env=environment(extra), capture_output=True, text=True, timeout=60,
                          check=False)


def the_example_finds_its_peer_through_etcd():
    with Etcd() as endpoint:
        example(NIXL_ETCD_ENDPOINTS=endpoint)


def run_cpp(**extra):
    return subprocess.run([EXAMPLE_CPP], env=environment(extra), capture_output=True, text=True, timeout=60, check=False)


def the_cpp_example_finds_its_peer_and_sees_it_withdraw():
    with Etcd() as endpoint:
        done = run_cpp(NIXL_ETCD_ENDPOINTS=endpoint)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        assert done.stdout.splitlines() == [f"finder found owner through {endpoint}", "owner has the bytes",
                                            "owner has withdrawn, and finder has forgotten it"], done.stdout
        assert "nothing is published" in info(NIXL_ETCD_ENDPOINTS=endpoint).stdout


def the_cpp_example_fails_in_words_where_etcd_is_away():
    done = run_cpp(NIXL_ETCD_ENDPOINTS=f"http://127.0.0.1:{free_port()}")
    words = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "owner is not seen as" in words and "etcd at http://127.0.0.1" in words, done.stderr


def the_example_finds_its_peer_through_tcpstore():
    with Store() as endpoint:
        example(NIXL_TCPSTORE_ENDPOINT=endpoint)


def nixl_info_shows_who_has_published_what():
    with Etcd() as endpoint:
        extra = {"NIXL_ETCD_ENDPOINTS": endpoint}
        assert "nothing is published" in info(**extra).stdout
        code = ("import nixl, sys\na = nixl.nixl_agent('shown', nixl.nixl_agent_config(enable_prog_thread=True, backends=['UCX']))\n"
                "a.send_local_metadata()\nprint('sent', flush=True)\nsys.stdin.read()\n")
        package = os.path.join(BUILD, "bindings", "python")
        if not os.path.isdir(os.path.join(package, "nixl")):
            raise Skip("the Python package was not built")
        agent = subprocess.Popen([sys.executable, "-c", code], env=environment({**extra, "PYTHONPATH": package}),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        rows = []
        for _ in range(200):
            done = info("--json", **extra)
            assert done.returncode == 0, done.stderr
            rows = json.loads(done.stdout)
            if len(rows) == 2:
                break
            time.sleep(0.05)
        assert [(r["agent"], r["label"]) for r in rows] == [("shown", ""), ("shown", "metadata")], (rows, agent.poll())
        assert rows[1]["bytes"] > 100 and rows[1]["backends"] == "UCX" and 0 < rows[1]["lease_s"] <= 30, rows
        assert 0 <= rows[1]["age_s"] < 60
        text = info(**extra).stdout
        assert "shown" in text and "metadata" in text and "UCX" in text, text
        text = info("--peer", "shown", **extra).stdout
        assert text.startswith("agent       shown\n") and "\ntransport   UCX cma\n" in text, text
        done = info("--peer", "hidden", **extra)
        assert done.returncode == 1 and "agent hidden has not published its metadata" in done.stderr, done.stderr
        agent.communicate(timeout=30)


def nixl_info_says_when_etcd_cannot_be_asked():
    done = info(NIXL_ETCD_ENDPOINTS=f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "etcd at http://127.0.0.1" in done.stderr, done.stderr
    done = info()
    assert done.returncode == 1 and "NIXL_ETCD_ENDPOINTS is not set" in done.stderr, done.stderr


def agents_of_the_reference_meet_ours_through_etcd():
    python = os.environ.get("NIXL_TEST_REFERENCE_PYTHON")
    if not python:
        raise Skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference")
    code = ("import sys, time\n"
            "try:\n from nixl_cu12._api import nixl_agent, nixl_agent_config\n"
            "except ImportError:\n from nixl._api import nixl_agent, nixl_agent_config\n"
            "me, other = sys.argv[1:3]\n"
            "a = nixl_agent(me, nixl_agent_config(backends=['UCX']))\na.send_local_metadata()\n"
            "a.fetch_remote_metadata(other)\n"
            "end = time.time() + 20\n"
            "while not a.check_remote_metadata(other) and time.time() < end: time.sleep(0.02)\n"
            "print('knows' if a.check_remote_metadata(other) else 'does not know', flush=True)\n"
            "sys.stdin.read()\nimport os; os._exit(0)\n")
    package = os.path.join(BUILD, "bindings", "python")
    if not os.path.isdir(os.path.join(package, "nixl")):
        raise Skip("the Python package was not built")
    with Etcd() as endpoint:
        both = []
        for name, other, program in (("ours", "theirs", sys.executable), ("theirs", "ours", python)):
            env = environment({"NIXL_ETCD_ENDPOINTS": endpoint})
            if program == python:
                env.pop("NIXL_PLUGIN_DIR", None)
                env.pop("LD_LIBRARY_PATH", None)
            else:
                env["PYTHONPATH"] = package
                if os.environ.get("NIXL_TEST_UCX122"):
                    env["NIXL_UCX_PATH"] = os.environ["NIXL_TEST_UCX122"]
            both.append(subprocess.Popen([program, "-c", code, name, other], env=env, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        try:
            answers = [next((line.strip() for line in p.stdout if "know" in line), "nothing") for p in both]
            rows = json.loads(info("--json", NIXL_ETCD_ENDPOINTS=endpoint).stdout)
            keys = sorted((r["agent"], r["label"]) for r in rows)
            words = [p.communicate(timeout=30)[1][-800:] for p in both]
        finally:
            for p in both:
                p.kill()
        assert answers == ["knows", "knows"], (answers, words, rows)
        assert keys == [("ours", ""), ("ours", "metadata"), ("theirs", ""), ("theirs", "metadata")], keys


if __name__ == "__main__":
    main([the_example_finds_its_peer_through_etcd, the_cpp_example_finds_its_peer_and_sees_it_withdraw,
          the_cpp_example_fails_in_words_where_etcd_is_away, the_example_finds_its_peer_through_tcpstore,
          nixl_info_shows_who_has_published_what, nixl_info_says_when_etcd_cannot_be_asked,
          agents_of_the_reference_meet_ours_through_etcd])
