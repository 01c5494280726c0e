"""Supervised training: what is learned from, and exact resumption."""

import json

import pytest
import torch
from helpers import plain_logprobs, tiny_model
from learner_material import SFT, examples

from pcqc.cases.order import batches_per_pass
from pcqc.training.backend import adamw_backend
from pcqc.training.batching import TokenModel
from pcqc.training.sft import (
    Conversation,
    examples_of,
    read_conversations,
    sft_plan,
)
from pcqc.training.supervised import Example, train_supervised
from pcqc_base.errors import UserError


def train(state, *, seed=0, stop_after=None, budget=100):
    """Train a fresh model; (finished steps, losses, weights)."""
    model = tiny_model(seed)
    backend = adamw_backend(TokenModel(model), SFT.learning_rate, SFT)
    plan = sft_plan(examples(), SFT, "test", budget)
    seen = []
    for step, loss in train_supervised(backend, plan, state):
        seen.append((step, loss))
        if step == stop_after:
            break
    return seen, model.state_dict()


def test_an_epoch_is_full_batches_of_different_conversations_in_a_new_order():
    made = examples()
    plan = sft_plan(made, SFT, "test", 100)
    steps = len(made) // SFT.batch_size
    assert steps == plan.steps / SFT.epochs
    owner = {id(example): number for number, c in enumerate(made) for example in c}
    epochs = []
    for epoch in range(2):
        batches = [plan.batch(steps * epoch + step, []) for step in range(steps)]
        seen = [{owner[id(e)] for e in batch} for batch in batches]
        assert all(len(conversations) == SFT.batch_size for conversations in seen)
        assert len(set().union(*seen)) == steps * SFT.batch_size
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    again = sft_plan(made, SFT, "test", 100)
    assert [id(e) for e in plan.batch(1, [])] == [id(e) for e in again.batch(1, [])]


def test_the_steps_of_the_paper_and_of_less_than_a_batch():
    assert batches_per_pass(4157, 128) == 32
    assert batches_per_pass(5, 128) == 1
    assert 2 * batches_per_pass(14256, 128) == 222


def test_the_loss_is_the_mean_over_all_learned_tokens(tmp_path):
    seen, _ = train(tmp_path / "a")
    batch = sft_plan(examples(), SFT, "test", 100).batch(0, [])
    total, weight = 0.0, 0.0
    for example in batch:
        rows = plain_logprobs(tiny_model(0), example.tokens)
        for i, (token, w) in enumerate(zip(example.tokens, example.weights, strict=True)):
            if w:
                total -= w * float(rows[i - 1, token])
                weight += w
    assert seen[0][1] == pytest.approx(total / weight, rel=1e-5)


def test_training_lowers_the_loss_and_does_not_depend_on_micro_batches(tmp_path):
    small, _ = train(tmp_path / "a", budget=1)
    large, _ = train(tmp_path / "b", budget=10000)
    assert [step for step, _ in small] == [1, 2, 3, 4, 5, 6]
    assert [loss for _, loss in small] == pytest.approx([loss for _, loss in large], rel=1e-3)
    assert small[-1][1] < small[0][1]


@pytest.mark.parametrize("stop_after", [1, 3, 5, None])
def test_a_stopped_training_ends_where_an_uninterrupted_one_does(tmp_path, stop_after):
    """From the third step on there is a state to resume from; the last run had finished."""
    straight, expected = train(tmp_path / "straight")
    train(tmp_path / "stopped", stop_after=stop_after)
    resumed, weights = train(tmp_path / "stopped", seed=0 if stop_after in (1, 3) else 9)
    assert resumed == straight
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


def test_weights_in_bfloat16_are_refused():
    """At the learning rate of SFT, nearly all steps would be smaller than their spacing."""
    model = TokenModel(tiny_model(0).to(torch.bfloat16))
    with pytest.raises(UserError, match="steps would round away in weights of bfloat16: give"):
        adamw_backend(model, SFT.learning_rate, SFT)


def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path):
    model = tiny_model(0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    backend = adamw_backend(TokenModel(model), SFT.learning_rate, SFT)
    endless = [[Example([5, 6, 7], [0.0, 1.0, float("inf")])]]
    plan = sft_plan(endless, SFT, "sft", 100)
    with pytest.raises(UserError, match="sft: the gradient is not finite; lower its learning_rate"):
        next(train_supervised(backend, plan, tmp_path))
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_turns_that_continue_share_a_sequence():
    first, second = ([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6])
    (example,) = examples_of([first, second])
    assert example == Example([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1])
    apart = examples_of([first, ([1, 2, 4, 5], [6])])
    assert apart == [Example([1, 2, 3, 4], [0, 0, 1, 1]), Example([1, 2, 4, 5, 6], [0, 0, 0, 0, 1])]


def message(role, content="x"):
    return {"role": role, "content": content}


GOOD = [message("system"), message("user"), message("assistant")]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        GOOD[:2],
        [*GOOD, message("user")],
        [GOOD[1], GOOD[0], GOOD[2]],
        [*GOOD[:2], {"role": "assistant"}],
        [*GOOD[:2], message("assistant", None)],
    ],
)
def test_bad_conversations_name_file_and_line(tmp_path, messages):
    path = tmp_path / "sft.jsonl"
    rows = [{"messages": GOOD}, {"messages": messages}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"sft.jsonl, line 2: 'messages' must be system, user"):
        read_conversations(path)
    path.write_text(json.dumps({"messages": GOOD}))
    assert read_conversations(path) == [Conversation(GOOD)]


@pytest.mark.parametrize("facts", [None, "No cough.", {"a": "b"}, ["No cough.", 1]])
def test_facts_that_are_no_list_of_texts_are_refused(tmp_path, facts):
    path = tmp_path / "sft.jsonl"
    path.write_text(json.dumps({"messages": GOOD, "facts": facts}))
    with pytest.raises(UserError, match=r"sft.jsonl, line 1: 'facts' must be a list of strings"):
        read_conversations(path)


def test_no_conversations_are_refused(tmp_path):
    path = tmp_path / "sft.jsonl"
    path.write_text("\n")
    with pytest.raises(UserError, match="holds no conversations"):
        read_conversations(path)
