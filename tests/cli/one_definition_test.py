"""No two classes share a name: the one-definition rule of C++, which no compiler enforces between files."""

import collections
import functools
import re

from program import ROOT

# Comments, literals and preprocessor lines: nothing in them opens a scope.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
BEFORE_NAME = re.compile(r"template\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>|\[\[.*?\]\]|\balignas\s*\([^()]*\)")
NAMESPACE = re.compile(r"\b(?:inline\s+)?namespace\b\s*([\w:]*)$")
CLASS = re.compile(r"\b(?:enum\s+class|enum|class|struct|union)\s+(\w+(?:\s*<.*>)?)(?:\s+final)?\s*(?::[^:].*)?$", re.S)


@functools.cache
def definitions(text):
    """Qualified names of the classes and enumerations in `text` that other files can see. What an unnamed namespace or
    a function holds is its own."""
    text = BEFORE_NAME.sub(" ", NOISE.sub(" ", text))
    found = []
    scopes = []  # of each open brace: the names that it adds, or None for what hides names
    start = 0
    for brace in re.finditer(r"[{};]", text):
        head = text[start:brace.start()].strip()
        start = brace.end()
        if brace.group() == "}":
            if scopes:
                scopes.pop()
        elif brace.group() == "{":
            namespace, named = NAMESPACE.search(head), CLASS.search(head)
            if namespace:
                scopes.append(namespace.group(1) or None)
            elif named and "=" not in head and ")" not in head:
                scopes.append(re.sub(r"\s+", "", named.group(1)))
                if None not in scopes:
                    found.append("::".join(scopes))
            else:
                scopes.append(None)
    return found


def defined_twice(files):
    """Lines "NAME: FILE, FILE" for a mapping from path to text."""
    where = collections.defaultdict(list)
    for path, text in files.items():
        for name in definitions(text):
            where[name].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(where.items()) if len(paths) > 1]


def texts_of(*folders):
    return {str(p.relative_to(ROOT)): p.read_text() for folder in folders for p in (ROOT / folder).rglob("*")
            if p.suffix in (".h", ".cpp")}


def test_libraries_and_program():
    files = texts_of("sim", "theory", "experiments")
    names = {name for text in files.values() for name in definitions(text)}
    assert names >= {"periscope::Placement", "periscope::theory::Prediction", "periscope::WeightSource",
                     "periscope::ExtremesProbe", "periscope::CheckpointGradients::Pending", "periscope::Signal"}
    assert len(names) > 150
    assert defined_twice(files) == []


def test_programs_of_tests():
    """A test's program links the libraries and the files of its own folder."""
    libraries = texts_of("sim", "theory", "experiments", "tests/support")
    rooms = sorted(p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name != "support")
    assert len(rooms) > 10
    assert {line for room in rooms for line in defined_twice({**libraries, **texts_of(f"tests/{room}")})} == set()


def test_planted_twins_are_found():
    head = "// struct A {};\nnamespace periscope {\nnamespace {\nstruct Hidden { int a; };\n}  // namespace\n"
    files = {"a.h": head + "struct Twin { char c = '{'; };\nenum class Kind : int { one };\n}",
             "b.cpp": head + "template <class T, class = std::vector<T>>\n"
                      "class [[nodiscard]] Twin final : public Base<T> {\n struct In {};\n};\n}",
             "c.cpp": head + 'class Kind;\nvoid f(struct stat { 1 }) { struct Twin {}; const char* s = "{"; }\n'
                      "namespace other { struct Twin {}; }\n}",
             "d.h": "namespace periscope::other { class Twin {}; enum Kind { two }; }\n"
                    "namespace periscope { enum Kind { three }; }"}
    assert defined_twice(files) == ["periscope::Kind: a.h, d.h", "periscope::Twin: a.h, b.cpp",
                                    "periscope::other::Twin: c.cpp, d.h"]
    assert definitions(files["b.cpp"]) == ["periscope::Twin", "periscope::Twin::In"]
