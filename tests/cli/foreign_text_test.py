"""Control characters in text and names; interrupted text output; text files that are invalid or replaced while read."""

import errno
import json
import os
import pty
import select
import shutil
import signal
import subprocess

import pytest

from checkpoint_files import random_tensors, write_checkpoint, write_tensors
from program import CONFIG, dataset, differing, memory_limit, rejected, result, run, start

ESCAPE, SHOWN = "\x1b]0;owned\x07\x1b[2J", "\\x1b]0;owned\\x07\\x1b[2J"
PROMPT = ("--tokens", "65,66")


@pytest.fixture(autouse=True)
def model(folder):
    write_checkpoint(folder / "model")
    (folder / "prompt.txt").write_bytes(ESCAPE.encode() + "é\n".encode())


def test_names_are_escaped(folder):
    name = f"x{ESCAPE}\u202e.rotary_emb.inv_freq"  # an unused buffer
    tensors = random_tensors()
    write_tensors(folder / "model" / "model.safetensors", tensors | {name: tensors["model.norm.weight"]})
    shutil.copytree("model", f"model{ESCAPE}")
    info, missing = run("info", "model"), run("info", f"none{ESCAPE}", code=3)
    probed = run("probe", f"model{ESCAPE}", "--tokens", "1,2", "--no-theory")
    assert f"x{SHOWN}\\u202e.rotary_emb" in info.out and f"model{SHOWN}" in probed.err
    for done in (info, probed, missing):
        assert "\x1b" not in done.out + done.err
    assert run("info", "model", "--json").json["unused"] == [name], "JSON has the unescaped name"


def on_terminal(*words):
    """Returns the exit code, and standard output on a terminal."""
    master, slave = pty.openpty()
    process, shown = start(*words, stdout=slave, stderr=subprocess.DEVNULL), b""
    os.close(slave)
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError as error:
        if error.errno != errno.EIO:  # the last writer has closed the terminal
            raise
    os.close(master)
    return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")


def test_generated_bytes_are_escaped_on_a_terminal_only():
    done = run("generate", "model", "--text", "prompt.txt", "--count", 3)
    ids = [int(word) for word in done.err.splitlines()[-1].split()]
    assert done.out.encode(errors="surrogateescape") == bytes(ids) + b"\n"
    code, shown = on_terminal("generate", "model", "--text", "prompt.txt", "--count", 3)
    assert (code, shown.startswith(f"{SHOWN}é\n"), "\x1b" in shown) == (0, True, False), shown
    quiet = run("generate", "model", PROMPT, "--count", 1, "--quiet", "--json")
    assert (quiet.err, quiet.json["prompt_tokens"]) == ("", 2)


def test_without_a_tokenizer_ids_are_printed(folder):
    write_checkpoint(folder / "model", vocab=300)
    ids = run("generate", "model", PROMPT, "--count", 3, "--quiet", "--json").json["ids"]
    assert run("generate", "model", PROMPT, "--count", 3, "--quiet").out.split() == [str(i) for i in ids]


def test_interrupted_text_ends_its_line(folder):
    rejected("generate", "model", PROMPT, "--count", 2147483647, names="--count")
    process = start("generate", "model", PROMPT, "--count", 16000, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    shown = ""
    while len(shown) < 12:
        assert select.select([process.stdout], [], [], 60)[0], "text is printed while it is generated"
        shown += os.read(process.stdout.fileno(), 4096).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    shown += process.communicate(timeout=60)[0]
    assert (process.returncode, shown[:2], shown[-1]) == (130, "AB", "\n")
    write_checkpoint(folder / "model", changes={"model.norm.weight": (0, float("nan"))})
    assert run("generate", "model", PROMPT, "--count", 3, code=1).out == "AB\n"


def test_a_text_replaced_during_the_run_does_not_change_the_result(folder):
    text, other = folder / "text", folder / "other"
    first, second = b"the first text, of some bytes", b"A SECOND TEXT, OF SOME BYTES!"
    words = ("propagate", CONFIG, "input.kind=text", f"input.path={text}", "--seeds", 300, "theory.finite_width=false")
    text.write_bytes(second)
    unlike = result(*words)
    text.write_bytes(first)
    expected = result(*words)
    process = start(*words, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stderr.readline()  # progress: some seeds are done
    other.write_bytes(second)
    other.rename(text)
    assert process.poll() is None, "the run ended before the text was replaced"
    answer = json.loads(process.communicate(timeout=120)[0])
    assert differing(dataset(answer), expected) == set()
    hashes = [attrs["config_sha256"] for attrs in (answer["attrs"], expected.attrs, unlike.attrs)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.slow  # sanitizers do not support a limited address space
@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "/proc/self/status", "empty", ".", "loop", "missing",
                                  "/" + "x" * 5000], ids=lambda path: path[:20])
def test_invalid_text_files_are_rejected(path, folder):
    os.mkfifo("pipe")
    (folder / "empty").write_bytes(b"")
    (folder / "loop").symlink_to("loop")
    done = rejected("propagate", CONFIG, "input.kind=text", f"input.path={folder / path}", "--quiet", code=3,
                    before=memory_limit(2 << 30))
    assert done.err.startswith("periscope: input.path ")
