"""The package has every study and every key of the registry. Usage: generated_test.py"""

import ast
import inspect
import re
import typing
import unittest
from pathlib import Path

import periscope as ps
from periscope import _keys, _periscope, verbs
from periscope.describe import description

ROOT = Path(__file__).parents[2]


class Generated(unittest.TestCase):
    def test_the_package_shows_every_study(self) -> None:
        self.assertEqual([name for name, home in ps._MODULES.items() if home == "verbs"], verbs.__all__)
        for name in ps.__all__:
            self.assertIsNotNone(getattr(ps, name), name)
        self.assertEqual(sorted(ps.__all__), dir(ps))
        with self.assertRaises(AttributeError):
            getattr(ps, "no_such_thing")  # noqa: B009

    def test_every_argument_is_documented(self) -> None:
        for name in verbs.__all__:
            verb = getattr(ps, name)
            for argument in inspect.signature(verb).parameters:
                self.assertIn(f"        {argument}: ", verb.__doc__, name)

    def test_every_key_has_a_type(self) -> None:
        typed = set()
        for section in description()["sections"]:
            name = "".join(part.title() for part in section["name"].replace(".", "_").split("_")) + "Keys"
            hints = typing.get_type_hints(getattr(_keys, name))
            typed |= {f"{section['name']}.{key}" for key in hints}
        self.assertLessEqual({key["name"] for s in description()["sections"] for key in s["keys"]}, typed)

    def test_lists_of_keys_and_columns(self) -> None:
        self.assertEqual(ps.keys().loc["model.width", "default"], "1024")
        self.assertEqual(ps.columns("stack").loc["second_moment_measured", "dimensions"], "input placement depth")
        with self.assertRaises(ps.ConfigError):
            ps.columns("stacks")

    def test_the_stub_of_the_compiled_module_is_complete(self) -> None:
        """stubtest knows no functions of nanobind."""
        stub = ast.parse((ROOT / "python" / "periscope" / "_periscope.pyi").read_text())
        functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
        classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
        shown = {name for name in dir(_periscope) if not name.startswith("_")}
        self.assertEqual(shown, set(functions) | set(classes))
        for name, node in functions.items():
            signature = getattr(_periscope, name).__nb_signature__[0][0]
            declared = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
            self.assertEqual(re.findall(r"(?:\(|, )(\w+): ", signature), declared, name)
        for name, described in classes.items():
            members = {node.name for node in described.body if isinstance(node, ast.FunctionDef)}
            members |= {node.target.id for node in described.body if isinstance(node, ast.AnnAssign)}
            real = {m for m in dir(getattr(_periscope, name)) if not m.startswith("_")} - set(dir(Exception))
            self.assertLessEqual(real, members, name)
            self.assertLessEqual(members - {"__init__"}, real, name)

    def test_one_version(self) -> None:
        words = [line for line in (ROOT / "CMakeLists.txt").read_text().splitlines() if line.startswith("project(")]
        self.assertIn(f"VERSION {ps.__version__} ", words[0])


if __name__ == "__main__":
    unittest.main()
