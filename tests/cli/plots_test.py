"""`plots`: its command line, invalid files, and figures for callers in Python."""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import unittest.mock as mock

import pytest

from plotting import draw, figure_of
from program import CONFIG, ROOT, SMALL, run

# isort: split
import matplotlib
import netCDF4
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image

import plots
from plots import drawing, kinds, reader, style

BOTH = 'input.kind=["gaussian","tokens"]'


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with results; its subfolder "stack" holds two of them."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "small.toml").write_text(SMALL)
    for out, *words in (("plain", "propagate"), ("other", "propagate", "input.second_moment=4e-4"),
                        ("stack", "propagate", "--backward", BOTH), ("stack", "theory", BOTH)):
        run(words, CONFIG, "--out", folder / out, "--quiet", cwd=folder)
    run("train", "model.layers=2", "model.width=16", "model.heads=2", "model.vocab=32", "input.tokens=8",
        "train.steps=3", "train.batch=2", "--seeds", 2, 'model.placement=["pre","peri"]', "--out", folder / "train",
        "--quiet")
    return folder


@pytest.fixture
def plain(results):
    return results / "plain" / "propagate.nc"


@pytest.fixture
def stack(results):
    return results / "stack" / "propagate.nc"


def written(folder, *words):
    done = draw(*words, "--out", folder / "figures")
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(line.removeprefix(f"{folder / 'figures'}/") for line in done.stdout.splitlines())


def size_of(path):
    with Image.open(path) as image:
        return image.size


def test_only_selects_figures_of_a_file(plain, folder):
    assert written(folder, plain, "--only", "variance,agreement") == [
        f"propagate-{name}.{kind}" for name in ("agreement-gaussian", "variance") for kind in ("png", "svg", "txt")]


def test_several_paths_keep_their_folders(plain, results, folder):
    names = [f"{name}/propagate-variance.{kind}" for name in ("other", "plain") for kind in ("pdf", "txt")]
    assert written(folder, plain, results / "other", plain, "--only", "variance", "--format", "pdf") == names
    pdf = (folder / "figures" / "plain" / "propagate-variance.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-") and b"CreationDate" not in pdf


def test_captions_are_written_into_a_file_or_below_the_figure(plain, folder):
    variance = folder / "figures" / "propagate-variance.png"
    heights = {}
    for width, flags in ((3.3, []), (7, []), (7, ["--caption", "below"])):
        names = written(folder, plain, "--only", "variance", "--format", "png", "--width", width, *flags)
        assert names == ["propagate-variance.png"] + ([] if flags else ["propagate-variance.txt"])
        size = size_of(variance)
        assert size[0] == round(200 * width)
        heights[len(flags)] = size[1]
    assert heights[2] > heights[0] + 40, "the caption is in the figure"
    words = variance.with_suffix(".txt").read_text()
    assert not [line for line in words.splitlines() if line.endswith("-")], "no word is broken"
    for width in (2.5, 3.3, 7.0):
        figure = figure_of("variance", reader.read(plain))
        assert figure.texts == [], "no caption unless requested"
        figure.set_size_inches(width, 3.0)
        style.caption_below(figure)
        box = figure.texts[0].get_window_extent()
        assert 0 <= box.x0 and box.x1 <= figure.bbox.width, width
    assert figure.texts[0].get_text().split() == figure.caption.split() == words.split()


def test_plots_runs_from_any_folder_by_its_path(plain, folder):
    done = subprocess.run([sys.executable, ROOT / "plots", plain.parent, "--out", "figures", "--only", "variance"],
                          capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "figures" / "propagate-variance.svg").is_file()


def test_an_interpreter_without_the_packages_is_named():
    done = subprocess.run([sys.executable, "-S", "-m", "plots", "--list"], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, ".venv/bin/" in done.stderr) == (1, "", True)


def test_list_names_every_figure():
    assert sorted({line.split()[0] for line in draw("--list").stdout.splitlines()}) == sorted(kinds.names())


@pytest.mark.parametrize(("flags", "name"), [
    (["--only", "varaince"], "'variance'"), (["--format", "gif,png"], "'gif'"), (["--caption", "above"], "'above'"),
    (["--width", "0.5"], "'0.5'"), (["--width", "wide"], "'wide'"), (["--label", "a"], "--together"),
    (["--together", "--label", "a", "--label", "a"], "--label"),
    (["--together", "--label", "a", "--label", "b"], "--label"),
    (["--only", "ladder,signals"], "'ladder'")], ids=str)
def test_invalid_flags_are_rejected(flags, name, plain, folder):
    done = draw(plain, "--out", folder / "never", *flags)
    assert (done.returncode, done.stdout, name in done.stderr) == (2, "", True), done.stderr
    assert not (folder / "never").exists()


def damaged(stack, path, change):
    """Writes a copy of a valid result file with `change` applied."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(stack.read_bytes())
    with netCDF4.Dataset(path, "a") as data:
        change(data)


def test_invalid_files_are_named_and_valid_ones_drawn(stack, results, folder):
    broken, whole = folder / "broken", (results / "stack" / "theory.nc").read_bytes()
    damaged(stack, broken / "no_commit.nc", lambda data: data.delncattr("commit"))
    damaged(stack, broken / "no_config.nc", lambda data: data.setncattr("config", "no JSON"))
    os.mkfifo(broken / "fifo.nc")
    (broken / "folder.nc").mkdir()
    for name, content in (("cut", whole[:len(whole) // 2]), ("empty", b""), ("text", b"no NetCDF"), ("whole", whole)):
        (broken / f"{name}.nc").write_bytes(content)
    for name, attributes in (("foreign", {"program": "another"}), ("nothing", {}), ("huge", {})):
        with netCDF4.Dataset(broken / f"{name}.nc", "w") as data:
            data.setncatts({"program": "periscope", "version": "1", "commit": "1", "config": "{}"} | attributes)
            if name == "huge":
                data.createDimension("x", 1 << 40)
                data.createVariable("a", "f8", ("x",))
    done = draw(broken, "--out", folder / "drawn", "--format", "svg")
    assert done.returncode == 1, done.stderr
    names = sorted(path.name for path in broken.iterdir() if path.name != "whole.nc")
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == [str(broken / name) for name in names]
    assert "whole-variance.svg" in done.stdout, "the valid file is drawn"
    for path in ("nowhere", "empty"):
        (folder / "empty").mkdir(exist_ok=True)
        done = draw(folder / path, "--out", folder / "of_nowhere")
        assert (done.returncode, done.stdout, path in done.stderr) == (3, "", True)
    done = draw(stack, folder / "nowhere", "--out", folder / "half", "--only", "signals")
    assert (done.returncode, done.stdout, "'signals'" in done.stderr) == (1, "", True)


def test_a_failed_figure_is_named_and_the_others_drawn(stack, folder):
    half, angles = folder / "half", "angular_distance_measured"
    damaged(stack, half / "a.nc", lambda data: data.variables[angles].__setitem__(Ellipsis, np.nan))
    damaged(stack, half / "b.nc", lambda data: [data.renameVariable(*pair) for pair in ((angles, "other"),
                                                                                       ("site", "place"))])
    done = draw(half, "--out", folder / "drawn", "--format", "svg")
    failed = [f"{half / 'b.nc'}: figure angular-{kind}" for kind in ("gaussian", "tokens")]
    assert (done.returncode, [": ".join(line.split(": ")[:2]) for line in done.stderr.splitlines()]) == (1, failed)
    every = ["variance", "token_cosine", "dilution", *(f"{f}-{i}" for f in ("agreement", "power", "angular")
                                                       for i in ("gaussian", "tokens"))]
    expected = {f"a-{figure}.{kind}" for figure in every for kind in ("svg", "txt")}
    expected |= {f"b{name[1:]}" for name in expected if "angular" not in name and "dilution" not in name}
    assert expected <= {path.name for path in (folder / "drawn").iterdir()}


def test_a_crash_or_hang_affects_one_file_only(results, folder):
    def crash(_path):
        os.kill(os.getpid(), signal.SIGSEGV)

    def hang(_path):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # like a library call that never returns
        while True:
            signal.pause()

    for fault, words, patience in ((crash, "SIGSEGV", {}), (hang, "0.5 s", {"timeout": 0.5})):
        with mock.patch.object(reader, "read", fault):
            (report,) = drawing.draw([results / "stack" / "theory.nc"], folder / "crashed", **patience)
        assert isinstance(report, drawing.Failed) and "theory.nc: " in report.message and words in report.message
    with mock.patch.object(reader, "read", hang):
        reports = [drawing.draw([results / "stack" / "theory.nc"], folder / "closed") for _ in range(2)]
    assert len(multiprocessing.active_children()) == 2
    for closed in reports:
        closed.close()  # although none was read
    assert not multiprocessing.active_children()


def test_figures_are_written_atomically_and_replace_regular_files_only(folder):
    (folder / "a.png").write_bytes(b"before")
    os.mkfifo("a.svg")
    before, figure = set(os.listdir()), mock.Mock()
    figure.savefig.side_effect = lambda stream, **_: (stream.write(b"half"), 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(drawing.save(figure, folder / "a"))
    assert (folder / "a.png").read_bytes() == b"before"
    assert set(os.listdir()) == before, "no temporary file is left"
    figure.savefig.side_effect = lambda stream, **_: stream.write(b"whole")
    with pytest.raises(OSError, match="a.svg"):
        list(drawing.save(figure, folder / "a"))
    assert (folder / "a.png").read_bytes() == b"whole" and (folder / "a.svg").is_fifo()


@pytest.fixture
def ds(stack):
    """A result in memory, without the file that it came from."""
    read = reader.read(stack)
    return xr.Dataset(read.data_vars, read.coords, read.attrs)


@pytest.fixture
def train(results):
    return reader.read(results / "train" / "train.nc")


def pixels(png):
    """Returns the pixels of a figure, or of a file's bytes."""
    if isinstance(png, Figure):
        stream = io.BytesIO()
        png.savefig(stream, format="png")
        png = stream.getvalue()
    with Image.open(io.BytesIO(png)) as opened:
        return np.asarray(opened.convert("RGB")).astype(int)


def test_python_and_command_line_draw_the_same(ds, stack, folder):
    names = ("overview", "variance", "angular-tokens")
    assert draw(stack, "--out", folder, "--only", "overview,variance,angular", "--format", "png").returncode == 0
    for name in names:
        figure = plots.plot(ds, name)
        np.testing.assert_array_equal(pixels(figure), pixels((folder / f"propagate-{name}.png").read_bytes()))
        assert plots.caption_of(ds, name).split() == (folder / f"propagate-{name}.txt").read_text().split()
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n", "notebooks show it without pyplot"


def test_plot_selects_a_figure_by_name(ds, results):
    np.testing.assert_array_equal(pixels(plots.plot(ds)), pixels(plots.plot(ds, "overview")))
    assert plots.caption_of(ds) == plots.caption_of(ds, "overview")
    assert plots.figures(ds)[0] == "overview"
    assert plots.figures(reader.read(results / "stack" / "theory.nc"))[0] == "variance"
    one = ds.isel(input=[1])  # with a single input, the short name also works
    np.testing.assert_array_equal(pixels(plots.plot(one, "agreement")), pixels(plots.plot(one, "agreement-tokens")))
    for name, words in (("agreement", "agreement-gaussian, agreement-tokens"), ("varaince", "'variance'"),
                        ("training", "overview"), ("x", "'x'")):
        with pytest.raises(ValueError, match=words):
            plots.plot(ds, name)
    with pytest.raises(ValueError, match="'x'") as caught:
        plots.caption_of(ds, "x")
    assert all(name in str(caught.value) for name in (*plots.figures(ds), *kinds.names()))


def test_plot_sets_width_and_caption(ds):
    assert [plots.plot(ds, "variance", **w).get_figwidth() for w in ({}, {"width": 3.4})] == [7.0, 3.4]
    assert pixels(plots.plot(ds, "variance", width=3.4)).shape[1] == 680, "200 dots per inch"
    for width in (2.9, 21, float("nan")):
        with pytest.raises(ValueError, match=f"width {width!r}"):
            plots.plot(ds, width=width)
    figure = plots.plot(ds, "variance", caption=True)
    assert style.plain(" ".join(figure.texts[0].get_text().split())) == plots.caption_of(ds, "variance")
    assert plots.plot(ds, "variance").texts == []


def test_stacks_and_inputs_can_be_selected(ds, train):
    for chosen, panels in ((ds.isel(input=[0]), 1), (ds.sel(placement=["peri"]), 2)):
        assert plots.figures(chosen)[0] == "overview"
        figure = plots.plot(chosen, "variance")
        lines = {tuple(line.get_ydata()) for axes in figure.axes for line in axes.get_lines()}
        curves = chosen.variance_predicted.values.reshape(-1, chosen.sizes["depth"])
        assert (len(figure.axes), {tuple(curve) for curve in curves} <= lines) == (panels, True)
    assert "Pre-LN" not in plots.caption_of(ds.sel(placement=["peri"]))
    assert len(plots.plot(train.sel(placement=["peri"])).axes) == 4


def test_figures_name_missing_parts_of_a_selection(ds, train):
    for chosen, name in ((ds.isel(input=0), "'variance_predicted'"), (ds.sel(placement="peri"), "isel.placement=.0"),
                         (ds.mean("placement"), "input, depth"), (ds.transpose(), "input, placement, depth"),
                         (ds.isel(placement=[]), "'placement'"), (ds.isel(depth=slice(0, 3)), "'depth'"),
                         (ds.isel(depth=slice(None, None, -1)), "'depth'"), (train.isel(seed=[0]), "'seed'"),
                         (train.isel(record=slice(1, None)), "'record'"), (ds.drop_attrs(), "'version'"),
                         (xr.Dataset(attrs=ds.attrs), "variables"), (xr.Dataset(), "'version'")):
        with pytest.raises(ValueError, match=name):
            plots.plot(chosen)
    assert plots.figures(ds.isel(input=0)) == []
    odd = ds.isel(sublayer=slice(1, None))
    assert ("dilution" in plots.figures(odd), "variance" in plots.figures(odd)) == (False, True)
    for chosen, name in ((odd, "'sublayer'"), (ds.sel(site=["x_in"]), "'B_out'")):
        with pytest.raises(ValueError, match=f"'dilution'.*{name}"):
            plots.plot(chosen, "dilution")


def test_rcparams_of_the_caller_are_neither_used_nor_changed(ds):
    expected = pixels(plots.plot(ds, "variance"))
    own = {"axes.grid": False, "grid.color": "red", "xtick.labelsize": 30, "axes.titlesize": 40, "font.size": 20}
    with matplotlib.rc_context(own):
        before = matplotlib.rcParams.copy()
        plots.plot(ds, "variance", width=4)
        # ticks are made while drawing, outside of plot
        np.testing.assert_array_equal(pixels(plots.plot(ds, "variance")), expected)
        assert {k for k, v in before.items() if k != "backend" and matplotlib.rcParams[k] != v} == set()
    assert (style.PAGE, style.PANEL) == (7.0, 4.6)


def python(code, *words):
    """Returns the words that a new interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *map(str, words)], capture_output=True, text=True,
                          cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_imports_are_lazy_and_change_no_settings(stack, folder):
    heavy = "'matplotlib', 'xarray', 'netCDF4'"
    assert python(f"import sys, plots; print(*(name for name in ({heavy}) if name in sys.modules))") == []
    assert python("""if True:
        import sys, pathlib, importlib, matplotlib
        before = matplotlib.rcParams.copy()
        for path in sorted(pathlib.Path("plots").glob("*.py")):
            if path.stem != "__main__":
                importlib.import_module(f"plots.{path.stem}".removesuffix(".__init__"))
        from plots import plot, reader
        figure = plot(reader.read(pathlib.Path(sys.argv[1])))
        figure.savefig(sys.argv[2])
        get = dict.__getitem__  # reading the backend would choose one
        print(*(key for key in before if get(before, key) != get(matplotlib.rcParams, key)))
        print(*(name for name in ("matplotlib.pyplot", "plots.drawing") if name in sys.modules))
        """, stack, folder / "one.png") == ["plots.drawing"]
