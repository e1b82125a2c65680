"""Checks that figures show the numbers of results: the JSON of the same run, or planted results."""

import io
import pathlib
import re
import xml.etree.ElementTree

import pytest

from planted_results import ATTRIBUTES, CONFIG, arrays, planted_reproduce, planted_train, result
from plotting import draw, figure_of, figures_of, with_columns
from program import FIXTURES, SMALL, THREE, run

# isort: split
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from PIL import Image

from plots import blocks, captions, drawing, kinds, reader, style

FOUR = 'model.placement=["pre", "peri", "post", {A=true,B=false,C=true,alpha=0.9,beta=0.5}]'
PROBE_FIGURES = ["trained-vs-init", "growth", "growth-parts", "massive", "margins"]
STACK_FIGURES = ["variance", "token_cosine", "dilution", "agreement-gaussian", "agreement-tokens", "power-gaussian",
                 "power-tokens", "angular-gaussian", "angular-tokens", "comparison-gaussian", "comparison-tokens"]
VERIFY_FIGURES = ["bound_ratios", "bound_ratio_vs_width", "massive_activations"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A folder with results of several kinds."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "small.toml").write_text(SMALL)
    tiny = ("--config", "small.toml", "model.width=16", FOUR, "input.tokens=4")
    for words in (("propagate", tiny, 'input.kind=["gaussian", "tokens"]'), ("verify", "--cases", 3000, "--starts", 4),
                  ("ladder", tiny, "ladder.widths=[16, 32, 64, 128]", "ladder.seeds=32"),
                  ("probe", FIXTURES / "gemma2", "--tokens", "1,2,3,4,5,6", "--backward")):
        run(words, "--out", folder / "stack", "--quiet", cwd=folder)
    return folder / "stack"


@pytest.fixture(scope="module")
def read(stack):
    return {name: reader.read(stack / f"{name}.nc") for name in ("propagate", "ladder", "verify", "probe")}


def all_figures(name, ds):
    return {f"{name}-{figure}": drawn for kind in kinds.of(ds) for figure, drawn in figures_of(kind, ds).items()}


def test_every_figure_is_written_and_reproducible(stack, read, folder):
    done = draw(stack, "--out", folder / "figures")
    assert (done.returncode, done.stderr) == (0, "")
    every = {name: all_figures(name, ds) for name, ds in read.items()}
    for name, figures in (("propagate", STACK_FIGURES), ("verify", VERIFY_FIGURES), ("probe", PROBE_FIGURES)):
        assert set(every[name]) == {f"{name}-{figure}" for figure in figures}
    written = {pathlib.Path(line) for line in done.stdout.splitlines()}
    assert written == {folder / "figures" / f"{name}.{kind}" for figures in every.values() for name in figures
                       for kind in ("png", "svg", "txt")}
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 400, path.name
                assert len(np.unique(np.asarray(image.convert("L")))) > 50, "not blank"
        elif path.suffix == ".svg":
            assert sum(1 for _ in xml.etree.ElementTree.parse(path).getroot().iter()) > 100, path.name
            assert "dc:date" not in path.read_text()
    for i, (name, figure) in enumerate(pair for figures in every.values() for pair in figures.items()):
        # Draws every third figure again in this process, which has a different hash seed.
        again = drawing.Options(formats=("svg",) if i % 3 == 0 else ())
        for path in drawing.save(figure, folder / "again" / name, again):
            assert path.read_bytes() == (folder / "figures" / path.name).read_bytes(), path.name
        legends = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
        assert not [w for w in (figure.caption, *legends) if re.search(r"\b[TG]\d", w)], "theorem numbers"


def test_results_without_finite_values_are_drawn(read):
    for name in ("propagate", "ladder", "probe"):
        places = {"width", "ladder_width", "inverse_width", "group", "rank", *read[name].coords}
        nan = {n: np.full(v.shape, np.nan) for n, v in read[name].variables.items()
               if v.dtype.kind in "fiub" and v.ndim and n not in places}
        for figure in all_figures(name, with_columns(read[name], nan)).values():
            figure.savefig(io.BytesIO(), format="png", dpi=30)
    nan = {n: np.full(v.shape, np.nan) for n, v in read["propagate"].data_vars.items() if n.startswith("variance_")}
    (axes, *_) = figure_of("variance", with_columns(read["propagate"], nan)).axes
    assert len(axes.texts) == 1, "a note instead of curves"


def test_styles_differ():
    placements = {p["name"] for p in run("list", "--json").json["placements"]}
    assert placements == set(style.STYLES) == {name for members in blocks.CLASSES.values() for name in members}
    assert len({(s.colour, s.marker) for s in style.styles(sorted(placements))}) == len(placements)
    for title, members in blocks.CLASSES.items():
        assert len({style.STYLES[name].marker for name in members}) == len(members), title
    tables = [f'{{"A":true,"B":false,"C":false,"alpha":{k},"beta":1}}' for k in (2, 3)]
    styles = style.styles([*style.STYLES, *tables])
    for part in ("label", "colour"):
        assert len({getattr(s, part) for s in styles}) == len(style.STYLES) + 2, part
    # Variants of a recipe have shades of one colour.
    names = [f"{recipe}, std {s}" for recipe in ("gemma2", "llama", "olmo2", "mine", "opt") for s in (1, 2, 3)]
    styles = style.styles([*names, names[0]])
    assert len({(s.colour, s.marker) for s in styles}) == len(names)
    assert len({s.colour for s in styles[::3]}) == 5
    assert [s.label for s in styles] == [*names, names[0]]


def test_labels_describe_free_placements():
    norms = '{"A": true, "B": false, "C": true, "alpha": "2L", "beta": 1.0}'
    modules, rule = f'{{"attention": {norms}, "mlp": "keel"}}', "A+C, α = 2L, β = 1"
    odd = ["{mine", "{}, std 0.02", "[3]", "3"]
    names = [modules, norms, f"{modules}, std 0.1", f"{norms}, norm l2", "span, x 1", *odd]
    assert [s.label for s in style.styles(names)] == [
        f"{rule} attention, KEEL MLP", rule, f"{rule} attention, KEEL MLP, std 0.1", f"{rule}, norm l2",
        "SpanNorm, x 1", *odd]  # names that users may give


def test_recipes_have_the_colour_of_their_placement():
    names = ["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"]
    settings = [f'{{"init.std": {std}, "model.placement": "{p}", "model.recipe": "{r}"}}'
                for std, p, r in ((0.02, "pre", "llama"), (0.05, "pre", "llama"), (0.02, "b-only", ""))]
    columns = {"placement": ("placement", names), "placement_settings": ("placement", settings)}
    styles, pre = captions.styles(result(columns, CONFIG, ATTRIBUTES)), style.STYLES["pre"]
    assert [s.label for s in styles] == names
    assert [s.colour for s in styles] == [pre.colour, style.shade(pre.colour, 1), style.STYLES["b-only"].colour]
    assert (styles[0].dash, styles[0].marker) == (pre.dash, pre.marker)
    first, llama = style.styles(["pre", "llama"], ["pre", "pre"])
    assert (first, llama.label) == (pre, "llama")
    assert (llama.colour, llama.marker) != (pre.colour, pre.marker)


@pytest.fixture(scope="module")
def planted():
    return planted_reproduce()


def claiming(ds, columns):
    """Returns the result with only these claims."""
    without = ds.drop_vars([name for name, v in ds.variables.items() if "claim" in v.dims])
    return without.assign({name: ("claim", np.array(values)) for name, values in columns.items()})


def legible(figure, name):
    """Checks that tick labels do not touch and that no text leaves the figure."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        for axis, k, low, high in ((axes.xaxis, 0, "x0", "x1"), (axes.yaxis, 1, "y0", "y1")):
            shown = axis.get_view_interval()
            boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_visible()
                     and label.get_text() and shown.min() <= label.get_position()[k] <= shown.max()]
            boxes.sort(key=lambda box: getattr(box, low))
            for one, other in zip(boxes, boxes[1:], strict=False):
                assert getattr(one, high) < getattr(other, low), (name, axes.get_title())
    for text in [*figure.texts, *(axes.title for axes in figure.axes)]:
        assert text.get_window_extent().x1 <= figure.bbox.x1, (name, text.get_text())


def test_figures_are_legible(planted):
    for name in ("figure-1-variance", "growth", "eq-4-gap", "figure-11-extremes", "figure-4-instability",
                 "figure-3-rates"):
        legible(figure_of(name, planted), name)
    legible(figure_of("training", planted_train()), "training")
    with style.use_width(3.3):
        figure = figure_of("training", planted_train())
    assert figure.get_figwidth() == 3.3
    legible(figure, "training")
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert all(one.y0 > other.y1 for one, other in zip(boxes, boxes[1:], strict=False)), "one panel per row"


def test_large_error_bars_do_not_squeeze_figure_7(planted):
    wide = np.full_like(arrays(planted)["layer_gradient_stderr"], 8.0)  # bars of ± 2·8/ln(10) = ± 7 decades
    figure = figure_of("figure-7-gradients", with_columns(planted, {"layer_gradient_stderr": wide}))
    low, high = figure.axes[0].get_ylim()
    assert np.log10(high / low) < 3, "values from 1 to 2, and a decade on each side"


def test_claims_below_figure_9_belong_to_the_figure(planted, folder):
    names = ["F10a", "F10b", "F11a", "F11b"]
    ds = claiming(planted, {"claim": names, "claim_exhibit": ["9"] * 4, "claim_verdict": ["holds"] * 4,
                            "claim_statement": ["one is larger"] * 4, "claim_p": [0.01] * 4, "claim_holm": [0.04] * 4})
    for name, shown in (("figure-9-angles", names[:2]), ("figure-9-gains", names[2:])):
        figure = figure_of(name, ds)
        assert (figure.texts, "Claims" in figure.caption) == ([], False), "only on request"
        list(drawing.save(figure, folder / name, drawing.Options(formats=("svg",), claims=True)))
        head = [text.get_text().partition(" ")[0] for text in figure.texts]
        assert [word for word in head if word.startswith("F")] == shown
        assert "Claims" in figure.caption


def test_the_figure_of_claims_is_legible_and_marks_significant_ones(planted):
    for smallest in (1e-4, 4e-6, 1e-11):
        figure = figure_of("claims", claiming(planted, {
            "claim": [f"F{k}" for k in range(6)], "claim_exhibit": ["1"] * 6,
            "claim_statement": ["one of them is larger than the other one in every layer"] * 6,
            "claim_p": [smallest, 1e-4, 0.03, 0.5, 0.97, np.nan],
            "claim_verdict": ["holds", "holds", "holds", "not-shown", "fails", "not-shown"],
            "claim_mean": [1.0] * 5 + [np.nan], "claim_stderr": [0.1] * 6, "claim_detectable": [np.nan] * 6,
            "claim_holm": [1e-9, 1e-3, 0.3, 1.0, 0.3, np.nan]}))
        legible(figure, "claims")
    assert not [t for t in figure.axes[0].texts if "nan" in t.get_text()]
    faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() in "oXs"]
    assert [face == "white" for face in faces] == [False, False, True, True, True, True]
    assert any(text.get_text().startswith("hollow: ") for text in figure.legends[0].get_texts())


PLACEMENTS = {"post": "Post-LN", "pre": "Pre-LN", "peri": "Peri-LN"}
READING = "line: theory, marker: measured"
# Tolerance for the rounding of one exponential and one product.
SAME = {"rtol": 1e-12, "atol": 1e-14}


def colours(figure):
    """Returns colour and marker by label, from the legend."""
    (legend,) = figure.legends
    return {h.get_label(): (to_hex(h.get_color()), h.get_marker()) for h in legend.legend_handles
            if hasattr(h, "get_marker") and h.get_label() != READING}


def check_curve(axes, look, m, e, t, u, scale=lambda v: v, slope=np.ones_like):
    """Checks a theory line t with its band of ± 2 standard errors u, and markers m with bars of ± 2 standard errors e.
    `scale` maps values of JSON to drawn values, `slope` is its derivative."""
    colour, marker = look
    x = np.arange(len(t))
    (bars,) = [c for c in axes.containers if to_hex(c.lines[0].get_color()) == colour]
    (line,) = [line.get_xydata() for line in axes.get_lines() if to_hex(line.get_color()) == colour
               and line.get_linestyle() != "None" and line is not bars.lines[0]]
    np.testing.assert_allclose(line, np.stack([x, scale(t)], 1), **SAME)
    (band,) = [c.get_paths()[0].vertices for c in axes.collections if isinstance(c, PolyCollection)
               and to_hex(c.get_facecolor()[0]) == colour]
    edges = [band[np.isclose(band[:, 0], v, rtol=1e-9, atol=1e-12), 1] for v in x]
    np.testing.assert_allclose([edge.min() for edge in edges], scale(t) - 2 * slope(t) * u, rtol=1e-9)
    np.testing.assert_allclose([edge.max() for edge in edges], scale(t) + 2 * slope(t) * u, rtol=1e-9)
    marked = bars.lines[0].get_xydata()
    at = np.round(marked[:, 0]).astype(int)
    assert len(at) > 0 and bars.lines[0].get_marker() == marker
    np.testing.assert_allclose(marked, np.stack([at, scale(m)[at]], 1), **SAME)
    whole = [segment[1][1] - segment[0][1] for segment in bars.lines[2][-1].get_segments()]
    np.testing.assert_allclose(whole, (4 * slope(m) * e)[at], rtol=1e-7, atol=1e-13)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The result of one run, read from JSON and from its file."""
    folder = tmp_path_factory.mktemp("three")
    (folder / "small.toml").write_text(THREE)
    ds = run("propagate", "--config", "small.toml", "model.layers=3", "--backward", "--out", ".", "--json", "--quiet",
             cwd=folder).ds
    return ds, reader.read(folder / "propagate.nc")


@pytest.mark.parametrize(("kind", "statistic", "y_scale"), [
    ("variance", "variance", "log"), ("token_cosine", "token_cosine", "linear"), ("gradient", "log_grad_sq", "log")])
def test_figures_over_depth_show_the_numbers_of_json(kind, statistic, y_scale, three):
    ds, file = three
    figure = figure_of(kind, file)
    (axes,) = figure.axes
    if kind != "token_cosine":  # the overview also has this panel
        pair = figure_of("overview", file).axes[kind == "gradient"]
        assert pair.get_ylabel() == axes.get_ylabel()
        lines = [[c.get_xydata().tolist() for c in panel.get_lines()] for panel in (pair, axes)]
        assert lines[0] == lines[1]
    assert (axes.get_yscale(), axes.get_xscale()) == (y_scale, "linear")
    assert "± 2 standard errors" in figure.caption
    assert set(colours(figure)) == set(PLACEMENTS.values())
    assert figure.legends[0].get_texts()[-1].get_text() == READING
    # JSON has logarithms of squared norms
    how = {"scale": lambda v: np.exp(v / 2), "slope": lambda v: np.exp(v / 2) / 2} if kind == "gradient" else {}
    for name, label in PLACEMENTS.items():
        curve = (ds[f"{statistic}_{v}"].sel(placement=name).values[0] for v in (
            "measured", "stderr", "predicted", "predicted_stderr"))
        check_curve(axes, colours(figure)[label], *curve, **how)


def test_the_claimed_gradient_falls_towards_the_input(folder):
    (folder / "small.toml").write_text(SMALL)
    run("gradients", "attenuation", "--config", "small.toml", "model.placement=post", "gradients.qk_factors=[0.0]",
        "theory.gradient_tolerance=0.5", "--out", ".", "--quiet", code=(0, 4))
    ds = reader.read(folder / "gradient_attenuation.nc")
    (claimed,) = [line for line in figure_of("attenuation", ds).axes[0].get_lines() if line.get_color() == "0.72"]
    rise = np.diff(np.log(claimed.get_ydata()))
    np.testing.assert_allclose(rise, -float(ds["stream_claim_number"].values[0]), rtol=1e-9)
    assert (rise > 0).all()
