"""Supervised fine-tuning on the assistant tokens of conversations (app:pcqc_frozen_setup)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pcqc.cases.order import batch_of_step, batches_per_pass
from pcqc.training.supervised import Example, Plan
from pcqc.training.training_sequence import pack_turns
from pcqc_base.errors import UserError
from pcqc_base.settings import Sft
from pcqc_base.system.files import read_jsonl


@dataclass(frozen=True)
class Conversation:
    """A recorded conversation.

    Attributes:
        messages: system, user, assistant, user, ..., assistant; each {"role", "content"}.
        train: on `all` assistant messages, or on the `last` alone.
        facts: the patient's; where given, its answers are trained on too, from its own prompt.
    """

    messages: list[dict[str, str]]
    train: Literal["all", "last"] = "all"
    facts: tuple[str, ...] = ()


def read_conversations(path: Path) -> list[Conversation]:
    """Conversations of a JSONL file.

    Raises:
        UserError: a row whose messages do not alternate as system, user, assistant, user, ...,
            whose `train` is another word, or whose `facts` are no list of texts.
    """
    conversations = []
    for line, row in read_jsonl(path):
        messages, train = row.get("messages"), row.get("train", "all")
        roles = _roles(messages)
        expected = ["system", *["user", "assistant"] * (len(roles) // 2)]
        if len(roles) < 3 or roles != expected:
            raise UserError(
                f"{path}, line {line}: 'messages' must be system, user, assistant, user, ... and "
                "end with the assistant; fix or remove the row"
            )
        if train not in ("all", "last"):
            raise UserError(f"{path}, line {line}: 'train' must be all or last; fix the row")
        facts = row.get("facts", [])
        if not isinstance(facts, list) or not all(isinstance(fact, str) for fact in facts):
            raise UserError(f"{path}, line {line}: 'facts' must be a list of strings; fix the row")
        conversations.append(Conversation(messages, train, tuple(facts)))
    if not conversations:
        raise UserError(f"{path}: holds no conversations; run the data rule again")
    return conversations


def _roles(messages: object) -> list[str | None]:
    """Role of each message; None for an entry that is not a message with a text."""
    if not isinstance(messages, list):
        return []
    return [
        m.get("role") if isinstance(m, dict) and isinstance(m.get("content"), str) else None
        for m in messages
    ]


def sft_plan(examples: Sequence[Sequence[Example]], settings: Sft, label: str, budget: int) -> Plan:
    """Epochs over conversations, shuffled anew in each, at a constant learning rate.

    Args:
        examples: per conversation its examples.
        settings: epochs, batch size (in conversations), seed.
        label: for progress.
        budget: tokens per micro-batch.
    """
    count, size = len(examples), settings.batch_size
    per_epoch = batches_per_pass(count, size)

    def batch(step: int, losses: list[float]) -> list[Example]:
        chosen = batch_of_step(step, count, size, settings.seed, "sft order")
        return [example for i in chosen for example in examples[i]]

    return Plan(
        batch=batch,
        steps=per_epoch * settings.epochs,
        rate=lambda step, losses: 1.0,
        tokens_per_micro_batch=budget,
        save_every=per_epoch,
        label=label,
    )


def examples_of(turns: Sequence[tuple[list[int], list[int]]]) -> list[Example]:
    """Examples of a conversation; turns that share their context are one example, as in RL.

    Args:
        turns: token ids of each turn's state and of the response to train on.
    """
    examples = []
    for packed in pack_turns(turns):
        weights = np.zeros(len(packed.tokens))
        for number, start in packed.starts.items():
            weights[start : start + len(turns[number][1])] = 1
        examples.append(Example(packed.tokens, weights.tolist()))
    return examples
