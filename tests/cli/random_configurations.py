"""Whatever is configured ends with a documented verdict, or is refused at the start, and its result is in the file.
Usage: random_configurations.py BINARY [FIRST COUNT]: other configurations, and more of them."""

import json
import os
import random
import re
import sys
import tempfile
import unittest

FIRST, COUNT = (int(x) for x in sys.argv[2:4]) if len(sys.argv) > 3 else (0, 60)
del sys.argv[2:]

from periscope_process import Result, run  # noqa: E402 - it takes its argument from what is left

VERDICTS = {"agrees", "disagrees", "inconclusive", "not-checked"}
NAMES = ["none", "post", "pre", "peri", "b-only", "a+c", "deepnorm", "mix", "lns", "depth-scaled", "residual-dual"]
GRADIENTS = ["depth", "attenuation", "identity-path", "score-path", "crossover"]
COMMANDS = ["propagate"] * 4 + ["theory", "ladder", "ladder", "certify"] + GRADIENTS
SCALES = [0.0, 1e-200, 1e-30, 1e-3, 1.0, 3.0, 1e30, 1e150]


def placement(r):
    if r.random() < 0.6:
        return '"%s"' % r.choice(NAMES)
    norms = [f"{k} = {r.choice(['true', 'false'])}" for k in "ABC"]
    return "{%s, alpha = %r, beta = %r}" % (", ".join(norms), r.choice([0.0, 1.0, 1e-30, 1e30]),
                                            r.choice([0.0, 1.0, -2.0]))


def configuration(r, command):
    """Settings that are valid but for a few combinations; many are at the edge of what can be computed."""
    heads, head_dim = r.choice([1, 2]), r.choice([2, 4])
    width = heads * head_dim
    c = {
        "model.width": width, "model.heads": heads, "model.head_dim": head_dim, "model.layers": r.choice([1, 2, 3]),
        "model.mlp": r.choice(["relu", "gelu", "swiglu", "geglu_tanh"]), "model.mlp_width": r.choice([1, 8]),
        "model.norm": r.choice(["rms", "layer"]), "model.vocab": r.choice([1, 2, 16]),
        "model.placement": placement(r), "init.scheme": r.choice(["normal", "lecun", "he", "scaled", "mitchell"]),
        "input.kind": r.choice(["gaussian", "tokens"]), "input.tokens": r.choice([1, 2, 5]),
        "run.seeds": r.randint(1, 8), "run.dtype": r.choice(["f32", "f64"]),
        "theory.tolerance": 0.5, "theory.gradient_tolerance": 1.0,
    }  # fmt: skip
    may = {
        "model.norm_eps": [0.0, 1e-300, 1.0, 1e300], "model.gamma": SCALES, "model.final_norm": ["true", "false"],
        "model.embedding_norm": ["true"], "model.unembedding": ["false"], "model.causal": ["false"],
        "model.qk_norm": ["head", "full"], "init.std": SCALES, "init.factor": SCALES, "init.qk_factor": SCALES,
        "init.down_factor": SCALES, "input.second_moment": [1e-300, 1e-60, 1e4, 1e60, 1e300],
        "input.correlation": [0.999999, 1.0], "theory.replicates": [2, 16],
        "agreement.familywise_error": [1e-300, 1e-6],
        "model.v_norm": ["true"], "model.inner_norm": ["o", "down", "both"],
        "model.attention_gate": ["head", "channel"],
        "agreement.finite_width": [0.0, 100.0], "agreement.power_limit.log_grad_sq": [1e-3, 10.0],
        "init.o_factor": SCALES, "init.residual": ["1/sqrt(2L)", "1/(l+1)", "l"], "init.truncation": [0.1, 3.0],
        "init.head_std": SCALES[1:], "init.embedding_std": SCALES[1:],
    }  # fmt: skip
    for key, values in may.items():
        if r.random() < 0.25:
            c[key] = r.choice(values)
    for key, acts in (("init.std", c["init.scheme"] == "normal"), ("init.factor", c["init.scheme"] == "scaled"),
                      ("input.correlation", c["input.kind"] == "gaussian")):
        if not acts:
            c.pop(key, None)
    for key, others in (("init.residual", ("init.o_factor", "init.down_factor")),
                        ("init.embedding_std", ("input.second_moment",))):
        for other in others if key in c else ():
            c.pop(other, None)
    if c["init.scheme"] == "mitchell":
        c.pop("init.residual", None)
    if "model.unembedding" in c:
        c.pop("init.head_std", None)
    if command == "ladder":
        c["ladder.widths"], c["ladder.seeds"] = [width, 2 * width, 3 * width, 4 * width], 16
    if command == "crossover":
        c["model.placement"] = '["pre", %s]' % r.choice(['"post"', '"peri"', '"none"'])
        c["gradients.down_factors"] = r.choice([[0.1, 1.0, 10.0], [1e-150, 1.0], [1e-30, 1e30]])
    if command == "depth":
        c["gradients.layers"] = [1, 2, 3]
    return c


def arguments(command, settings):
    words = [["gradients"], []][command not in GRADIENTS] + [command]
    if command in ("propagate", "theory"):
        words.append("--backward")
    if command == "certify":
        words += ["--measure", "--attack", 2] + (["--input-maximum", 3] if settings["input.kind"] == "gaussian" else [])
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return words


def flat(values):
    return [one for value in values for one in flat(value)] if isinstance(values, list) else [values]


def verdicts_of(columns):
    """Every verdict of a result: those of stacks and of findings, not of the certificate's classes or of claims."""
    return [verdict for name, values in columns.items() for verdict in flat(values) if name.endswith("verdict") and
            not name.endswith("claim_verdict")]  # fmt: skip


class RandomConfigurations(unittest.TestCase):
    def check(self, name, words):
        """The finished process, or None of what was refused at the start."""
        with self.subTest(name), tempfile.TemporaryDirectory() as folder:
            done = run(*words, "--threads", 2, "--out", folder, "--json")
            command = "periscope " + " ".join(str(w) if " " not in str(w) else f"'{w}'" for w in words)
            if done.returncode in (2, 3):
                self.assertEqual(done.stderr.count("\n"), 1, f"{command}\nrefused after work was done:\n{done.stderr}")
                return None
            self.assertIn(done.returncode, (0, 4), f"{command}\n{done.stderr}")
            self.assertTrue([f for f in os.listdir(folder) if f.endswith(".nc")], f"{command}: no result file")
            lines = [line for line in done.stderr.splitlines() if re.search(r"(?<![a-z])nan(?![a-z])", line)]
            self.assertEqual(lines, [], f"{command}: a table shows nan")
            self.assertLessEqual(set(verdicts_of(Result(json.loads(done.stdout)).data())), VERDICTS, command)
            if done.returncode == 4:
                self.assertRegex(done.stderr, "disagrees|BOUND EXCEEDED", command)
            return done

    def test_random(self):
        kept = 0
        for i in range(FIRST, FIRST + COUNT):
            r = random.Random(i)
            command = COMMANDS[i % len(COMMANDS)]
            done = self.check(f"configuration {i}", arguments(command, configuration(r, command)))
            kept += done is not None
            # Theory is right of every stack: noise, rounding, overflow and underflow may not speak against it.
            if done is not None and done.returncode == 4:
                self.fail(f"configuration {i} ({command}) rejects theory:\n{done.stderr}")
        self.assertGreater(kept, COUNT // 2, "most are refused: the generator is no test")


if __name__ == "__main__":
    unittest.main()
