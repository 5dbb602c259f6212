# SPDX-License-Identifier: Apache-2.0
"""A process that runs the Python it is sent, for tests with several processes:

with Remote(python, env) as there:  there.run("x = 1");  there.value("x + 1") == 2
"""
import json
import select
import subprocess
import sys

LOOP = """
import json, sys, traceback
names = {}
for line in sys.stdin:
    code, is_value = json.loads(line)
    try:
        answer = ["ok", eval(code, names) if is_value else exec(code, names)]
    except BaseException:
        answer = ["failed", traceback.format_exc()]
    print("\\x00" + json.dumps(answer), flush=True)
"""


class Remote:
    def __init__(self, python=sys.executable, env=None):
        self.process = subprocess.Popen([python, "-c", LOOP], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def _ask(self, code, is_value, seconds):
        self.process.stdin.write(json.dumps([code, is_value]) + "\n")
        self.process.stdin.flush()
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            assert ready, f"no answer in {seconds} s to {code}"
            line = self.process.stdout.readline()
            assert line, f"it died with {self.process.wait(timeout=10)} of {code}"
            if line.startswith("\0"):  # all else is what programs print
                outcome, answer = json.loads(line[1:])
                assert outcome == "ok", answer
                return answer

    def run(self, code, seconds=60):
        self._ask(code, False, seconds)

    def value(self, code, seconds=60):
        """The value of an expression that JSON can carry."""
        return self._ask(code, True, seconds)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=10)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
        self.process.stdin.close()
        rc = self.process.wait(timeout=30)
        self.process.stdout.close()
        assert kind is not None or rc in (0, -9), rc
