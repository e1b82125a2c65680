"""train: the numbers it prints and dumps, corpora and settings that cannot be. Usage: train.py BINARY"""

import json
import math
import os
import subprocess
import time
import unittest

from periscope_process import BINARY, contents, run, run_result, sets, start_program
from safetensors_file import read_safetensors
from small_training import BATCH, LAYERS, ONE, SMALL, STEPS, TOKENS, VOCAB, WIDTH, TrainTest


def rate(s, steps, lr, warmup, schedule="cosine"):
    """The learning rate of step s as the contract has it."""
    rising = max(1, math.floor(warmup * steps + 0.5))
    if s <= rising:
        return lr * s / rising
    if schedule == "constant":
        return lr
    return lr * (0.1 + 0.45 * (1 + math.cos(math.pi * (s - rising) / (steps - rising))))


class Numbers(TrainTest):
    def test_json(self):
        result = self.result("--seeds", 2, "--seed", 5)
        cells = result.stacks()
        self.assertEqual([(c["placement"], c["seed"]) for c in cells],
                         [("pre", 5), ("pre", 6), ("peri", 5), ("peri", 6)])
        self.assertEqual(result["record"], [0, 1, 2, 5, 10, 20, 30])
        for cell in cells:
            for series in ("loss", "grad_norm", "last_layer_grad_norm", "lr"):
                self.assertEqual(len(cell[series]), STEPS)
                self.assertTrue(all(math.isfinite(v) and v > 0 for v in cell[series]))
            self.assertIsNone(cell["diverged_at"])
            norms = zip(cell["last_layer_grad_norm"], cell["grad_norm"], strict=True)
            self.assertTrue(all(part <= whole for part, whole in norms))
            last = cell["loss"][-(STEPS // 10):]
            self.assertAlmostEqual(cell["final_loss"], sum(last) / len(last), delta=1e-12)
            for record in cell.each("record"):
                self.assertEqual(len(record["attention_entropy"]), LAYERS)
                self.assertTrue(all(0 <= h <= math.log(TOKENS) for h in record["attention_entropy"]))
                self.assertLess(abs(record["validation_loss"] - math.log(VOCAB)), 1.5)
        self.assertEqual(len({tuple(c["loss"]) for c in cells}), 4)
        self.assertLess(result["loss_floor"], cells[0]["loss"][0])
        self.assertEqual(result.config["train"]["steps"], STEPS)

    def test_learning_rates(self):
        for steps, lr, warmup, schedule in ((30, 2e-3, 0.1, "cosine"), (7, 0.5, 0.0, "cosine"),
                                            (10, 1e-3, 0.25, "cosine"),
                                            (5, 1e-3, 1.0, "cosine"), (1, 1e-3, 0.1, "cosine"),
                                            (9, 0.02, 0.5, "constant")):
            with self.subTest(steps=steps, warmup=warmup, schedule=schedule):
                cell, = self.result(*ONE, *sets(f"train.steps={steps}", f"train.lr={lr}", f"train.warmup={warmup}",
                                                f"train.schedule={schedule}")).stacks()
                expected = [rate(s, steps, lr, warmup, schedule) for s in range(1, steps + 1)]
                self.assertEqual(len(cell["lr"]), steps)
                for found, wanted in zip(cell["lr"], expected, strict=True):
                    self.assertAlmostEqual(found, wanted, delta=1e-13 * lr)

    def test_threads_change_nothing(self):
        # 16 sequences of 64 are passed in parts beside each other.
        large = sets("input.tokens=64", "train.batch=16", "train.steps=4")
        for flags in ((), large, (*large, *sets("train.accumulate=2"))):
            with self.subTest(flags=flags):
                one = self.data("--threads", 1, *flags)
                for threads in (2, 3):
                    self.assertEqual(self.data("--threads", threads, *flags), one, "bit for bit")

    def test_a_run_does_not_depend_on_those_beside_it(self):
        both = self.result("--seeds", 2).at(placement="peri", seed=1)
        alone, = self.result(*ONE, "--seed", 1).stacks()
        for name, values in alone.data().items():
            if "_predicted" not in name:  # theory samples the windows of all runs
                self.assertEqual(both[name], values, name)

    def test_divergence(self):
        lost = sets("train.lr=1e30", "train.clip=0")
        for flags, expected in (((), 0), (("--fail-on-divergence",), 5)):
            result, code = run_result(*self.command("--quiet", *ONE, *lost, *flags))
            self.assertEqual(code, expected)
            cell, = result.stacks()
            self.assertEqual(cell["diverged_at"], len(cell["loss"]), "behind a step that is not finite there is none")
            self.assertLess(len(cell["loss"]), STEPS)
            self.assertFalse(math.isfinite(cell["loss"][-1] or math.nan))
            self.assertTrue(all(map(math.isfinite, cell["loss"][:-1])))
        self.assertEqual(run(*self.command("--quiet", "--fail-on-divergence")).returncode, 0)

    def test_learning(self):
        cell, = self.result(*ONE, *sets("train.lr=0.02", "train.steps=200", "train.batch=16")).stacks()
        self.assertLess(cell["final_loss"], math.log(32) - 0.3)
        self.assertLess(cell["validation_loss"][-1], math.log(32) - 0.3)


class Dumps(TrainTest):
    def dump(self, *settings, flags=()):
        """config.json and the tensors of every other file."""
        folder = self.folder / "dump"
        done = run(*self.command("--quiet", *ONE, "--dump", folder, "--force", *sets(*settings), *flags))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = ("initial", "final", "batches", "steps")
        self.assertEqual(sorted(contents(folder)), sorted([f"{n}.safetensors" for n in names] + ["config.json"]))
        return json.loads((folder / "config.json").read_text()), *(read_safetensors(folder / f"{n}.safetensors")
                                                                   for n in names)

    def test_names_shapes_and_types(self):
        for norm in ("rms", "layer"):
            config, initial, final, batches, steps = self.dump(
                f"model.norm={norm}", "model.qk_norm=head", "model.embedding_norm=true", "train.steps=3")
            self.assertEqual(list(config), ["model", "init", "input", "train"])
            self.assertEqual((config["model"]["placement"], config["train"]["steps"], config["train"]["corpus"]),
                             ("peri", 3, "synthetic"))
            attention = {"q": [WIDTH, WIDTH], "k": [WIDTH // 2, WIDTH], "v": [WIDTH // 2, WIDTH], "o": [WIDTH, WIDTH]}
            mlp = {"gate": [24, WIDTH], "up": [24, WIDTH], "down": [WIDTH, 24]}
            expected = {"embedding.weight": [VOCAB, WIDTH], "unembedding.weight": [VOCAB, WIDTH]}
            parts = ("gain", "bias") if norm == "layer" else ("gain",)
            for l in range(LAYERS):
                expected |= {f"layers.{l}.attention.{n}.weight": s for n, s in attention.items()}
                expected |= {f"layers.{l}.mlp.{n}.weight": s for n, s in mlp.items()}
                expected |= {f"layers.{l}.attention.{n}_norm.gain": [WIDTH // 2] for n in "qk"}
                expected |= {f"layers.{l}.{m}.norm_{n}.{p}": [WIDTH] for m in ("attention", "mlp") for n in "ab"
                             for p in parts}
            expected |= {f"{n}_norm.{p}": [WIDTH] for n in ("embedding", "final") for p in parts}
            for weights in (initial, final):
                self.assertEqual({name: shape for name, (shape, _) in weights.items()}, expected)
                self.assertTrue(all(values.typecode == "d" for _, values in weights.values()))
            self.assertEqual(batches["tokens"][0], [3, BATCH, TOKENS + 1])
            self.assertEqual(batches["tokens"][1].typecode, "q")
            self.assertEqual({name: shape for name, (shape, _) in steps.items()}, {"loss": [3], "grad_norm": [3]})
            for name, (_, values) in final.items():
                self.assertNotEqual(values, initial[name][1], name)

    def test_steps_are_those_of_the_results(self):
        folder = self.folder / "dump"
        cell, = self.result(*ONE, "--dump", folder).stacks()
        steps = read_safetensors(folder / "steps.safetensors")
        for name in ("loss", "grad_norm"):
            self.assertEqual(list(steps[name][1]), cell[name])

    def test_weights_begin_as_those_of_propagate(self):
        _, initial, *_ = self.dump("train.steps=1", flags=("--seed", 7))
        done = run("propagate", "--quiet", "--dump", self.folder / "other", "--seed", 7, *ONE,
                   *sets("model.layers=2", "model.width=16", "model.heads=2", "model.kv_heads=1", "model.mlp_width=24",
                         f"model.vocab={VOCAB}", "init.scheme=lecun", "input.tokens=8", "input.kind=tokens"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(initial, read_safetensors(self.folder / "other" / "model.safetensors"))

    def test_batches_are_windows_of_the_training_part(self):
        corpus = self.folder / "corpus"
        corpus.write_bytes(bytes(range(200)))
        flags = ("--corpus", corpus)
        settings = ("model.vocab=256", "train.validation=0.25", "train.steps=50")
        _, _, _, batches, _ = self.dump(*settings, flags=flags)
        tokens = list(batches["tokens"][1])
        windows = [tokens[i:i + TOKENS + 1] for i in range(0, len(tokens), TOKENS + 1)]
        for window in windows:
            self.assertEqual(window, list(range(window[0], window[0] + TOKENS + 1)))
            self.assertLess(window[-1], 150, "the last quarter is never trained on")
        self.assertGreater(len({window[0] for window in windows}), 80)
        _, _, _, twin, _ = self.dump(*settings, "model.placement=pre", flags=flags)
        self.assertEqual(twin, batches, "twins read the same")
        _, _, _, other, _ = self.dump(*settings, flags=(*flags, "--seed", 1))
        self.assertNotEqual(other, batches)

    def test_one_update_of_adamw(self):
        lr, decay, eps = 0.01, 0.5, 1e-8
        one = ("train.steps=1", "train.clip=0", f"train.lr={lr}")
        _, start, moved, batches, _ = self.dump(*one, "train.optimizer=sgd", "train.momentum=0", "train.weight_decay=0")
        gradients = {name: [(a - b) / lr for a, b in zip(start[name][1], moved[name][1], strict=True)]
                     for name in start}
        _, initial, final, same, _ = self.dump(*one, f"train.weight_decay={decay}", f"train.eps={eps}")
        self.assertEqual((initial, same), (start, batches))
        far = 0
        for name, (_, before) in initial.items():
            kept = 1 - lr * decay if name.endswith("weight") else 1
            for p, q, g in zip(before, final[name][1], gradients[name], strict=True):
                # The gradient is known to the rounding of p over lr, and matters to the sign near 0 only.
                error = 4e-16 * (1 + abs(p)) / lr
                if abs(g) > 1e4 * error:
                    self.assertAlmostEqual(q, kept * p - lr * g / (abs(g) + eps), delta=1e-5 * lr, msg=name)
                else:
                    self.assertLessEqual(abs(q - kept * p), lr * (1 + 1e-9), name)
                far += abs(g) > 1e-4
        self.assertGreater(far, 1000)
        # Rows of tokens that no sequence has: nothing but the decay.
        seen = set(batches["tokens"][1])
        table, after = initial["embedding.weight"][1], final["embedding.weight"][1]
        unseen = [t for t in range(VOCAB) if t not in seen]
        self.assertTrue(unseen)
        for t in unseen:
            for j in range(t * WIDTH, (t + 1) * WIDTH):
                self.assertAlmostEqual(after[j], (1 - lr * decay) * table[j], delta=1e-15)

    def test_one_run_only(self):
        for flags in ((), (*ONE, "--seeds", 2)):
            self.refused(2, ["--dump", "one placement and one seed"], "--dump", self.folder / "dump", *flags)
            self.assertFalse((self.folder / "dump").exists())

    def test_a_model_is_not_overwritten_unasked(self):
        self.dump("train.steps=1")
        before = contents(self.folder / "dump")
        self.refused(2, [self.folder / "dump", "--force"], *ONE, "--dump", self.folder / "dump", "--quiet")
        self.assertEqual(contents(self.folder / "dump"), before)

    def test_a_result_that_nobody_takes_costs_no_dump(self):
        self.dump("train.steps=1")
        command = [str(BINARY), *self.command(*ONE, *sets("train.steps=1"), "--quiet", "--json", "--dump")]
        with open("/dev/full", "w") as full:
            done = subprocess.run([*command, str(self.folder / "again")], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(contents(self.folder / "again"), contents(self.folder / "dump"))

    def test_places_that_cannot_be_are_refused_before_training(self):
        out = self.folder / "out"
        long = ("--quiet", *sets("train.steps=10000000"))
        for flag in ("--dump", "--export"):
            for place in (out / "train.nc", out / "train.nc" / "models"):
                with self.subTest(flag=flag, place=place):
                    self.refused(2, [flag, place, "the result file has that name"], *ONE, *long, flag, place,
                                 "--out", out)
            (self.folder / "file").touch()
            self.refused(2, [self.folder / "file", "expected a folder"], *ONE, *long, flag, self.folder / "file")
        models = self.folder / "models"
        models.mkdir()
        model = models / "peri-seed0"
        model.touch()
        self.refused(2, [model, "expected a folder"], *ONE, *long, "--export", models, "--force")
        for dump, export in ((models, models), (models / "dump", models), ("new/dump", "new/"),
                             (self.folder / "new", "new/x"), ("new", "./new")):
            with self.subTest(dump=dump, export=export):
                done = run(*self.command(*ONE, *long, "--dump", dump, "--export", export), cwd=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("one is in the other", done.stderr)
        self.refused(2, ["model.unembedding = false", "expected true"], *ONE, *long, *sets("model.unembedding=false"))
        self.assertFalse(out.exists())

    def test_one_writer_of_models_at_a_time(self):
        models = self.folder / "models"
        flags = (*ONE, *sets("train.steps=100000000"), "--quiet", "--export", models)
        with start_program(*self.command(*flags), stderr=subprocess.DEVNULL) as first:
            deadline = time.monotonic() + 60
            while not models.exists():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            time.sleep(0.1)  # from the folder to its lock
            second = run(*self.command(*flags))
            first.terminate()
        self.assertEqual(second.returncode, 2, second.stderr)
        self.assertIn(f"{models}: another process is writing", second.stderr)
        self.assertFalse(models.exists(), "a folder that stayed empty goes")


class Corpora(TrainTest):
    BYTES = bytes((i * i + 3 * i) % 251 for i in range(1500))

    def trained(self, *flags):
        return self.data(*ONE, *sets("model.vocab=256", "train.steps=5"), *flags)

    def test_a_file_and_a_folder_of_the_same_bytes_give_the_same(self):
        whole = self.folder / "whole"
        whole.write_bytes(self.BYTES)
        parts = self.folder / "parts"
        (parts / "b").mkdir(parents=True)
        (parts / "a").write_bytes(self.BYTES[:100])
        (parts / "b" / "x").write_bytes(self.BYTES[100:700])
        (parts / "c").write_bytes(self.BYTES[700:])
        expected = self.trained("--corpus", whole)
        self.assertEqual(self.trained("--corpus", parts), expected)
        self.assertEqual(self.trained("--set", f"train.corpus={whole}"), expected)
        # Relative to where the command is given, or to the file that says it.
        beside = self.folder / "elsewhere"
        beside.mkdir()
        flags = ("--quiet", *ONE, *sets("model.vocab=256", "train.steps=5"))
        self.assertEqual(run_result(*self.command(*flags, "--corpus", "whole"), cwd=self.folder)[0].data(), expected)
        self.config.write_text(SMALL + 'corpus = "whole"\n')
        self.assertEqual(run_result(*self.command(*flags), cwd=beside)[0].data(), expected)
        self.assertNotEqual(self.trained("--corpus", "synthetic"), expected)

    def test_the_last_bytes_count_for_validation_only(self):
        corpus = self.folder / "corpus"
        corpus.write_bytes(self.BYTES)
        before = self.trained("--corpus", corpus)
        corpus.write_bytes(self.BYTES[:1350] + bytes(150))
        after = self.trained("--corpus", corpus)
        self.assertEqual(after["loss"], before["loss"])
        self.assertNotEqual(after["validation_loss"], before["validation_loss"])

    def test_corpora_that_cannot_be(self):
        def file(name, data):
            (self.folder / name).write_bytes(data)
            return self.folder / name
        empty = self.folder / "empty"
        empty.mkdir()
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        (self.folder / "mixed").mkdir()
        file("mixed/a", self.BYTES)
        os.mkfifo(self.folder / "mixed" / "pipe")
        for corpus, words in ((self.folder / "no-such", ["No such file"]), (empty, ["an empty folder"]),
                              (fifo, ["a pipe", "expected a regular file"]), ("/dev/zero", ["expected a regular file"]),
                              (self.folder / "mixed", [self.folder / "mixed" / "pipe", "a pipe"]),
                              (file("nothing", b""), ["too short"]),
                              (file("short", bytes(TOKENS)), ["too short", f"input.tokens + 1 = {TOKENS + 1}"]),
                              (file("byte", self.BYTES[:20] + b"\xff" + self.BYTES),
                               ["byte 255 at 20", "model.vocab = 255"])):
            with self.subTest(corpus=corpus):
                name = [] if corpus == self.folder / "mixed" else [corpus]
                self.refused(3, [*name, *words], "--corpus", corpus, "--set", "model.vocab=255", "--out",
                             self.folder / "out")
                self.assertEqual(contents(self.folder / "out"), {}, "nothing was begun")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_corpus_that_may_not_be_read(self):
        corpus = self.folder / "corpus"
        corpus.write_bytes(self.BYTES)
        corpus.chmod(0)
        self.refused(3, [corpus, "ermission denied"], "--corpus", corpus)

    def test_settings_that_cannot_be(self):
        for setting, words in (("train.accumulate=3", ["train.accumulate = 3", "divisor of train.batch = 4"]),
                               ("train.accumulate=8", ["train.accumulate = 8"]),
                               ("train.acumulate=2", ["train.acumulate", "nearest is train.accumulate"]),
                               ("train.steps=0", ["train.steps = 0", "from 1"]), ("train.batch=0", ["train.batch = 0"]),
                               ("train.lr=-1", ["train.lr = -1", "at least 0"]), ("train.lr=nan", ["train.lr"]),
                               ("train.warmup=1.5", ["train.warmup = 1.5", "from 0 to 1"]),
                               ("train.beta2=1", ["train.beta2 = 1"]),
                               ("train.eps=0", ["train.eps = 0", "at least 1e-37"]),
                               ("train.validation=0", ["train.validation = 0"]),
                               ("train.validation=1", ["train.validation = 1"]),
                               ("train.optimizer=adam", ["adam", "nearest is \"adamw\""]),
                               ("train.schedule=linear", ["linear", "cosine, constant"]),
                               ("train.corpus=3", ["train.corpus = 3", "a string"]),
                               ("model.causal=false", ["model.causal = false", "expected true", "next token"]),
                               ("input.kind=gaussian", ["input.kind", "tokens"])):
            with self.subTest(setting=setting):
                self.refused(2, words, "--set", setting)
        self.config.write_text(SMALL.replace("[model]", "[model]\ncausal = false"))
        self.refused(2, ["model.causal = false"])
        self.config.write_text(SMALL + "lerning_rate = 1.0\n")
        self.refused(2, [f"{self.config}:{len(SMALL.splitlines()) + 1}: unknown key train.lerning_rate"])


if __name__ == "__main__":
    unittest.main()
