"""A run in a Jupyter notebook: interrupting a cell, and the progress bar; text through tokenizers of Python."""

import json
import os
import re
import shutil
import time

import pytest
import xarray as xr

from module import door, ps, refused, settled
from program import FIXTURES, imported

kernels = imported("jupyter_client.manager", "notebooks/requirements.txt")
nbclient = imported("nbclient", "notebooks/requirements.txt")
v4 = imported("nbformat.v4", "notebooks/requirements.txt")
tokenizers = imported("tokenizers", "python/requirements.txt")

SMALL = {"model.layers": 2, "model.width": 32, "model.heads": 2, "input.tokens": 8, "run.seeds": 4}
WIDGET = "application/vnd.jupyter.widget-view+json"
# Some minutes of work.
LONG = {"model.layers": 24, "model.width": 256, "model.heads": 4, "input.tokens": 128, "run.seeds": 64,
        "run.weights": "dense", "model.placement": ["pre", "peri"], "run.threads": 1}


def test_an_interrupted_cell_is_a_keyboard_interrupt_and_the_kernel_goes_on():
    manager, client = kernels.start_new_kernel(env=dict(os.environ))

    def reply(message):
        while (answer := client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != message:
            pass
        return answer["content"]

    try:
        reply(client.execute("import periscope as ps\nps.propagate"))
        for after in (0.3, 2.0):
            # The kernel would drop what is sent soon after an error, as the rest of "run all".
            message = client.execute(f"print('begins', flush=True)\nds = ps.propagate({LONG!r})", stop_on_error=False)
            while "begins" not in client.get_iopub_msg(timeout=60)["content"].get("text", ""):
                pass
            time.sleep(after)
            sent = time.monotonic()
            manager.interrupt_kernel()
            answer = reply(message)
            assert time.monotonic() - sent < 2.0
            assert (answer["status"], answer.get("ename")) == ("error", "KeyboardInterrupt")
            again = client.execute(f"again = ps.propagate({SMALL!r})\nassert 'ds' not in globals()")
            assert reply(again)["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_progress_shows_a_bar():
    cell = v4.new_code_cell(f"import periscope as ps\nds = ps.propagate({SMALL!r}, progress=True)")
    nbclient.NotebookClient(v4.new_notebook(cells=[cell]), timeout=60).execute()
    shown = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    assert not [output for output in cell.outputs if output.output_type == "error"]
    assert "Warning" not in shown
    widgets = [output for output in cell.outputs if WIDGET in output.get("data", {})]
    assert widgets or re.search(r"propagate .*█ +100%", shown), shown  # text without ipywidgets


WORDS = {"[UNK]": 0, "peri": 1, "norm": 2, "stream": 3}
IDS = [1, 2, 3, 2, 0]


@pytest.fixture
def model(folder):
    """A folder with a checkpoint and its tokenizer; the text `IDS` is beside it."""
    shutil.copytree(FIXTURES / "llama", "model")
    (folder / "text").write_text("peri norm stream norm unknown")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save("model/tokenizer.json")
    return folder / "model"


def test_the_folders_tokenizer_or_another_reads_the_text(model, folder):
    expected = settled(ps.probe(model, tokens=IDS, no_theory=True))

    def check(**words):
        ds = ps.probe(model, **{"text": folder / "text", "no_theory": True} | words)
        xr.testing.assert_identical(settled(ds), expected)

    check()
    check(text="text")
    done = door("run", "probe", model, "--text", "text", "--no-theory", "--json")
    assert json.loads(done.stdout)["data_vars"]["token_id"]["data"] == IDS
    assert "model: llama" in done.stderr
    (model / "tokenizer.json").rename("another.json")
    for tokenizer in (folder / "another.json", tokenizers.Tokenizer.from_file("another.json"),
                      lambda text: [WORDS.get(word, 0) for word in text.split()],
                      lambda text: {"input_ids": IDS}, lambda text: {"input_ids": [IDS]}):
        check(tokenizer=tokenizer)


def test_what_is_no_text_is_refused(model, folder):
    (folder / "text").write_bytes(b"peri \xff")
    for words, kind, name in (
        ({"text": "text"}, ps.InputError, "byte 5"), ({"text": "no/such/file"}, ps.InputError, "no/such/file"),
        ({"text": "text", "tokens": [1]}, ps.ConfigError, "tokens"), ({"text": "a\0"}, ps.ConfigError, "U+0000"),
        ({"tokenizer": len}, ps.ConfigError, "text"),
        ({"text": __file__, "tokenizer": len}, ps.ConfigError, "token ids"),
        ({"text": __file__, "tokenizer": str.split}, ps.ConfigError, "tokenizer"),
    ):
        with refused(name, kind):
            ps.probe(model, **words)
    (model / "tokenizer.json").write_text("{}")
    (folder / "text").write_text("peri")
    with refused("tokenizer.json"):
        ps.probe(model, text="text")
