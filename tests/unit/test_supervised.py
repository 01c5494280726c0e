"""Supervised training: what is learned from, and exact resumption."""

import json

import numpy as np
import pytest
import torch
from helpers import plain_logprobs, tiny_model

from pcqc.config import Sft
from pcqc.errors import UserError
from pcqc.training.backend import adamw_backend
from pcqc.training.batching import TokenModel
from pcqc.training.order import batches_per_pass
from pcqc.training.sft import (
    Conversation,
    examples_of,
    read_conversations,
    sft_plan,
)
from pcqc.training.supervised import Example, train_supervised

SETTINGS = Sft(epochs=3, patient_epochs=1, batch_size=3, learning_rate=1e-2, seed=4)


def examples(count: int = 8) -> list[list[Example]]:
    """Conversations of one or two sequences, the second half of each to be learned."""
    rng = np.random.default_rng(1)
    made = []
    for i in range(count):
        parts = [rng.integers(3, 120, int(n)).tolist() for n in rng.integers(6, 30, 1 + i % 2)]
        halves = [len(tokens) // 2 for tokens in parts]
        made.append(
            [
                Example(t, [0.0] * h + [1.0] * (len(t) - h))
                for t, h in zip(parts, halves, strict=True)
            ]
        )
    return made


def train(state, *, seed=0, stop_after=None, budget=100):
    """Train a fresh model; (finished steps, losses, weights)."""
    model = tiny_model(seed)
    backend = adamw_backend(TokenModel(model), SETTINGS.learning_rate, SETTINGS)
    plan = sft_plan(examples(), SETTINGS, "test", budget)
    seen = []
    for step, loss in train_supervised(backend, plan, state):
        seen.append((step, loss))
        if step == stop_after:
            break
    return seen, model.state_dict()


def test_an_epoch_is_full_batches_of_different_conversations_in_a_new_order():
    made = examples()
    plan = sft_plan(made, SETTINGS, "test", 100)
    steps = len(made) // SETTINGS.batch_size
    assert steps == plan.steps / SETTINGS.epochs
    owner = {id(example): number for number, c in enumerate(made) for example in c}
    epochs = []
    for epoch in range(2):
        batches = [plan.batch(steps * epoch + step, []) for step in range(steps)]
        seen = [{owner[id(e)] for e in batch} for batch in batches]
        assert all(len(conversations) == SETTINGS.batch_size for conversations in seen)
        assert len(set().union(*seen)) == steps * SETTINGS.batch_size
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    again = sft_plan(made, SETTINGS, "test", 100)
    assert [id(e) for e in plan.batch(1, [])] == [id(e) for e in again.batch(1, [])]


def test_the_steps_of_the_paper_and_of_less_than_a_batch():
    assert batches_per_pass(4157, 128) == 32
    assert batches_per_pass(5, 128) == 1
    assert 2 * batches_per_pass(14256, 128) == 222


def test_the_loss_is_the_mean_over_all_learned_tokens(tmp_path):
    seen, _ = train(tmp_path / "a")
    batch = sft_plan(examples(), SETTINGS, "test", 100).batch(0, [])
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


@pytest.mark.parametrize("stop_after", [1, 3, 4, 5])
def test_a_stopped_training_ends_where_an_uninterrupted_one_does(tmp_path, stop_after):
    straight, expected = train(tmp_path / "straight")
    train(tmp_path / "stopped", stop_after=stop_after)
    resumed, found = train(tmp_path / "stopped", seed=9 if stop_after > 3 else 0)
    assert resumed == straight
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_finished_training_is_not_repeated(tmp_path):
    straight, expected = train(tmp_path)
    again, found = train(tmp_path, seed=9)
    assert again == straight
    assert all(torch.equal(expected[name], found[name]) for name in expected)


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
        [*GOOD, message("assistant"), message("user")],
        ["system", "user", "assistant"],
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


def test_no_conversations_are_refused(tmp_path):
    path = tmp_path / "sft.jsonl"
    path.write_text("\n")
    with pytest.raises(UserError, match="holds no conversations"):
        read_conversations(path)
