"""No two classes share a name: the one-definition rule of C++, which no compiler checks across files."""

import collections
import functools
import re

from program import ROOT

# All patterns rely on clang-format: only namespaces, their members and preprocessor lines begin at the start of a line.
SHORT_NAMESPACE = re.compile(r"^namespace [\w:]+ \{\n.*\n\}$", re.M)  # without a comment at its end
NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([\w:]+))? \{$")
CLASS = re.compile(r"^(?:enum class|enum|class|struct|union)(?: \[\[\w+\]\]| alignas\(\w+\))*"
                   r" (\w+(?:<[^{]*>)?)(?: final)?(?: [:{].*)?$")


@functools.cache
def definitions(text):
    """Returns the qualified names of the classes and enumerations that other files can see."""
    scopes, found = [], []
    for line in SHORT_NAMESPACE.sub("", text).splitlines():
        if namespace := NAMESPACE.match(line):
            scopes.append(namespace[1])
        elif line.startswith("}  // namespace"):
            scopes.pop()
        elif (named := CLASS.match(line)) and None not in scopes:
            found.append("::".join([*scopes, named[1]]))
    return found


def defined_twice(files):
    """Returns lines "NAME: FILE, FILE" for a mapping from path to text."""
    where = collections.defaultdict(list)
    for path, text in files.items():
        for name in definitions(text):
            where[name].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(where.items()) if len(paths) > 1]


def texts_of(*folders):
    return {str(p.relative_to(ROOT)): p.read_text() for folder in folders for p in (ROOT / folder).rglob("*")
            if p.suffix in (".h", ".cpp")}


def test_libraries_and_test_programs_define_every_class_once():
    """A test program links the libraries and the files of its folder."""
    libraries = texts_of("sim", "theory", "experiments", "tests/support")
    names = {name for text in libraries.values() for name in definitions(text)}
    assert names >= {"periscope::Placement", "periscope::theory::Prediction", "periscope::Signal"} and len(names) > 400
    folders = sorted(p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name != "support")
    assert {line for name in folders for line in defined_twice({**libraries, **texts_of(f"tests/{name}")})} == set()


def test_planted_twins_are_found():
    files = {"a.h": "namespace periscope {\nnamespace {\nstruct Twin {\n};\n}  // namespace\nclass Kind;\n"
                    "struct Twin {};\nenum class Kind : int { one };\n}  // namespace periscope\n",
             "b.cpp": "namespace periscope {\ntemplate <class T>\nclass [[nodiscard]] Twin final : public Base<T> {\n"
                      "  struct Kind {};\n};\n}  // namespace periscope\n",
             "c.cpp": "namespace other {\nclass Kind;\n}\nnamespace periscope {\nclass Kind {};\n}  // namespace\n"}
    assert defined_twice(files) == ["periscope::Kind: a.h, c.cpp", "periscope::Twin: a.h, b.cpp"]
