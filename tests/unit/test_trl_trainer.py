"""The example for TRL: the same consultations give the gradient of the repository's learner."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from helpers import make_tokenizer, tiny_model
from learner_material import gradients, learned
from scripted_methods import CASES, PCQC, draw

from pcqc.training.policy import Policy
from pcqc_study.settings import load_study

METHOD = dataclasses.replace(PCQC, kl_coefficient=0.0)
EXAMPLE = Path(__file__).parents[2] / "examples" / "trl"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    import from_pcqc
    import pcqc_trainer

    yield from_pcqc, pcqc_trainer
    for name in ("from_pcqc", "pcqc_trainer", "train_clinic"):
        sys.modules.pop(name, None)


def trainer_of(example, model, roll_out, folder: Path, rows: int, **settings):
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig

    class Kept(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **_):
            self.gradient = gradients(model)

    arguments = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": len(CASES) * rows,
        "num_generations": rows,
        "max_completion_length": 4096,
        "max_steps": 1,
        "max_grad_norm": 1e9,
        "beta": 0.0,
        "loss_type": "dapo",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return example[1].PCQCTrainer(
        roll_out,
        model=model,
        args=GRPOConfig(**{**arguments, **settings}),
        train_dataset=Dataset.from_dict({"prompt": [case.initial for case in CASES]}),
        processing_class=make_tokenizer(),
        callbacks=[Kept()],
    )


def gradient_of(trainer) -> torch.Tensor:
    trainer.train()
    (kept,) = (c for c in trainer.callback_handler.callbacks if hasattr(c, "gradient"))
    return kept.gradient


@pytest.mark.parametrize(
    "split", [{}, {"per_device_train_batch_size": 5, "gradient_accumulation_steps": 4}]
)
def test_the_same_consultations_give_the_same_gradient(example, tmp_path, split):
    """Two cases, two consultations each, four candidates at two states: A_T on all, A_Q on some.

    Where TRL deals the rows out to micro-batches, each term keeps its own count.
    """
    drawn, _ = draw(METHOD)
    ours, theirs = tiny_model(), tiny_model()
    settings = dataclasses.replace(load_study("clinic").rl, max_gradient_norm=1e9, gap_alarm=1e9)
    policy = Policy(ours, None, settings)
    _, own = learned(policy, drawn.sequences, METHOD.coefficients)
    roll_out = lambda prompts, trainer: example[0].rows_of(drawn.sequences, METHOD.coefficients)  # noqa: E731
    trainer = trainer_of(example, theirs, roll_out, tmp_path, rows=10, **split)
    difference = torch.linalg.norm(gradient_of(trainer) - own)
    assert difference < 1e-5 * torch.linalg.norm(own)
    assert torch.linalg.norm(own) > 0.1


@pytest.mark.slow  # the test before has the trainer's gradient; this one plays the clinic
def test_the_clinic_s_example_trains(example):
    """One update of four cases each; what it comes to in twelve is said in the package's README."""
    import train_clinic

    losses = []
    for name in ("pcqc", "terminal_only"):
        before, after, trainer = train_clinic.train(name, updates=1, cases=4, validation=4)
        assert {before, after} <= {0, 0.25, 0.5, 0.75, 1}
        assert trainer.state.global_step == 1
        losses.append(trainer.state.log_history[-1]["train_loss"])
    # The same consultations: the losses differ by the question term alone.
    assert losses[0] != losses[1]
    assert all(losses)


def test_too_few_rows_are_refused(example, tmp_path):
    drawn, _ = draw(METHOD)
    roll_out = lambda prompts, trainer: example[0].rows_of(drawn.sequences, METHOD.coefficients)  # noqa: E731
    trainer = trainer_of(example, tiny_model(), roll_out, tmp_path, rows=2)
    with pytest.raises(ValueError, match="rows for 4: raise num_generations"):
        trainer.train()


def test_a_loss_that_is_no_mean_over_tokens_is_refused(example, tmp_path):
    with pytest.raises(ValueError, match='"grpo" is no mean over tokens'):
        trainer_of(example, tiny_model(), None, tmp_path, rows=2, loss_type="grpo")
