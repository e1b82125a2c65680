"""Interrupts in a Jupyter notebook; text and tokenizers in Python."""

import json
import os
import shutil
import time

import pytest
import xarray as xr

from module import ps, rejected, run_module, settled
from program import FIXTURES, imported

kernels = imported("jupyter_client.manager", "notebooks/requirements.txt")
tokenizers = imported("tokenizers", "python/requirements.txt")

SMALL = {"model.layers": 2, "model.width": 32, "model.heads": 2, "input.tokens": 8, "run.seeds": 4}
# Settings of a run that takes minutes.
LONG = {"model.layers": 24, "model.width": 256, "model.heads": 4, "input.tokens": 128, "run.seeds": 64,
        "run.weights": "dense", "model.placement": ["pre", "peri"], "run.threads": 1}


def test_interrupting_a_cell_raises_keyboard_interrupt_in_a_live_kernel():
    manager, client = kernels.start_new_kernel(env=dict(os.environ))

    def reply(message):
        while (answer := client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != message:
            pass
        return answer["content"]

    try:
        reply(client.execute("import periscope as ps\nps.propagate"))
        for after in (0.3, 2.0):
            # By default, a kernel drops the queued cells if a cell fails.
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


WORDS = {"[UNK]": 0, "peri": 1, "norm": 2, "stream": 3}
IDS = [1, 2, 3, 2, 0]


@pytest.fixture
def model(folder):
    """A checkpoint with a tokenizer; the file "text" next to it has the token ids `IDS`."""
    shutil.copytree(FIXTURES / "llama", "model")
    (folder / "text").write_text("peri norm stream norm unknown")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save("model/tokenizer.json")
    return folder / "model"


def test_tokenizers_of_the_folder_and_of_python_give_equal_results(model, folder):
    expected = settled(ps.probe(model, tokens=IDS, no_theory=True))

    def check(**words):
        ds = ps.probe(model, **{"text": folder / "text", "no_theory": True} | words)
        xr.testing.assert_identical(settled(ds), expected)

    check()
    check(text="text")
    done = run_module("run", "probe", model, "--text", "text", "--no-theory", "--json")
    assert json.loads(done.stdout)["data_vars"]["token_id"]["data"] == IDS
    assert "model: llama" in done.stderr
    (model / "tokenizer.json").rename("another.json")
    for tokenizer in (folder / "another.json", tokenizers.Tokenizer.from_file("another.json"),
                      lambda text: [WORDS.get(word, 0) for word in text.split()],
                      lambda text: {"input_ids": IDS}, lambda text: {"input_ids": [IDS]}):
        check(tokenizer=tokenizer)


def test_invalid_texts_and_tokenizers_are_rejected(model, folder):
    (folder / "text").write_bytes(b"peri \xff")
    for words, kind, name in (
        ({"text": "text"}, ps.InputError, "byte 5"), ({"text": "no/such/file"}, ps.InputError, "no/such/file"),
        ({"text": "text", "tokens": [1]}, ps.ConfigError, "tokens"), ({"text": "a\0"}, ps.ConfigError, "U+0000"),
        ({"tokenizer": len}, ps.ConfigError, "text"),
        ({"text": __file__, "tokenizer": len}, ps.ConfigError, "token ids"),
        ({"text": __file__, "tokenizer": str.split}, ps.ConfigError, "tokenizer"),
    ):
        with rejected(name, kind):
            ps.probe(model, **words)
    (model / "tokenizer.json").write_text("{}")
    (folder / "text").write_text("peri")
    with rejected("tokenizer.json"):
        ps.probe(model, text="text")
