"""Golden figures: the contents of every figure of small and of planted results, as committed text.

  figures.py compare --program build/periscope   prints changes by artist; exit code 1 if there are any
  figures.py refresh --program build/periscope   writes tests/golden/results/figures.txt

The file has the caption and legends of every figure. For every panel it has the text, and colour, marker, style and
numbers of lines, bars, bands, patches and images. Exit code 77 (skipped) if the build is not the reference build, which
reproduces the goldens bit for bit (golden.py)."""

import argparse
import math
import os
import pathlib
import sys
import tempfile

import golden

ROOT = golden.HERE.parents[1]
MANY = ["none", "post", "pre", "peri", "a+c", "deepnorm", "mix", "lns", "depth-scaled", "keel", "beam", "u-mup", "ngpt",
        "layer-scale", "muse-spark", "span"]  # fmt: skip
# Results for which only these kinds of figures are drawn; the others would resemble figures of other results.
STREAM = ("overview", "variance", "token_cosine", "gradient")
ONLY = {"many": ["blocks"], "inputs": STREAM, "overflow": STREAM, "diverged": ["figure-3-rates"], "theory": STREAM,
        "claims": ["claims"], "deep": [], "wrong": [], "together": STREAM, "named": STREAM}


def commands(studies, sets):
    """Returns the command lines of the drawn results, by name."""
    gemma = ["--tokens", "1,2,3,4,5,6"]
    model = str(golden.HERE.parent / "checkpoint" / "fixtures" / "gemma2")
    names = ", ".join(f'"{name}"' for name in MANY)
    inputs = sets('input.kind=["gaussian","tokens"]')
    return {name: words for name, words in studies.items() if name not in ("verify", "reproduce", "propagate")} | {
        "propagate": [*studies["propagate"], "--backward"],
        "inputs": [*studies["propagate"], *inputs, *sets("init.scheme=normal", "input.second_moment=4e-4")],
        "overflow": [*studies["propagate"], *sets('model.placement=["none","peri"]', "model.layers=40",
                                                  "init.scheme=he")],
        "deep": [*studies["propagate"], *sets("model.layers=3", "model.qk_norm=head", "input.second_moment=4e-4")],
        "wrong": [*studies["propagate"], "--seeds", "6", "--theory-set", "init.down_factor=2"],
        "many": [*studies["propagate"], "--backward", "--set", f"model.placement=[{names}]"],
        "formats": [*studies["formats"], "--backward", *sets('formats.format=["fp16","int8"]', "formats.massive=20")],
        "verify": ["verify", "--cases", "3000", "--starts", "4"],
        "probe": ["probe", model, *gemma, "--backward"],
        "certify": ["certify", model, *gemma],
        "bounds": ["certify", model, "--arithmetic", "pure"],
        "exact": ["certify", model, "--arithmetic", "exact"],
    }  # fmt: skip


def results(program):
    """Yields the name and dataset of each result."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "cli")]
    import numpy as np

    from planted_results import planted_claims, planted_reproduce, planted_train
    from plots import reader, together
    from plotting import with_columns
    from program import LIST, STUDIES, SWEEPS, THREE, sets

    found = {}
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "small.toml").write_text(THREE + SWEEPS)
        (folder / "list.toml").write_text(LIST)
        for name, words in commands(STUDIES, sets).items():
            done = program.run([*words, "--out", name, "--quiet", "--threads", "1"], folder)
            assert done.returncode in (0, 4), done.stderr
            (file,) = (folder / name).glob("*.nc")
            ds = found[name] = reader.read(file).assign_attrs(version="0", commit="none")
            yield name, ds
            if name == "power":  # also drawn with an infinite and a missing excess
                far = ds["power_excess"].values.copy()
                far[0], far[1] = np.inf, np.nan
                yield "margins", with_columns(ds, {"power_excess": far})
    several = {pathlib.Path(name) / "result.nc": found[name] for name in ("propagate", "deep", "wrong", "theory")}
    yield "together", together.merged(several)
    yield "named", together.merged(several, ["ours", "for $3", r"$\frac{1$", "theory, alone"])
    planted = planted_reproduce()
    yield "reproduce", planted
    yield "diverged", with_columns(planted, {"diverged_at": np.where(planted["spikes"] % 4 == 1, 7.0, np.nan)})
    yield "planted train", planted_train()
    low = planted_claims(["F4a", "F9c", "G7c"], ["holds", "not-testable-here", "fails"], 2.5, "σ√D 0.2, width 96")
    high = planted_claims(["G7c", "F4a", "R8"], ["holds", "holds", "not-run"], 1.5, "σ√D 0.88, width 96")
    yield "claims", low
    yield "claims together", together.merged({pathlib.Path("a.nc"): low, pathlib.Path("b.nc"): high})


def numbers(values):
    """Returns the number of finite values, and their norm with weights that grow with the index."""
    finite = [(1.0 + i / len(values)) * x for i, x in enumerate(values) if math.isfinite(x)]
    return f"{len(finite)} {math.hypot(*finite):.10g}"


def entries_of(figure):
    """Returns the contents of a figure: {artist: lines}."""
    import numpy as np
    from matplotlib.colors import to_hex

    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    found = {"caption": figure.caption.splitlines() or [""], "legend": [" | ".join(legends)]}
    for k, axes in enumerate(figure.axes):
        inside = [text.get_text() for text in (axes.get_legend().get_texts() if axes.get_legend() else [])]
        words = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale(), *inside,
                 *(text.get_text() for text in axes.texts)]  # fmt: skip
        found[f"{k} words"] = [" | ".join(words).replace("\n", " / ")]
        drawn = [(f"{to_hex(line.get_color())} {line.get_marker()} {line.get_linestyle()} "
                  f"{to_hex(line.get_markerfacecolor())}", line.get_xydata()) for line in axes.get_lines()]  # fmt: skip
        for artist in axes.collections:
            shapes = artist.get_segments() if hasattr(artist, "get_segments") else [
                path.vertices for path in artist.get_paths()]  # fmt: skip
            points = [np.reshape(np.asarray(shape, float), (-1, 2)) for shape in shapes]
            drawn.append((type(artist).__name__, np.concatenate(points or [[]])))
        drawn += [(f"bar {to_hex(bar.get_facecolor())}", bar.get_path().vertices if not hasattr(bar, "get_height")
                   else [bar.get_x(), bar.get_y(), bar.get_height()]) for bar in axes.patches]  # fmt: skip
        drawn += [("image", np.ma.filled(image.get_array(), np.nan)) for image in axes.get_images()]
        for look in dict.fromkeys(look for look, _ in drawn):
            alike = [np.ravel(np.asarray(values, float).T) for found_look, values in drawn if found_look == look]
            found[f"{k} {look}"] = [numbers(np.concatenate(alike))]
    return {name: lines for name, lines in found.items() if lines != [""]}


def all_entries(program):
    """Returns {result/figure: entries} of all figures."""
    found = {}
    for name, ds in results(program):
        from plots import kinds
        from plotting import figures_of

        for kind in [kind for kind in kinds.of(ds) if kind.name in ONLY.get(name, kinds.names())]:
            for figure, drawn in figures_of(kind, ds).items():
                found[f"{name}/{figure}"] = entries_of(drawn)
    return found


def differences(golden_entries, found):
    """Returns a line for every changed artist."""
    lines = [f"{case}: {'is not drawn' if case not in found else 'has no golden'}"
             for case in golden_entries.keys() ^ found.keys()]  # fmt: skip
    for case in golden_entries.keys() & found.keys():
        old, new = golden_entries[case], found[case]
        lines += [f"{case}: {name} is only in the {'result' if name in new else 'golden'}"
                  for name in old.keys() ^ new.keys()]
        for name in old.keys() & new.keys():
            words = name in ("caption", "legend") or name.endswith(" words")
            pairs = list(zip(old[name][0].split(), new[name][0].split(), strict=False))
            changed = old[name] != new[name] if words else not all(golden.close(*p, golden.RELATIVE) for p in pairs)
            lines += [f"{case}: {name}: expected {old[name]}, found {new[name]}"] if changed else []
    return sorted(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["compare", "refresh"])
    parser.add_argument("--program", required=True)
    given = parser.parse_args()
    os.environ["MPLBACKEND"] = "agg"
    program = golden.Program(given.program)
    if not program.is_reference():
        return 77
    found = all_entries(program)
    if given.action == "refresh":
        golden.result_path("figures").write_text(golden.text_of(found))
        return 0
    changed = differences(golden.parsed(golden.result_path("figures").read_text()), found)
    for line in changed[: golden.SHOWN]:
        print(line[:400])
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
