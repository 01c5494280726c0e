"""Supervised fine-tuning on the assistant tokens of conversations (Appendix A.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from pcqc.config import Sft
from pcqc.errors import UserError
from pcqc.files import read_jsonl
from pcqc.methods.sequences import lay_out
from pcqc.seeds import generator
from pcqc.training.supervised import Example, Plan


@dataclass(frozen=True)
class Conversation:
    """A recorded conversation.

    Attributes:
        messages: system, user, assistant, user, ..., assistant; each {"role", "content"}.
        train: on `all` assistant messages, or on the `last` alone.
        facts: of the patient; where given, its answers are trained on too, from its own prompt.
    """

    messages: list[dict[str, str]]
    train: Literal["all", "last"] = "all"
    facts: tuple[str, ...] = ()


def read_conversations(path: Path) -> list[Conversation]:
    """Conversations of a JSONL file.

    Raises:
        UserError: a row whose messages do not alternate as system, user, assistant, user, ..., or
            whose `train` is another word.
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
        conversations.append(Conversation(messages, train, tuple(row.get("facts", ()))))
    if not conversations:
        raise UserError(f"{path}: holds no conversations; run the data rule again")
    return conversations


def _roles(messages: object) -> list[str | None]:
    """Role of each message, None for what is no message with a text."""
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
    per_epoch = steps_per_epoch(len(examples), settings)

    def batch(step: int, losses: list[float]) -> list[Example]:
        epoch, index = divmod(step, per_epoch)
        order = generator(settings.seed, "sft order", epoch).permutation(len(examples))
        chosen = order[index * settings.batch_size : (index + 1) * settings.batch_size]
        return [example for i in chosen for example in examples[int(i)]]

    return Plan(
        batch=batch,
        steps=per_epoch * settings.epochs,
        rate=lambda step, losses: 1.0,
        tokens_per_micro_batch=budget,
        max_gradient_norm=settings.max_gradient_norm,
        save_every=per_epoch,
        label=label,
    )


def steps_per_epoch(conversations: int, settings: Sft) -> int:
    """Updates in one pass over full batches, other conversations left over in each.

    So the paper's 4,157 conversations make 32 updates an epoch. Fewer than a batch make one update.
    """
    return max(1, conversations // settings.batch_size)


def sft_optimizer(model, settings: Sft) -> torch.optim.Optimizer:
    """AdamW as in Appendix A.2."""
    return torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )


def examples_of(turns: Sequence[tuple[list[int], list[int]]]) -> list[Example]:
    """Examples of a conversation; those that share their context are one, as in RL.

    Args:
        turns: token ids of each turn's state and of the response to train on.
    """
    examples = []
    for laid in lay_out(turns):
        weights = np.zeros(len(laid.tokens))
        for number, start in laid.starts.items():
            weights[start : start + len(turns[number][1])] = 1
        examples.append(Example(laid.tokens, weights.tolist()))
    return examples
