"""A small run of train, for the tests of that command."""

from periscope_process import FolderTest, run, run_result

WIDTH, LAYERS, TOKENS, VOCAB, STEPS, BATCH = 16, 2, 8, 40, 30, 4
SMALL = f"""
[model]
layers = {LAYERS}
width = {WIDTH}
heads = 2
kv_heads = 1
mlp_width = 24
vocab = {VOCAB}
placement = ["pre", "peri"]
[init]
scheme = "lecun"
[input]
tokens = {TOKENS}
[train]
steps = {STEPS}
batch = {BATCH}
record_every = 10
record_sequences = 2
"""
ONE = ("--set", "model.placement=peri")


class TrainTest(FolderTest):
    STACK = SMALL

    def command(self, *flags):
        return ["train", "--config", str(self.config), *map(str, flags)]

    def result(self, *flags):
        result, code = run_result(*self.command("--quiet", *flags))
        self.assertEqual(code, 0)
        return result

    def data(self, *flags):
        """Every number of a run, to be compared bit by bit."""
        return self.result(*flags).data()

    def refused(self, code, words, *flags):
        """Exit code and words of a message of one line."""
        done = run(*self.command(*flags))
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
