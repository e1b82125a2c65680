"""Records in the training loops of transformers and Lightning, and their numbers for loggers."""

import json

import numpy as np

from module import ps, python
from program import imported
from torch_models import t, torch

REQUIREMENTS = "python/requirements-torch.txt"
DATA = [{"input_ids": ids, "labels": ids} for ids in torch.arange(96).reshape(8, 12) % 64]


def gpt2():
    torch.manual_seed(1)
    return t.GPT2LMHeadModel(t.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64))


def test_the_trainer_ends_steps_and_loggers_get_numbers(tmp_path):
    """Two micro-batches per step; an evaluation between steps is not recorded."""
    imported("accelerate", REQUIREMENTS)
    imported("tensorboard", REQUIREMENTS)
    from torch.utils.tensorboard import SummaryWriter

    model, losses = gpt2(), []
    model.register_forward_hook(lambda m, _, output: losses.append(float(output.loss)) if m.training else None)
    arguments = t.TrainingArguments(str(tmp_path / "run"), per_device_train_batch_size=1, gradient_accumulation_steps=2,
                                    max_steps=4, eval_strategy="steps", eval_steps=1, use_cpu=True, report_to=[],
                                    save_strategy="no", disable_tqdm=True)
    with open(tmp_path / "records.jsonl", "w") as file, SummaryWriter(str(tmp_path / "board")) as writer:
        def log(step, ds):
            file.write(json.dumps({"step": step, **ps.scalars(ds)}) + "\n")
            for name, value in ps.scalars(ds).items():
                writer.add_scalar(name, value, step)

        with ps.record(model, every=2, on_record=log) as recorder:
            t.Trainer(model, arguments, train_dataset=DATA, eval_dataset=DATA,
                      callbacks=[ps.trainer_callback(recorder)]).train()
    assert list(recorder.datasets) == [0, 2]
    # The Trainer divides the sum over a micro-batch's 11 labels by the 24 tokens of the step.
    np.testing.assert_allclose(recorder.dataset.loss * 11 / 24, [losses[0], losses[4]], rtol=1e-5)
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2]
    assert lines[1]["second_moment_measured/depth=4"] == recorder.datasets[2].second_moment_measured[4]
    assert lines[1]["weight_grad_sq_measured/weight=down,layer=1"] > 0 and list(tmp_path.glob("board/*"))
    assert set(ps.scalars(recorder.datasets[0], "loss", "growth_violated")) == {"loss", "growth_violated"}


def test_lightning_ends_steps(tmp_path):
    lightning = imported("lightning.pytorch", REQUIREMENTS)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = gpt2()

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Module()
    with ps.record(module.model, every=2) as recorder:
        lightning.Trainer(max_epochs=2, accumulate_grad_batches=2, accelerator="cpu", logger=False, barebones=False,
                          enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                          default_root_dir=tmp_path, callbacks=[ps.lightning_callback(recorder)]).fit(
                              module, torch.utils.data.DataLoader(DATA, batch_size=2))
    assert list(recorder.datasets) == [0, 2]  # 4 batches per epoch make 2 steps
    assert not recorder.dataset.second_moment_measured.isel(step=0).equals(
        recorder.dataset.second_moment_measured.isel(step=1))


def test_the_package_imports_no_training_library():
    python("import sys; ps.trainer_callback, ps.lightning_callback, ps.scalars, ps.record; "
           "assert not {'torch', 'transformers', 'lightning', 'pytorch_lightning'} & set(sys.modules)")
