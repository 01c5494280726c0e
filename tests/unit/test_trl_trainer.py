"""The adapter for TRL: the gradient is that of the terms' own means, in every layout of rows."""

import dataclasses
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import plain_logprobs, tiny_model
from learner_material import learned
from scripted_methods import CASES, PCQC, draw
from trl_trainer import LAYOUTS, batch, by_hand, gradient_of, of_cases, trained, trainer_of

from pcqc.training.policy import Policy
from pcqc_study.study_file import load_study
from turn_credit import Term
from turn_credit.adapters.trl import Rows, joined

METHOD = dataclasses.replace(PCQC, kl_coefficient=0.0)
EXAMPLE = Path(__file__).parents[2] / "examples" / "trl"
PROMPTS = [case.initial for case in CASES]


def same(gradient, other) -> bool:
    return bool(torch.linalg.norm(gradient - other) < 1e-5 * torch.linalg.norm(other))


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield lambda name: __import__(name)
    for name in ("from_pcqc", "train_clinic"):
        sys.modules.pop(name, None)


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
    rows = example("from_pcqc").rows_of(drawn.sequences, METHOD.coefficients)
    trainer = trainer_of(theirs, lambda *_: rows, tmp_path, PROMPTS, rows=10, **split)
    assert same(gradient_of(trainer), own)
    assert torch.linalg.norm(own) > 0.1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("multiple", [None, 16])
def test_every_layout_has_the_gradient_of_its_terms(layout, multiple, tmp_path):
    """Rows are ragged: TRL pads prompts on the left, completions on the right, or both further."""
    own = by_hand(batch(layout, "odd"))
    assert torch.linalg.norm(own) > 1
    assert same(trained(layout, "odd", 1, tmp_path, pad_to_multiple_of=multiple), own)


@pytest.mark.slow  # the test before has the trainer's gradient; this one plays the clinic
def test_the_clinic_s_example_trains(example):
    """One update of four cases each; what it comes to in twelve is said in the package's README."""
    losses = []
    for name in ("pcqc", "terminal_only"):
        before, after, trainer = example("train_clinic").train(
            name, updates=1, cases=4, validation=4
        )
        assert {before, after} <= {0, 0.25, 0.5, 0.75, 1}
        assert trainer.state.global_step == 1
        losses.append(trainer.state.log_history[-1]["train_loss"])
    # The same consultations: the losses differ by the question term alone.
    assert losses[0] != losses[1]
    assert all(losses)


def test_more_rows_than_trl_asked_for_are_trained_all_the_same(tmp_path):
    with pytest.warns(UserWarning, match="rows, and TRL asked each process for 6"):
        gradient = trained("ragged", "fewer rows than cases have", 1, tmp_path)
    assert same(gradient, by_hand(batch("ragged", "odd")))


def test_an_update_without_any_row_changes_nothing(tmp_path):
    trainer = trainer_of(tiny_model(), lambda *_: Rows([], [], {}, []), tmp_path, "01", rows=2)
    assert not gradient_of(trainer).any()


def on_vllm(trainer, mode: str) -> None:
    """As with `use_vllm`, whose engine this trainer's rollouts need not ask."""
    trainer.use_vllm, trainer._last_loaded_step = True, -1
    trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    trainer.vllm_importance_sampling_mode = mode


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_rows_without_log_probabilities_are_not_corrected_for_the_engine(mode, tmp_path):
    cases = batch("ragged", "odd")
    trainer = trainer_of(tiny_model(), of_cases(cases), tmp_path, "012", rows=4)
    on_vllm(trainer, mode)
    with pytest.warns(UserWarning, match="rows without logprobs: not corrected for the engine"):
        assert same(gradient_of(trainer), by_hand(cases))


def test_log_probabilities_of_the_engine_correct_the_rows_that_have_them(tmp_path):
    """One row's engine gave its tokens e^-1 of the learner's probability: at most 2 counts."""
    cases = batch("no candidates", "odd")
    first, model = cases[0], tiny_model()
    prompt, completion = first.prompts[0], first.completions[0]
    learner = plain_logprobs(model, [*prompt, *completion])[len(prompt) - 1 : -1]
    own = learner.gather(1, torch.tensor(completion)[:, None])[:, 0] - 1
    logprobs = [own.tolist(), *[None] * (len(first.completions) - 1)]
    told = [dataclasses.replace(first, logprobs=logprobs), *cases[1:]]
    trainer = trainer_of(model, of_cases(told), tmp_path, "012", rows=4)
    on_vllm(trainer, "token_truncate")
    trainer.vllm_importance_sampling_clip_max = 2.0
    # The row's credits count e times, cut at 2.
    term = first.terms["terminal"]
    twice = [v * (2 if s[0] == 0 else 1) for s, v in zip(term.spans, term.values, strict=True)]
    doubled = dataclasses.replace(
        first, terms={"terminal": dataclasses.replace(term, credits=twice)}
    )
    assert math.e > 2
    assert same(gradient_of(trainer), by_hand([doubled, *cases[1:]]))


def test_evaluation_has_a_group_size_of_its_own(tmp_path):
    cases, asked = batch("ragged", "odd"), []

    def roll_out(prompts, trainer):
        asked.append([*prompts])
        return of_cases(cases)(prompts, trainer)

    trainer = trainer_of(
        tiny_model(),
        roll_out,
        tmp_path,
        "012",
        rows=4,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
    )
    told = trainer.evaluate()
    assert sorted(prompt for prompts in asked for prompt in prompts) == ["0", "1", "2"]
    assert [len(prompts) for prompts in asked] == [2, 1]
    assert math.isfinite(told["eval_loss"])
    # Groups that a batch cuts apart are no cases.
    trainer.args.per_device_eval_batch_size = 3
    with pytest.raises(ValueError, match="a batch of 3 rows is not 2 of each case; set per_device"):
        trainer.evaluate()


@pytest.mark.parametrize("layout", ["cut within a turn", "cut after an answer"])
def test_rows_that_were_cut_off_are_left_out_where_that_is_asked_for(layout, tmp_path):
    """TRL's own rule leaves out every row without an end token: here all."""
    cases = batch(layout, "odd")
    gradient = trained(layout, "odd", 1, tmp_path, mask_truncated_completions=True)
    assert same(gradient, by_hand([case.without_truncated() for case in cases]))
    assert not same(gradient, by_hand(cases))
    silent = [dataclasses.replace(case, truncated=None) for case in cases]
    trainer = trainer_of(
        tiny_model(), of_cases(silent), tmp_path, "012", rows=4, mask_truncated_completions=True
    )
    with pytest.raises(ValueError, match=r"say which rows were cut off, Rows\(truncated="):
        trainer.train()


def test_a_loss_that_is_no_mean_over_tokens_is_refused(tmp_path):
    with pytest.raises(ValueError, match='"grpo" is no mean over tokens'):
        trainer_of(tiny_model(), None, tmp_path, PROMPTS, rows=2, loss_type="grpo")


ONE = {"prompts": [[1]], "completions": [[2, 3]], "terms": {}, "reward": [1.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": []}, "0 reward for 1 completions"),
        ({"terms": [Term([(0, 0, 1)], [1.0])]}, "terms have names"),
        ({"prompts": [[]]}, "row 0 has an empty prompt or completion; leave it out"),
        ({"completions": [[]]}, "row 0 has an empty prompt or completion"),
        ({"logprobs": [[-1.0]]}, "row 0 has 1 log-probabilities for 2 tokens; give None"),
        ({"truncated": [True, False]}, "2 truncated for 1 completions"),
    ],
)
def test_rows_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Rows(**{**ONE, **changes})


def test_a_span_beyond_its_own_row_is_refused(tmp_path):
    """A longer row is in the batch, so that padding would hide it."""
    rows = Rows([[4], [5]], [[6, 7], [6, 7, 8, 9]], {"x": Term([(0, 1, 4)], [1.0])}, [None, None])
    trainer = trainer_of(tiny_model(), lambda *_: rows, tmp_path, "0", rows=2)
    with pytest.raises(ValueError, match="leaves a batch whose row 0 has 2 tokens"):
        trainer.train()


def test_a_term_has_one_weight():
    parts = [Rows(**{**ONE, "terms": {"x": Term([(0, 0, 1)], [1.0], w)}}) for w in (1.0, 2.0)]
    with pytest.raises(ValueError, match=r"term 'x' has weight 1.0 and 2.0; give it one"):
        joined(parts)
