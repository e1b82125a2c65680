"""The benchmarks' driver on a tiny stack; nothing depends on how long anything takes. Usage: bench_test.py BINARY"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "bench"))
import bench  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve().parent
# Says what an interpreter with PyTorch would, of a stack that took 3 s and 64 MiB, and of training.
PEER = """#!/bin/sh
case $1 in
  -c) echo '9.8' ;;
  *) echo '{"seconds": [3], "processor_seconds": [6], "peak_bytes": 67108864, "product_gflops": 1,' \\
          '"tokens_per_second": 1}' ;;
esac
"""


def run(*arguments, build=BUILD):
    command = [sys.executable, ROOT / "experiments" / "bench" / "bench.py", build, "--quick", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)


class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_layers_beside_a_peer(self):
        peer = self.folder / "python"
        peer.write_text(PEER)
        peer.chmod(0o755)
        done = run("--peer", peer, "--tables", "layers", "--tokens", "4", "--repeats", "2", "--out", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("PyTorch 9.8", done.stdout)
        self.assertEqual((self.folder / "bench.md").read_text(), done.stdout)
        rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| cpu |")]
        self.assertEqual([row[3:5] for row in rows], [["forward", "dense"], ["backward", "dense"],
                                                      ["forward", "matrix-free"], ["backward", "matrix-free"]])
        for row in rows:
            self.assertEqual((row[0:3], row[9], row[12]), (["cpu", "f32", "4"], "3", "64"))
            self.assertAlmostEqual(float(row[10]) * float(row[5]), 3.0, delta=0.1)  # the ratio
            # What a process with a few tensors of a few MiB has, and not what Python has.
            self.assertTrue(1 < float(row[8]) < 400, row)

    def test_a_missing_program_or_peer_is_an_error(self):
        done = run("--out", self.folder, build=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"stack_seconds: cannot be run: No such file")
        self.assertNotIn("Traceback", done.stderr)
        done = run("--out", self.folder, "--peer", "false")
        self.assertEqual((done.returncode, done.stderr), (1, "bench.py: false: exit code 1\n"))

    def test_ops_as_a_table(self):
        def one(aggregate, rate, share):
            return {"run_name": "norm/f32/128/real_time", "aggregate_name": aggregate, "repetitions": 3, "GB/s": rate,
                    "share": share}  # fmt: skip
        context = {"threads": "1", "ceiling_f32_gflops": "100", "ceiling_f64_gflops": "50",
                   "ceiling_memory_gbytes": "20"}
        found = {"context": context, "benchmarks": [one("mean", 9, 9), one("median", 5, 0.25), one("cv", 0.03, 0.03)]}
        self.assertIn("| `norm` | f32 | 128 | 5 GB/s | 25 % | 3 % |", bench.ops_section(found))

    def test_programs_reject_what_they_cannot_measure(self):
        for program, flags in (("stack_seconds", ["--tokens", "0"]), ("stack_seconds", ["--dtype", "f8"]),
                               ("stack_seconds", ["--device", "tpu"]), ("stack_seconds", ["train", "--width", "0"])):
            done = subprocess.run([BUILD / "experiments" / program, *flags], capture_output=True, text=True)
            self.assertEqual((done.stdout, done.returncode != 0), ("", True), flags)

    def test_the_shape_of_the_peer_is_that_of_the_program(self):
        line = bench.line_of([BUILD / "experiments" / "stack_seconds"], tokens=3, layers=1, weights="matrix-free")
        expected = {"width": 2560, "heads": 16, "kv_heads": 8, "head_dim": 160, "mlp_width": 10240, "layers": 1,
                    "tokens": 3, "direction": "forward"}  # fmt: skip
        self.assertEqual(line | expected, line)
        self.assertLessEqual(set(bench.SHAPE), set(line))


if __name__ == "__main__":
    unittest.main()
