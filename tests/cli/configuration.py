"""Configuration keys: listed, resolved and hashed from one table. Usage: configuration.py BINARY"""

import json
import unittest

from periscope_process import FolderTest, run, run_json

# For every key another value than SMALL's.
OTHER = {
    "model.layers": "3", "model.width": "64", "model.heads": "4",
    "model.kv_heads": "2", "model.head_dim": "8", "model.mlp": "relu", "model.mlp_width": "40",
    "model.norm": "layer", "model.norm_eps": "1e-3", "model.gamma": "0.5", "model.placement": "post",
    "model.embedding_norm": "true", "model.final_norm": "false", "model.qk_norm": "head", "model.rope": "false",
    "model.causal": "false", "model.vocab": "300", "model.unembedding": "false", "init.scheme": "he",
    "init.std": "0.1", "init.factor": "2", "init.qk_factor": "0.5", "init.down_factor": "0.5",
    "input.kind": "tokens", "input.tokens": "5", "input.second_moment": "2.0", "input.correlation": "0.5",
    "run.seed": "1", "run.seeds": "5", "run.device": "reference", "run.dtype": "f64", "run.backward": "true",
    "theory.tolerance": "0.02", "theory.gradient_tolerance": "0.05", "theory.fault": "beta0",
    "theory.finite_width": "true", "theory.replicates": "100", "agreement.familywise_error": "0.05",
    "agreement.finite_width": "0.7", "agreement.finite_width_cosine": "0.7",
    "agreement.finite_width_gradient": "0.7",
    **{f"agreement.power_limit.{name}": "0.3"
       for name in ("second_moment", "variance", "token_cosine", "log_grad_sq", "score_share")},
}
# Neither changes a result.
HOW = {"run.threads", "run.out"}
# A path counts by what is in the file.
FILES = {"input.path"}
# Read by their own commands alone.
ELSEWHERE = ("converge.", "ladder.", "gradients.")


class Configuration(FolderTest):
    def provenance(self, *settings, command="theory", flags=()):
        words = [word for setting in settings for word in ("--set", setting)]
        result, _ = run_json(command, "--config", self.config, "--quiet", *words, *flags)
        return result["provenance"]

    def test_every_key_that_changes_results_changes_the_hash(self):
        keys = [k["name"] for k in json.loads(run("list", "--json").stdout)["keys"]]
        plain = self.provenance()
        for key in keys:
            if key in HOW or key in FILES or key.startswith(ELSEWHERE) or key == "model.preset":
                continue
            with self.subTest(key=key):
                changed = self.provenance(f"{key}={OTHER[key]}")
                self.assertNotEqual(changed["config_sha256"], plain["config_sha256"])
                section, name = key.rsplit(".", 1)
                values = changed["config"]["stacks"][0] if section in ("model", "init", "input") else changed["config"]
                for part in section.split("."):
                    values = values[part]
                shown = values[name] if isinstance(values[name], str) else json.dumps(values[name])
                expected = OTHER[key]
                self.assertTrue(shown == expected or float(shown) == float(expected), shown)

    def test_what_changes_no_result_does_not_change_the_hash(self):
        plain = self.provenance()["config_sha256"]
        for settings, flags in [(["run.threads=1"], []), ([f"run.out={self.folder}"], []), ([], ["--threads", "2"]),
                                (["input.path=nowhere"], []), (["converge.seeds=20", "ladder.widths=[1,2]"], [])]:
            with self.subTest(settings=settings, flags=flags):
                self.assertEqual(self.provenance(*settings, flags=flags)["config_sha256"], plain)

    def test_a_text_counts_by_its_content(self):
        def of(name, text):
            (self.folder / name).write_text(text)
            return self.provenance("input.kind=text", f"input.path={self.folder / name}")["config_sha256"]
        self.assertEqual(of("a.txt", "abcdefgh"), of("b.txt", "abcdefgh"))
        self.assertNotEqual(of("a.txt", "abcdefgh"), of("b.txt", "abcdefgx"))

    def test_an_experiment_has_its_own_section_in_the_hash(self):
        quick = ["model.placement=pre", "converge.widths=[32,64,128]"]
        a = self.provenance(*quick, "converge.seeds=16", command="converge")
        b = self.provenance(*quick, "converge.seeds=18", command="converge")
        self.assertEqual(a["config"]["converge"], {"widths": [32, 64, 128], "seeds": 16})
        self.assertNotEqual(a["config_sha256"], b["config_sha256"])
        self.assertNotIn("ladder", a["config"])


if __name__ == "__main__":
    unittest.main()
