"""Every key of a configuration, set to values that it should not have: a result, or an error that names the key, within
bounded time and memory. Usage: every_key_test.py"""

import json
import resource
import subprocess
import sys
import tempfile
import unittest

VALUES = ["nan", "inf", "-inf", "1e308", "1e-308", "-0.0", "0", "1", "-1", "-2147483648", "2147483647", "2147483648",
          "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e5", "", "many", "true", "[]", "[1]",
          "[1, 1]", "[nan]", "[-9223372036854775808]", "{}", "{A = 1}", '"\\u0000"', "1979-05-27", "'\x1b[2J'",
          "x" * 10000, "[" * 5000, "9" * 400]  # fmt: skip
SMALL = ["model.layers=1", "model.width=8", "model.heads=2", "model.vocab=16", "model.mlp_width=16", "input.tokens=3",
         "run.seeds=2", "run.threads=1"]  # fmt: skip
ADDRESSES = 3 << 30
SECONDS = 240  # for all of them; some 6 are used

# Prints a line before and after every case, so that the last one is known if the process ends.
RUNS = """
import json, sys, time
from periscope import _periscope, errors
from periscope._run import request
from periscope.describe import description
small, values, start = json.loads(sys.stdin.read())
keys = [key["name"] for section in description()["sections"] for key in section["keys"]]
cases = [(key, value) for key in keys for value in values]
for number, (key, value) in enumerate(cases[start:], start):
    print(json.dumps([number, key, value[:60]]), flush=True)
    begin = time.monotonic()
    try:
        _periscope.run("theory", request(entries=small, settings=[f"{key}={value}"]))
        message, code = "", 0
    except errors.Error as error:
        message, code = str(error), error.exit_code
    print(json.dumps([message, code, time.monotonic() - begin]), flush=True)
"""


def fault(key: str, message: str, code: int, seconds: float) -> str | None:
    """What is wrong with how a run with this key ended; None if nothing is."""
    if seconds > 10:
        return f"{seconds:.0f} s"
    documented = (0, 1, 2, 3) if key == "run.out" else (0, 2, 3)  # a folder that cannot be written to
    if code not in documented:
        return f"exit code {code}: {message[:500]}"
    if code in (0, 1) or (key in message and len(message) <= 1000):
        return None
    return f"the key is not named, or at length: {message[:2000]!r}"


class EveryKey(unittest.TestCase):
    def test_values_that_it_should_not_have(self) -> None:
        given = json.dumps([SMALL, VALUES, 0])
        with tempfile.TemporaryDirectory() as folder:  # run.out is among the keys
            done = subprocess.run([sys.executable, "-c", RUNS], input=given, capture_output=True, text=True, cwd=folder,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
                                  timeout=SECONDS)  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, done.stderr), (0, ""), lines[-1])
        outcomes = list(zip(lines[::2], lines[1::2], strict=True))
        self.assertGreater(len(outcomes), 1000)
        wrong = [f"{key}={value}: {what}" for (_, key, value), outcome in outcomes if (what := fault(key, *outcome))]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_a_fault_is_seen(self) -> None:
        for message, code, seconds in (("model.width: no", 1, 0.0), ("wrong", 2, 0.0), ("", 0, 11.0), ("", 2, 0.0),
                                       ("model.width" + 1000 * "x", 2, 0.0)):  # fmt: skip
            self.assertIsNotNone(fault("model.width", message, code, seconds))
        self.assertIsNone(fault("model.width", "model.width = 0", 2, 0.0))


if __name__ == "__main__":
    unittest.main()
