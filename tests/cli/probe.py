"""periscope probe and generate: a checkpoint on tokens. Usage: probe.py BINARY"""

import json
import math
import os
import pathlib
import struct
import unittest

import tiny_checkpoint
from periscope_process import FolderTest, run, run_json, run_result
from safetensors_file import read_safetensors
from tiny_checkpoint import LAYERS, WIDTH

SHARED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared"
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures"
STORIES = SHARED / "checkpoints" / "stories260K"
TOKENS = "5,9,2,250,9,17"


class Checkpoints(FolderTest):
    def setUp(self):
        super().setUp()
        self.checkpoint = self.folder / "tiny"
        self.tensors = tiny_checkpoint.write(self.checkpoint)

    def probe(self, *arguments):
        result, code = run_result("probe", self.checkpoint, "--quiet", *arguments)
        self.assertEqual(code, 0)
        return result


class Probe(Checkpoints):
    def test_identities(self):
        r = self.probe("--tokens", TOKENS, "--backward")
        self.assertEqual(r["label"], [9, 2, 250, 9, 17, -1], "the next token; none after the last")
        self.assertAlmostEqual(r["loss"], sum(r["token_loss"][:-1]) / 5, delta=1e-13)
        q, at_init, at_scales, at_profiles = (r[f"second_moment_{v}"] for v in ("measured", "at_init", "at_scales",
                                                                                "at_profiles"))  # fmt: skip
        self.assertAlmostEqual(at_scales[0], q[0], delta=1e-12, msg="the rows that the tokens use")
        for depth in range(2 * LAYERS + 1):
            parts = [r[f"log_growth_from_{part}"][depth] for part in ("scales", "sizes_inside", "alignment")]
            self.assertAlmostEqual(parts[0], math.log(at_scales[depth] / at_init[depth]), delta=1e-12)
            self.assertAlmostEqual(parts[1], math.log(at_profiles[depth] / at_scales[depth]), delta=1e-12)
            self.assertAlmostEqual(sum(parts), math.log(q[depth] / at_init[depth]), delta=1e-12)
        for l, growth in enumerate(r.each("sublayer")):
            self.assertAlmostEqual(sum(growth[f"growth_{term}"] for term in ("stream", "branch", "cross")), q[l + 1],
                                   delta=1e-13)
        for at_depth, largest in zip(r.each("depth"), r["maximum_measured"], strict=True):
            self.assertEqual(abs(at_depth["extreme_value"][0]), largest)
        for name, limit in (("fp16", 65504.0), ("fp8_e4m3", 448.0), ("fp8_e5m2", 57344.0)):
            margins = r.at(format=name, signal="x_out")["margin"]
            self.assertEqual(margins, [limit / m for m in r["maximum_measured"][1:]])

    def test_tokens_in_every_form(self):
        expected = self.probe("--tokens", TOKENS, "--no-theory")
        for text in ("5 9 2\n250, 9\t17\n", "[5, 9, 2, 250, 9, 17]"):
            file = self.folder / "ids.txt"
            file.write_text(text)
            self.assertEqual(self.probe("--tokens", file, "--no-theory")["token_loss"], expected["token_loss"])
        file.write_bytes(bytes(expected["token_id"]))
        by_text = self.probe("--text", file, "--no-theory")
        self.assertEqual((by_text["token_id"], by_text["tokenizer"]), (expected["token_id"], "bytes"))
        cut = self.probe("--text", file, "--max-tokens", 3, "--no-theory")
        self.assertEqual((cut["token_id"], cut["label"]), ([5, 9, 2], [9, 2, -1]))
        self.assertIn("the first 3 of 6 tokens (--max-tokens)", cut["notes"])

    def test_labels(self):
        shifted = self.probe("--tokens", TOKENS, "--labels", "9,2,250,9,17,-1", "--no-theory")
        self.assertEqual(shifted["loss"], self.probe("--tokens", TOKENS, "--no-theory")["loss"])
        some = self.probe("--tokens", TOKENS, "--labels", "-1,-1,0,-1,255,-1", "--no-theory")
        self.assertEqual([v is None for v in some["token_loss"]], [True, True, False, True, False, True])
        self.assertAlmostEqual(some["loss"], (some["token_loss"][2] + some["token_loss"][4]) / 2, delta=1e-14)

    def test_llama2c_tokenizer_is_found(self):
        pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % b for b in range(256)] + [b" ", b"a", b" a"]
        entries = b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))
        tiny_checkpoint.write(self.checkpoint, vocab=len(pieces))
        (self.checkpoint / "tok262.bin").write_bytes(struct.pack("<i", 6) + entries)
        text = self.folder / "words.txt"
        text.write_text("aab")
        r = self.probe("--text", text, "--no-theory")
        self.assertEqual(r["token_id"], [1, 261, 260, 3 + ord("b")])
        self.assertTrue(r["tokenizer"].endswith("tok262.bin"))
        self.assertEqual(r["token_text"], ["\\x0a<s>\\x0a", " a", "a", "b"])

    def test_dump(self):
        target = self.folder / "dump"
        r = self.probe("--tokens", TOKENS, "--backward", "--dump", target, "--no-theory")
        self.assertEqual([p.name for p in target.iterdir()], ["activations.safetensors"])
        dumped = read_safetensors(target / "activations.safetensors")
        streams = {f"{g}stream.{i}": [6, WIDTH] for g in ("", "grad.") for i in range(2 * LAYERS + 1)}
        expected = {"input": [6, WIDTH], "tokens": [6], "labels": [6], "logits": [6, 256], "loss": [1]} | streams
        expected |= {f"grad.weight.{name}": shape for name, (shape, _) in self.tensors.items()}
        self.assertEqual({name: shape for name, (shape, _) in dumped.items()}, expected)
        self.assertEqual(list(dumped["tokens"][1]), r["token_id"])
        self.assertEqual(list(dumped["labels"][1]), r["label"])
        self.assertEqual(dumped["loss"][1][0], r["loss"])
        table = self.tensors["model.embed_tokens.weight"][1]
        rows = [table[t * WIDTH + j] for t in r["token_id"] for j in range(WIDTH)]
        self.assertEqual(list(dumped["input"][1]), rows)
        for i, q in enumerate(r["second_moment_measured"]):
            values = dumped[f"stream.{i}"][1]
            self.assertAlmostEqual(sum(v * v for v in values) / len(values), q, delta=1e-13)
        logits = dumped["logits"][1][:256]
        by_hand = math.log(sum(math.exp(z) for z in logits)) - logits[r["label"][0]]
        self.assertAlmostEqual(r["token_loss"][0], by_hand, delta=1e-12)
        forward = self.folder / "forward"
        self.probe("--tokens", TOKENS, "--dump", forward, "--no-theory")
        alone = read_safetensors(forward / "activations.safetensors")
        self.assertEqual(alone, {k: v for k, v in dumped.items() if not k.startswith("grad.")})

    def test_dtypes_devices_and_threads(self):
        arguments = ("--tokens", TOKENS, "--backward", "--no-theory")
        one = self.probe(*arguments, "--threads", 1)
        two = self.probe(*arguments, "--threads", 2)
        self.assertEqual(one.data(), two.data(), "bit for bit")
        reference = self.probe(*arguments, "--device", "reference")
        single = self.probe(*arguments, "--dtype", "f32")
        self.assertEqual(single.config["run"]["dtype"], "f32")
        self.assertFalse(single["growth_violated"])
        for a, b, c in zip(*(r["variance_measured"] for r in (one, reference, single)), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-12 * a)
            self.assertAlmostEqual(a, c, delta=1e-5 * a)
            self.assertNotEqual(a, c)

    def test_ops_of_a_small_pass_stay_on_one_thread(self):
        """OpenMP prints a line for every thread of a team."""
        environment = {**os.environ, "OMP_DISPLAY_AFFINITY": "true"}

        def threads(*words):
            done = run(*words, "--threads", 2, "--quiet", environment=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr.count("affinity")
        if threads("verify", "--cases", 20) == 0:
            self.skipTest("this OpenMP does not show its threads")
        small = self.folder / "small"
        run("write-checkpoint", "--family", "llama", "--set", "model.width=96", "--set", "model.heads=4", "--set",
            "model.layers=2", "--set", "model.vocab=256", "--out", small)
        tokens = ",".join(str(token) for token in range(64))
        self.assertEqual(threads("probe", small, "--tokens", tokens, "--no-theory"), 0)

    def spoil(self, tensors=None, **config):
        """Writes the checkpoint again, with entries of tensors, {name: {place: value}}, and keys of config.json."""
        changed = dict(self.tensors)
        for name, entries in (tensors or {}).items():
            shape, values = changed.get(name) or changed["model.embed_tokens.weight"]
            changed[name] = (shape, [entries.get(place, value) for place, value in enumerate(values)])
        tiny_checkpoint.write(self.checkpoint, tensors=changed)
        path = self.checkpoint / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | config))

    def test_a_stream_that_overflows(self):
        self.spoil({"model.layers.0.mlp.down_proj.weight": dict.fromkeys(range(WIDTH), 1e38)})
        self.assertNotIn("diverged_at", self.probe("--tokens", TOKENS, "--no-theory"))
        arguments = ("--tokens", TOKENS, "--no-theory", "--dtype", "f32")
        r = self.probe(*arguments)
        self.assertEqual((r["diverged_at"], r["loss"], r["growth_violated"]), (1, None, False))
        self.assertEqual(run("probe", self.checkpoint, "--quiet", *arguments, "--fail-on-divergence").returncode, 5)

    def test_weights_that_are_not_finite_are_named(self):
        arguments = ("--tokens", TOKENS, "--no-theory")
        for name, place, value, where in (("model.norm.weight", 0, math.nan, "output"),
                                          ("model.layers.1.mlp.down_proj.weight", 3, math.nan, "f_out of sublayer 3"),
                                          ("model.norm.weight", WIDTH - 1, math.inf, "output")):
            with self.subTest(name=name, value=value):
                self.spoil({name: {place: value}})
                r = self.probe(*arguments)
                self.assertEqual((r["not_finite"], r["loss"]), (where, None))
                self.assertIn(f"{name}: entry {place} is {value}", r["notes"])
                table = run("probe", self.checkpoint, *arguments, "--fail-on-divergence")
                self.assertEqual(table.returncode, 5)
                self.assertIn(f"note: {name}: entry {place} is {value}\n", table.stderr)
                self.assertIn(f"not finite: {where}\n", table.stderr)
                self.assertEqual(run("probe", self.checkpoint, *arguments).returncode, 0)

    def test_rows_that_no_token_reads_make_nothing_nan(self):
        unread = 7 * WIDTH + 1
        self.spoil({"lm_head.weight": {}, "model.embed_tokens.weight": {unread: math.nan}}, tie_word_embeddings=False)
        r = self.probe("--tokens", TOKENS, "--draws", "1")
        self.assertNotIn("not_finite", r)
        self.assertNotIn("is nan", " ".join(r.get("notes", [])))
        info, _ = run_json("info", self.checkpoint, "--quiet")
        self.assertEqual(info["warnings"], [f"model.embed_tokens.weight: entry {unread} is nan"])
        self.assertEqual(self.probe("--tokens", "5,7", "--no-theory")["not_finite"], "embedding")

    def test_generate(self):
        r, code = run_json("generate", self.checkpoint, "--tokens", "5,9", "--count", 4, "--quiet")
        self.assertEqual((code, len(r["ids"]), r["ids"][:2], r["prompt_tokens"]), (0, 6, [5, 9], 2))
        for n in range(2, 6):
            ids = ",".join(map(str, r["ids"][:n]))
            self.probe("--tokens", ids, "--dump", self.folder, "--force", "--no-theory")
            logits = read_safetensors(self.folder / "activations.safetensors")["logits"][1][-256:]
            self.assertEqual(max(range(256), key=lambda v: logits[v]), r["ids"][n])
        again, code = run_json("generate", self.checkpoint, "--tokens", "5,9,", "--count", 4,
                               "--quiet", "--out", self.folder)
        self.assertEqual((code, again, json.loads((self.folder / "generate.json").read_text())), (0, r, r))


if __name__ == "__main__":
    unittest.main()
