"""What single commands do beyond their goldens (tests/golden). Usage: commands.py BINARY"""

import json
import math
import unittest

from periscope_process import SMALL, FolderTest, run, run_json, run_result, sets


class Commands(FolderTest):
    def theory(self, *settings):
        return run_result("theory", "--config", self.config, "--quiet", *sets(*settings))[0]

    def test_devices_agree(self):
        one, reference = (run_result("propagate", "--config", self.config, "--dtype", "f64", "--quiet", "--device",
                                     device)[0].stacks()[0]["variance_measured"]
                          for device in ("cpu", "reference"))  # fmt: skip
        for a, b in zip(one, reference, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-12 * abs(b))

    def test_provenance(self):
        result = self.theory()
        for name in ("version", "commit", "compiler", "config", "config_sha256"):
            self.assertIn(name, result.attrs)
        for name in ("created", "argv", "cpu", "threads", "seconds", "peak_memory"):
            self.assertIn(name, result.fact("circumstances"))

    def test_placements_and_presets_fill_what_is_not_given(self):
        for placement in run_json("list")[0]["placements"]:
            model = self.theory(f"model.placement={placement['name']}").config["stacks"][0]["model"]
            self.assertEqual(model["final_norm"], placement["final_norm"], placement["name"])
        result, _ = run_result("theory", "--quiet", *sets("model.preset=3.2B", "model.layers=1", "input.tokens=4"))
        model = result.config["stacks"][0]["model"]
        self.assertEqual([model[k] for k in ("layers", "width", "heads", "kv_heads", "head_dim", "mlp_width")],
                         [1, 2560, 16, 8, 160, 10240])

    def test_a_former_name_is_accepted_and_not_written(self):
        for given in ("model.placement=residual", 'model.placement=["residual"]'):
            result = self.theory(given)
            self.assertEqual(result["placement"], ["residual-dual"])
            self.assertEqual(result.config["stacks"][0]["model"]["placement"], "residual-dual")
        self.assertNotIn("residual", [p["name"] for p in run_json("list")[0]["placements"]])

    def test_text_input_is_relative_to_the_configuration(self):
        (self.folder / "words.txt").write_text("one token per byte")
        self.config.write_text(SMALL.replace("tokens = 6", 'tokens = 6\nkind = "text"\npath = "words.txt"'))
        result, code = run_result("propagate", "--config", self.config, "--quiet", cwd="/")
        self.assertEqual((code, result["input"]), (0, ["text"]))

    def test_the_limit_is_wrong_where_a_stack_is_narrow_and_the_chain_is_not(self):
        narrow = sets("model.width=4", "model.heads=1", "model.kv_heads=1", "model.head_dim=4", "model.mlp_width=4",
                      "model.layers=6", "init.scheme=he", "model.placement=post", "run.seeds=400")
        limit = sets("theory.finite_width=false", "agreement.finite_width=0.0", "agreement.finite_width_cosine=0.0")
        for flags, expected, verdicts in ((limit, 4, {"disagrees"}), ([], 0, {"agrees", "inconclusive"})):
            result, code = run_result("propagate", "--config", self.config, "--quiet", *narrow, *flags)
            self.assertEqual((code, result["verdict"][0][0] in verdicts), (expected, True))

    def test_verify_finds_the_bounds_sharp_and_a_false_claim_false(self):
        result, code = run_result("verify", "--cases", 500, "--quiet")
        self.assertEqual((code, result["verify_verdict"]), (0, "passed"))
        self.assertGreater(result.at(attack="Peri, RMSNorm")["attack_reached"], 0.99 * math.sqrt(2))
        self.assertAlmostEqual(result.at(attack="Peri, paper's 4")["attack_reached"], math.sqrt(2) / 4, delta=0.004)
        for s in result.each("statement"):
            refutable = s["statement"].startswith("G4")
            self.assertEqual((s["statement_verdict"], s["violations"] > 0),
                             ("refuted", True) if refutable else ("holds", False), s["statement"])

    def test_a_violation_is_replayed(self):
        out = ["--out", self.folder, "--scale", 0.9]
        result, code = run_result("verify", "--cases", 500, "--quiet", *out)
        self.assertEqual((code, result["verify_verdict"]), (4, "failed"))
        broken = {s["statement"]: s for s in result.each("statement") if s["statement_verdict"] == "violated"}
        self.assertEqual({path.name for path in self.folder.glob("violation-*.json")},
                         {f"violation-{statement}.json" for statement in broken})
        file = self.folder / "violation-T14b.json"
        self.assertEqual(json.loads(file.read_text()), json.loads(broken["T14b"]["counterexample_case"]))
        again, code = run_json("verify", "--replay", file, "--quiet", "--scale", 0.9)
        line = next(s for s in again["statements"] if s["id"] == "T14b")
        self.assertEqual([code, line["measured"], line["bound"]],
                         [4, *(broken["T14b"][f"counterexample_{name}"] for name in ("measured", "bound"))])
        self.assertEqual(run("verify", "--replay", file).returncode, 0, "the bound itself holds")


if __name__ == "__main__":
    unittest.main()
