"""Programs that tests start are stopped by signals, however the test itself was started.

Usage: started_programs.py BINARY
"""

import pathlib
import signal
import time
import unittest

from periscope_process import STOPPING, start_program

HERE = pathlib.Path(__file__).resolve().parent


def signals_of(process, kind):
    """The signals that a process ignores (SigIgn) or catches (SigCgt)."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith(kind + ":")), 16)
    return {number for number in STOPPING if mask >> (number - 1) & 1}


class StartedPrograms(unittest.TestCase):
    def setUp(self):
        """As nohup and the background of a shell script start a test, whatever started this one."""
        for number in STOPPING:
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_IGN))

    def long_program(self, **options):
        """A program that takes hours, once it has asked for signals."""
        process = start_program("verify", "--cases", 200000000, "--threads", 1, "--quiet", **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not signals_of(process, "SigCgt"):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def test_a_signal_that_the_test_ignores_stops_the_program(self):
        for number, code in ((signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=number.name):
                process = self.long_program()
                self.assertEqual(signals_of(process, "SigIgn"), set())
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), code)

    def test_a_program_can_be_started_with_a_signal_ignored(self):
        process = self.long_program(ignoring=[signal.SIGINT])
        self.assertEqual(signals_of(process, "SigIgn"), {signal.SIGINT})

    def test_every_test_starts_it_so(self):
        others = [path.name for path in HERE.glob("*.py")
                  if path.name not in ("periscope_process.py", "started_programs.py") and "Popen" in path.read_text()]
        self.assertEqual(others, [], "these start a process by themselves, not by periscope_process.start_program")


if __name__ == "__main__":
    unittest.main()
