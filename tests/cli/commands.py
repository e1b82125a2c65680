"""Every command once, small: its output keeps the contract. Usage: commands.py BINARY"""

import csv
import json
import math
import pathlib
import re
import unittest

from periscope_process import SMALL, FolderTest, Result, run, run_json, run_result


class Commands(FolderTest):
    def test_propagate_json(self):
        result, code = run_result("propagate", "--config", self.config, "--dtype", "f64", "--quiet")
        self.assertEqual((code, result["placement"]), (0, ["pre", "peri"]))
        for stack in result.stacks():
            self.assertIn(stack["verdict"], ("agrees", "disagrees", "inconclusive", "not-checked"))
            for name in ("variance", "second_moment", "token_cosine"):
                for version in ("measured", "stderr", "predicted", "predicted_stderr", "z"):
                    curve = stack[f"{name}_{version}"]
                    self.assertEqual(len(curve), 5, f"{name} {version}: 2L+1 depths")
                    self.assertTrue(all(math.isfinite(v) for v in curve), f"{name} {version}")
        peri = result.stacks()[1]["second_moment_predicted_limit"]
        self.assertTrue(all(abs(b - a - 1.0) < 1e-4 for a, b in zip(peri[:-1], peri[1:], strict=True)),
                        "T12a: grows by gamma^2")
        for name in ("version", "commit", "compiler", "config", "config_sha256"):
            self.assertIn(name, result.attrs)
        for name in ("created", "argv", "cpu", "threads", "seconds", "peak_memory"):
            self.assertIn(name, result.fact("circumstances"))

    def test_theory_json_measures_nothing(self):
        result, code = run_result("theory", "--config", self.config, "--quiet")
        self.assertEqual(code, 0)
        for name in ("variance_measured", "variance_stderr", "variance_z", "verdict"):
            self.assertNotIn(name, result)

    def test_imprecise_predictions_are_named_everywhere(self):
        # No sampled pattern gives such a precision.
        asked = ["theory", "--backward", "--config", self.config, "--out", self.folder, "--set",
                 "theory.gradient_tolerance=1e-9"]
        result, _ = run_result(*asked, "--quiet", "--csv", self.folder / "theory.csv")
        for name in ("log_grad_sq q[0-1]", "score_share A_out[0, 2]"):
            self.assertIn(name, result["theory_imprecise"][0][1])
        rows = list(csv.DictReader((self.folder / "theory.csv").read_text().splitlines()))
        words = {r["placement"]: r["value"] for r in rows if r["variable"] == "theory_imprecise"}
        self.assertEqual(words.keys(), {"pre", "peri"})
        for name in ("log_grad_sq q[0-1]", "score_share A_out[0, 2]"):
            self.assertIn(name, words["peri"])
        table = run(*asked).stderr
        self.assertIn("less precise than wanted (theory.gradient_tolerance = 1e-09): peri, gaussian: log_grad_sq",
                      table)
        self.assertNotIn("less precise", run("theory", "--backward", "--config", self.config).stderr)

    def test_the_sum_before_norm_c_is_named_where_it_is_the_largest_signal(self):
        keys = ["model.layers=4", 'model.placement=["pre", "post", "keel"]', "run.seeds=4", "run.seed=3"]
        stacks = ["--config", self.config, *(x for k in keys for x in ("--set", k))]
        result, _ = run_result("propagate", *stacks, "--quiet")
        pre, post, keel = result.stacks()
        self.assertEqual(set(pre.at(site="sum")["site_maximum_predicted"]), {None})
        for stack, ratio in ((post, 1.0), (keel, 4.0)):
            for version in ("predicted", "measured"):
                largest = stack.at(site="sum")[f"site_maximum_{version}"]
                self.assertGreater(max(v for v in largest if v), ratio * max(stack[f"maximum_{version}"]))
        for command, words in (("propagate", r"\S+ predicted, \S+ measured,"), ("theory", r"\S+ predicted")):
            table = " ".join(run(command, *stacks).stderr.split())
            line = rf"largest \|x\|: keel, gaussian: {words} in the sum before norm C, \S+ in the stream"
            self.assertRegex(table, line)
            self.assertNotIn("largest |x|: p", table)

    def test_tables_tell_gradients_and_the_inputs_size(self):
        small = ["--config", self.config, "--set", "init.scheme=normal"]
        result, _ = run_result("propagate", "--backward", *small, "--quiet")
        table = run("propagate", "--backward", *small).stderr
        for stack in result.stacks():
            for version, error in (("predicted", "predicted_stderr"), ("measured", "stderr")):
                norms = [math.exp(square / 2) for square in stack[f"log_grad_sq_{version}"]]
                errors = [e * norm / 2 for e, norm in zip(stack[f"log_grad_sq_{error}"], norms, strict=True)]
                variance, of_variance = (stack[f"variance_{key}"][-1] for key in (version, error))
                (line,) = [row for row in table.splitlines()
                           if row.split()[:3] == [stack["placement"], "gaussian", version]]
                self.assertEqual([float(word) for word in line.split() if word[0].isdigit()], [
                    float(word) for word in (
                        f"{variance:.4g}", f"{of_variance:.1g}", f"{norms[0]:.4g}", f"{errors[0]:.1g}",
                        f"{norms[-1]:.4g}", f"{errors[-1]:.1g}", f"{norms[0] / norms[-1]:.3g}")])  # fmt: skip
        self.assertIn("N(0, 0.02²), and the input has E[x²] = 1; embeddings with", table)
        self.assertIn("model.recipe", table)
        self.assertIn("note: weights are drawn", table, "all stacks")
        lecun = run("propagate", "--config", self.config, "--vary", 'init.scheme=["normal","lecun"]').stderr
        self.assertIn("pre, scheme normal; peri, scheme normal: weights are drawn", " ".join(lecun.split()))
        alike = run("propagate", "--backward", *small, "--set", "input.second_moment=4e-4").stderr
        self.assertNotIn("model.recipe", alike)
        theory = run("theory", "--backward", *small).stderr
        self.assertIn("for sequences of 6 tokens (input.tokens)", " ".join(theory.split()))
        self.assertEqual(("measured" in theory, "measured: mean over seeds" in table), (False, True))
        lengths = run("theory", *small, "--vary", "input.tokens=[4,6]").stderr
        self.assertIn("for sequences of 4 to 6 tokens", " ".join(lengths.split()))
        one = run("propagate", "--backward", *small, "--seeds", 1).stderr
        self.assertNotIn("nan", one)

    def test_no_table_is_wider_than_100_columns(self):
        long = ["--config", self.config, "--set", "model.placement=[{A=true,alpha=2.0},{C=true,beta=0.125}]"]
        for words in (["propagate", "--backward", *long], ["theory", "--backward", *long],
                      ["formats", "--config", self.config, "--seeds", 2], ["gradients", "identity-path", *long],
                      ["verify", "--cases", 100]):
            with self.subTest(words[:2]):
                done = run(*words)
                self.assertIn(done.returncode, (0, 4), done.stderr)
                self.assertEqual([line for line in done.stderr.splitlines() if len(line) > 100], [])

    def test_threads_and_devices_do_not_change_results(self):
        def result(*flags):
            result, code = run_result("propagate", "--config", self.config, "--dtype", "f64", "--quiet", *flags)
            self.assertEqual(code, 0)
            return result

        one = result("--threads", 1)
        for threads in (2, 3):
            self.assertEqual(one.data(), result("--threads", threads).data(), "bit for bit")
        reference = result("--device", "reference")
        for a, b in zip(*(r.stacks()[0]["variance_measured"] for r in (one, reference)), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-12 * abs(b))
        self.assertNotEqual(one.data(), result("--seed", 7).data(), "another seed is another sample")

    def test_progress_and_tables_go_to_stderr(self):
        done = run("propagate", "--config", self.config)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertRegex(done.stderr, r"propagate: (\d+)/\1\b")
        for word in ("placement", "pre", "peri", "verdict"):
            self.assertIn(word, done.stderr)
        self.assertNotIn("\x1b", done.stderr, "no colours away from a terminal")
        self.assertEqual(run("propagate", "--config", self.config, "--quiet").stderr, "")

    def test_result_file_and_csv(self):
        out = self.folder / "new" / "results"
        table = self.folder / "table.csv"
        done = run("propagate", "--config", self.config, "--out", out, "--csv", table, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["cache", "propagate.nc"],
                         "no temporary file stays")
        rows = list(csv.DictReader(table.read_text().splitlines()))
        result, _ = run_result("propagate", "--config", self.config, "--quiet")
        for name in ("variance_measured", "variance_predicted"):
            exported = [float(r["value"]) for r in rows if r["variable"] == name and r["placement"] == "peri"]
            self.assertEqual(exported, result[name][0][1])
        self.assertLessEqual({r["value"] for r in rows if r["variable"] == "verdict"}, {"agrees", "inconclusive"})

    def test_placement_forms(self):
        free = "{A=true,B=false,C=true,alpha=0.9,beta=0.5}"
        result, code = run_result("propagate", "--config", self.config, "--quiet", "--set",
                                  f'model.placement=["a+c",{free}]')
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(result["placement"][1]),
                         {"A": True, "B": False, "C": True, "alpha": 0.9, "beta": 0.5})
        listed, _ = run_json("list")
        for placement in listed["placements"]:
            result, code = run_result("theory", "--config", self.config, "--quiet", "--set",
                                      f"model.placement={placement['name']}")
            self.assertEqual(code, 0, placement["name"])
            final_norm = result.config["stacks"][0]["model"]["final_norm"]
            self.assertEqual(final_norm, placement["final_norm"])

    def test_a_former_name_is_accepted_and_not_written(self):
        for given in ("model.placement=residual", 'model.placement=["residual"]'):
            result, code = run_result("theory", "--config", self.config, "--quiet", "--set", given)
            self.assertEqual((code, result["placement"]), (0, ["residual-dual"]))
            self.assertEqual(result.config["stacks"][0]["model"]["placement"], "residual-dual")
        self.config.write_text(SMALL.replace('["pre", "peri"]', '"residual"'))
        result, code = run_result("theory", "--config", self.config, "--quiet")
        self.assertEqual((code, result["placement"]), (0, ["residual-dual"]))
        names = [p["name"] for p in run_json("list")[0]["placements"]]
        self.assertIn("residual-dual", names)
        self.assertNotIn("residual", names)

    def test_presets_fill_and_explicit_keys_win(self):
        result, _ = run_result("theory", "--quiet", "--set", "model.preset=3.2B", "--set", "model.layers=1", "--set",
                               "input.tokens=4")
        model = result.config["stacks"][0]["model"]
        shape = [model[k] for k in ("layers", "width", "heads", "kv_heads", "head_dim", "mlp_width")]
        self.assertEqual(shape, [1, 2560, 16, 8, 160, 10240])

    def test_every_listed_key_is_a_key(self):
        listed, code = run_json("list")
        self.assertEqual(code, 0)
        for key in listed["keys"]:
            done = run("theory", "--config", self.config, "--set", f"{key['name']}={{}}")
            self.assertEqual(done.returncode, 0 if key["name"] == "model.placement" else 2)
            self.assertNotIn("unknown key", done.stderr, key["name"])

    def test_one_seed_gives_no_verdict(self):
        result, code = run_result("propagate", "--config", self.config, "--seeds", 1, "--quiet")
        stack = result.stacks()[0]
        self.assertEqual((code, stack["verdict"]), (0, "not-checked"))
        self.assertIn("needs 4", stack["verdict_reason"])
        self.assertIsNone(stack["variance_stderr"][0])

    def test_divergence_stays_in_the_results(self):
        blow_up = ["--config", self.config, "--set", "model.placement=none", "--set", "model.layers=40", "--set",
                   "init.scheme=he", "--quiet"]
        result, code = run_result("propagate", *blow_up)
        stack, = result.stacks()
        self.assertEqual((code, stack["verdict"], stack["diverged_seeds"]), (0, "not-checked", 4))
        self.assertFalse(math.isfinite(stack["variance_measured"][-1] or math.nan))
        self.assertEqual(run("propagate", *blow_up, "--fail-on-divergence").returncode, 5)

    def test_text_input_is_relative_to_the_configuration(self):
        (self.folder / "words.txt").write_text("one token per byte")
        self.config.write_text(SMALL.replace("tokens = 6", 'tokens = 6\nkind = "text"\npath = "words.txt"'))
        result, code = run_result("propagate", "--config", self.config, "--quiet", cwd="/")
        self.assertEqual((code, result["input"]), (0, ["text"]))

    def test_a_theory_that_is_wrong_is_rejected(self):
        # A tolerance of nothing at width 4, where the limit of infinite width is wrong, must be seen.
        narrow = ["--set", "model.width=4", "--set", "model.heads=1", "--set", "model.kv_heads=1", "--set",
                  "model.head_dim=4", "--set", "model.mlp_width=4", "--set", "model.layers=6", "--set",
                  "init.scheme=he", "--set", "model.placement=post", "--seeds", 400]
        limit = ["--set", "theory.finite_width=false", "--set", "agreement.finite_width=0.0", "--set",
                 "agreement.finite_width_cosine=0.0"]
        result, code = run_result("propagate", "--config", self.config, "--quiet", *narrow, *limit)
        self.assertEqual((code, result["verdict"]), (4, [["disagrees"]]))
        # The chain is right at any width, though so narrow a stack leaves it little power.
        result, code = run_result("propagate", "--config", self.config, "--quiet", *narrow)
        self.assertEqual(code, 0)
        self.assertIn(result["verdict"][0][0], ("agrees", "inconclusive"))
        self.assertNotEqual(result["variance_predicted"], result["variance_predicted_limit"])

    def test_ladder_has_the_rates_of_convergence(self):
        few = ("--config", self.config, "--set", "ladder.widths=[32,64,96,128]", "--set", "ladder.seeds=16")
        done = run("ladder", *few, "--json", "--out", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("noise: -1/2", done.stderr)
        result = Result(json.loads(done.stdout))
        self.assertEqual(result["convergence_statistic"], ["second_moment", "token_cosine"] * 2)
        self.assertEqual([len(bias) for bias in result["bias"]], [4] * 4)
        self.assertEqual(result["ladder_width"], [32, 64, 96, 128])
        self.assertTrue((self.folder / "ladder.nc").exists())

    def test_verify(self):
        result, code = run_result("verify", "--cases", 500, "--quiet", "--out", self.folder)
        self.assertEqual((code, result["verify_verdict"]), (0, "passed"))
        self.assertNotIn("violation_statement", result)
        self.assertTrue((self.folder / "verify.nc").exists())
        for s in result.each("statement"):
            refutable = s["statement"].startswith("G4")
            self.assertGreater(s["cases"], 20, s["statement"])
            self.assertEqual(s["statement_verdict"], "refuted" if refutable else "holds", s["statement"])
            self.assertEqual(s["violations"] > 0, refutable, s["statement"])
        self.assertGreater(result.at(attack="Peri, RMSNorm")["attack_reached"], 0.99 * math.sqrt(2))
        self.assertAlmostEqual(result.at(attack="Peri, paper's 4")["attack_reached"], math.sqrt(2) / 4, delta=0.004)
        self.assertEqual(result["refuted"], [True] * 4)
        review = result.each("refutation")[0]
        self.assertGreater(review["counterexample_measured"], review["counterexample_bound"])
        self.assertLessEqual(len(json.loads(review["counterexample_case"])["x"][0]), 6,
                             "small enough to check by hand")
        self.assertEqual(result.attrs["device"], "reference")

    def test_a_false_claim_is_shown_by_a_case_that_breaks_it_clearly(self):
        # Its first violation is within the factor that a refutation asks for; a later one is beyond.
        result, code = run_result("verify", "--cases", 40, "--seed", 100, "--quiet")
        self.assertEqual(code, 0)
        claim = result.at(refutation="G4")
        first = result.at(statement="G4")["first_violation"]
        self.assertTrue(claim["refuted"])
        origin = claim["counterexample_origin"]
        self.assertRegex(origin, r"^100:\d+$", "a random case, no attack")
        self.assertNotEqual(origin, f"100:{first}")
        self.assertGreater(claim["counterexample_ratio"], 1.05)

    def test_verify_says_what_no_case_was_about(self):
        done = run("verify", "--cases", 1)
        self.assertEqual(done.returncode, 0)
        last = done.stderr.splitlines()[-1]
        rows = [line for line in done.stderr.splitlines()[:-1] if " no case " in line]
        self.assertIn(f"{len(rows)} of 17 statements met no case", last)
        self.assertNotIn("every bound holds", last)
        self.assertIn("every bound holds", run("verify", "--cases", 2000).stderr.splitlines()[-1])

    def test_verify_with_smaller_bounds_and_replay(self):
        tight = ["--scale", 0.9]
        result, code = run_result("verify", "--cases", 500, "--quiet", "--out", self.folder, *tight)
        self.assertEqual((code, result["verify_verdict"]), (4, "failed"))
        broken = {v["violation_statement"]: v for v in result.each("violation")}
        self.assertEqual({path.name for path in self.folder.glob("violation-*.json")},
                         {f"violation-{statement}.json" for statement in broken})
        file = self.folder / "violation-T14b.json"
        case = json.loads(broken["T14b"]["violation_case"])
        self.assertEqual(json.loads(file.read_text()), case)
        again, code = run_json("verify", "--replay", file, "--quiet", *tight)
        self.assertEqual((code, again["case"]), (4, case))
        line = next(s for s in again["statements"] if s["id"] == "T14b")
        self.assertEqual([line["measured"], line["bound"]],
                         [broken["T14b"][f"violation_{name}"] for name in ("measured", "bound")])
        self.assertEqual(run("verify", "--replay", file).returncode, 0, "the bound itself holds")
        refused = run("verify", "--replay", file, "--csv", "-")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("--csv: this answer has no columns; expected --json", refused.stderr)
        table = run("verify", "--replay", file, *tight)
        self.assertEqual((table.returncode, table.stdout), (4, ""))
        for word in ("VIOLATED", "W2 [D,h]", "dL/dW2", "multiplied by 0.9"):
            self.assertIn(word, table.stderr)
        again = run("verify", "--cases", 100, "--out", self.folder, *tight)
        self.assertIn(f"--replay {file} --scale 0.9", again.stderr)

    def test_verify_does_not_depend_on_threads(self):
        one, two = (run_result("verify", "--cases", 300, "--quiet", "--threads", t)[0].data() for t in (1, 2))
        self.assertEqual(one, two)

    def test_toy(self):
        toy, code = run_json("toy", "--quiet")
        self.assertEqual(code, 0)
        self.assertEqual([round(v, 4) for v in toy["peri"][-1]["value"]], [3.2247, 0.0, -3.2247])
        self.assertEqual(round(toy["reviews"][3]["standard_deviation"], 4), 2.6330)
        self.assertEqual([round(v, 4) for v in toy["reviews"][4]["value"]], [1.2247, 0.0, -1.2247])
        self.assertEqual([s["reviews_wrong"] for s in toy["reviews"]], [False, False, False, True, True])
        self.assertIn("WRONG", run("toy").stderr)

    def test_every_study_is_in_the_list_and_among_the_documented_experiments(self):
        manual = pathlib.Path(__file__).parents[2] / "docs"
        documented = (manual / "experiments.md").read_text() + (manual / "questions.md").read_text()
        listed = [e["name"] for e in run_json("list")[0]["experiments"]]
        build = (pathlib.Path(__file__).parents[2] / "experiments" / "CMakeLists.txt").read_text()
        folders = re.search(r"^set\(studies ([a-z_ ]+)\)$", build, re.M)[1].split()
        sources = pathlib.Path(__file__).parents[2] / "experiments" / "studies"
        self.assertEqual(sorted(folders), sorted(p.name for p in sources.iterdir() if p.is_dir()))
        self.assertGreaterEqual(len(listed), len(folders))
        for name in listed:
            self.assertEqual(run(*name.split(), "--help").returncode, 0, name)
            if name != "theory":  # the prediction of propagate alone
                self.assertTrue(f"periscope {name}" in documented, name)

    def test_list_and_help(self):
        done = run("list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("b-only", "OLMo 2", "3.2B", "model.qk_norm", "propagate", "ladder", "verify"):
            self.assertIn(word, done.stdout)
        for arguments in (["--help"], ["propagate", "--help"], ["--version"]):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout)


if __name__ == "__main__":
    unittest.main()
