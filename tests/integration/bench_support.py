# SPDX-License-Identifier: Apache-2.0
"""What the tests of nixlbench and nixl-info share: running the tools, and TAP."""
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

BUILD = os.environ.get("NIXL_TEST_BUILD", "build")
BENCH = os.path.join(BUILD, "tools", "nixlbench", "nixlbench")
INFO = os.path.join(BUILD, "tools", "nixl-info", "nixl-info")

# Small enough for a sanitizer build on two cores.
QUICK = ["--start_block_size=4K", "--max_block_size=64K", "--num_iter=64", "--warmup_iter=16", "--progress=off"]


class Skip(Exception):
    """A test that cannot run here, and why."""


def environment(extra=None):
    env = dict(os.environ)
    env.pop("NIXL_CONFIG_FILE", None)
    env.update(extra or {})
    return env


def run(program, *args, timeout=60, env=None, cwd=None):
    """Runs to the end; the whole process group is killed when it takes too long."""
    p = subprocess.Popen([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         start_new_session=True, env=environment(env), cwd=cwd)
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
        raise AssertionError(f"{args} took more than {timeout} s; stdout {out!r}, stderr {err!r}") from None
    return p.returncode, out, err


def bench(*args, **kwargs):
    return run(BENCH, *args, **kwargs)


def bench_json(*args, **kwargs):
    """The document of a run that must succeed."""
    rc, out, err = bench("--output=json", *args, **kwargs)
    assert rc == 0, f"{args}: status {rc}, {err}"
    return json.loads(out)


def refused(*args, words, **kwargs):
    """The run must fail at once with all of these words on standard error, and one line of it."""
    rc, out, err = bench(*args, timeout=20, **kwargs)
    assert rc == 1, f"{args}: status {rc}, {out!r} {err!r}"
    for word in words:
        assert word in err, f"{args}: {err!r} lacks {word!r}"
    assert err.count("\n") == 1, f"{args}: more than one line: {err!r}"


def members_of_group(pgid):
    """Processes of a group that still run, zombies not counted."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                rest = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(rest[2]) == pgid and rest[0] not in "ZX":
            found.append(int(name))
    return found


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Etcd:
    """An etcd of the test's own. `within`: the command that runs others where it is to live, a network namespace."""

    def __init__(self, address="127.0.0.1", within=()):
        self.address = address
        self.within = within

    def answers(self, client):
        code = f"import socket; socket.create_connection(('{self.address}', {client.rpartition(':')[2]})).close()"
        return subprocess.run([*self.within, sys.executable, "-c", code], capture_output=True, check=False).returncode == 0

    def __enter__(self):
        if not shutil.which("etcd"):
            raise Skip("etcd is not there (Debian: etcd-server)")
        self.folder = tempfile.mkdtemp(prefix="nixl-etcd-")
        client, peer = (f"http://{self.address}:{free_port()}" for _ in range(2))
        self.command = [*self.within, "etcd", "--data-dir", self.folder + "/data", "--listen-client-urls", client,
                        "--advertise-client-urls", client, "--listen-peer-urls", peer,
                        "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer]
        self.client = client
        self.start()
        return client

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.answers(self.client), 20, "etcd")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def etcd_keys(endpoint, prefix):
    """The keys of an etcd that begin so."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    body = {"key": base64.b64encode(prefix.encode()).decode(), "range_end": base64.b64encode(end.encode()).decode()}
    request = urllib.request.Request(endpoint + "/v3/kv/range", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return sorted(base64.b64decode(kv["key"]).decode() for kv in json.load(answer).get("kvs", []))


def etcd_call(endpoint, path, **fields):
    """One call of etcd's gateway; keys and values as bytes."""
    body = {name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in fields.items()}
    request = urllib.request.Request(f"{endpoint}/v3/kv/{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main(tests):
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {number} - {name}")
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}")
        except Exception:  # a failing test must not stop the others
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
        sys.stdout.flush()
    sys.exit(1 if failed else 0)
