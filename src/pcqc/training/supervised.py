"""Supervised training on weighted tokens: the clinic's base model and every SFT."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pcqc.training.backend import Backend, share
from pcqc.training.batching import pad, take_selected
from pcqc.training.state import States, load_state
from pcqc_base.errors import UserError
from pcqc_base.system.progress import Progress


@dataclass(frozen=True)
class Example:
    """Token ids with the weight of each in the loss; 0 is context."""

    tokens: list[int]
    weights: list[float]


@dataclass(frozen=True)
class Plan:
    """How to train.

    Attributes:
        batch: (step number from 0, losses of the steps before) -> examples of that step.
        steps: optimiser steps, at most.
        rate: (step, losses before) -> factor of the learning rate.
        tokens_per_micro_batch: budget of padded tokens.
        save_every: steps between resumable states.
        label: for progress.
        finished: losses so far -> whether to stop before all steps.
    """

    batch: Callable[[int, list[float]], Sequence[Example]]
    steps: int
    rate: Callable[[int, list[float]], float]
    tokens_per_micro_batch: int
    save_every: int
    label: str
    finished: Callable[[list[float]], bool] = lambda losses: False


# For a process that has fewer micro-batches than others.
PADDING = Example([0], [0.0])


def train_supervised(backend: Backend, plan: Plan, state: Path) -> Iterator[tuple[int, float]]:
    """Train, resuming from `state`; yields (finished steps, loss), also of steps before a resume.

    The state is saved only after the caller has handled the step, so a resumed run lacks nothing
    that the caller keeps.

    The loss of a step is the weighted mean over all its tokens, however they are split into
    micro-batches and dealt out to processes.

    Args:
        backend: a `TokenModel`'s.
        plan: the same in every process.
        state: folder of the resumable state.

    Raises:
        UserError: a gradient is not finite, in any process; nothing has been changed by it.
    """
    parts, processes = {"model": backend.state}, backend.processes
    states = States(state, parts, processes)
    cursor = load_state(state, parts, processes) or {"step": 0, "losses": []}
    losses = cursor["losses"]
    yield from enumerate(losses, start=1)
    progress = Progress(
        plan.label, plan.steps, "step", done=len(losses), silent=not processes.is_main
    )
    while len(losses) < plan.steps and not plan.finished(losses):
        step = len(losses)
        loss = _step(backend, plan.batch(step, losses), plan.rate(step, losses), plan)
        losses.append(loss)
        progress.advance(loss=loss)
        yield step + 1, loss
        if len(losses) % plan.save_every == 0:
            states.save({"step": len(losses), "losses": losses})
    states.finish()
    progress.close()


def _step(backend: Backend, examples: Sequence[Example], rate: float, plan: Plan) -> float:
    total, loss = sum(sum(example.weights) for example in examples), 0.0
    for batch in share(examples, plan.tokens_per_micro_batch, backend.processes, PADDING):
        weights = [np.array(example.weights) for example in batch]
        selected = [w > 0 for w in weights]
        logprobs = backend.forward(pad(batch, selected, backend.device))
        flat = torch.from_numpy(take_selected(weights, selected)).float().to(backend.device)
        part = -(logprobs * flat).sum() / total
        backend.backward(part)
        loss += float(part.detach())
    if not np.isfinite(backend.step(rate)):
        raise UserError(f"{plan.label}: the gradient is not finite; lower its learning_rate")
    return sum(backend.processes.gather(loss))
