"""Every key of `periscope list`, set to values that it should not have: a documented exit code, a message of one line
that names the key, within seconds and a bounded memory. Usage: every_key.py BINARY"""

import concurrent.futures
import json
import os
import resource
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, run

SMALL = """
[model]
layers = 1
width = 8
heads = 2
vocab = 16
mlp_width = 16
[input]
tokens = 3
[run]
seeds = 2
threads = 1
"""
# Those whose messages a terminal could suffer from; tests/python/every_key_test.py has many more.
VALUES = ["nan", "-1", "2147483648", "", "{A = 1}", '"\\u0000"', "'\x1b[2J'", "x" * 10000, "[" * 5000, "9" * 400]
# Nothing was wrong, the configuration was, or a file was.
DOCUMENTED = {0, 2, 3}
SECONDS = 10
ADDRESSES = 3 << 30


def fault(key, code, stderr):
    """What is wrong with how a run with this key ended; None if nothing is."""
    message = stderr.decode("utf-8", "backslashreplace")
    # A folder that cannot be written to is found when the result is.
    documented = DOCUMENTED | ({1} if key == "run.out" else set())
    if code not in documented:
        return f"exit code {code}: {message[-500:]}"
    if code in (0, 1):
        return None
    if message.count("\n") != 1 or len(message) > 1000 or any(ord(c) < 32 for c in message[:-1]):
        return f"not one printable line: {message[:2000]!r}"
    return None if key in message else f"the key is not named: {message}"


def outcome(folder, key, value):
    """The same of a run of `theory` with this setting."""
    try:
        done = subprocess.run([str(BINARY), "theory", "--quiet", "--config", "small.toml", "--set", f"{key}={value}"],
                              capture_output=True, timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} s"
    return fault(key, done.returncode, done.stderr)


class EveryKey(FolderTest):
    STACK = SMALL

    def setUp(self):
        super().setUp()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, limits[1]))  # the program inherits it
        self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, limits)

    def test_values_that_it_should_not_have(self):
        keys = [k["name"] for k in json.loads(run("list", "--json").stdout)["keys"]]
        self.assertGreater(len(keys), 30)
        cases = [(key, value) for key in keys for value in VALUES]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            outcomes = list(pool.map(lambda case: outcome(self.folder, *case), cases))
        wrong = [f"{key}={value[:60]}: {what}" for (key, value), what in zip(cases, outcomes, strict=True)
                 if what]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_a_fault_is_seen(self):
        for code, stderr, words in ((-11, b"", "exit code -11"), (1, b"model.width: no\n", "exit code 1"),
                                    (2, b"wrong\n", "not named"), (2, b"model.width\nwrong\n", "one printable line"),
                                    (2, b"model.width\x1b[2J\n", "one printable line"), (2, b"", "one printable line"),
                                    (2, b"model.width" + 1000 * b"x" + b"\n", "one printable line")):
            with self.subTest(stderr=stderr[:20]):
                self.assertIn(words, fault("model.width", code, stderr))
        self.assertIsNone(fault("model.width", 2, b"model.width = 0\n"))


if __name__ == "__main__":
    unittest.main()
