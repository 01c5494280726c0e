"""Supervised training on weighted tokens: the clinic's base model and every SFT."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pcqc.progress import Progress
from pcqc.training.batching import micro_batches, pad, token_logprobs
from pcqc.training.state import ModelState, load_state, save_state


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
        max_gradient_norm: clipping.
        save_every: steps between resumable states.
        label: for progress.
        finished: losses so far -> whether to stop before all steps.
    """

    batch: Callable[[int, list[float]], Sequence[Example]]
    steps: int
    rate: Callable[[int, list[float]], float]
    tokens_per_micro_batch: int
    max_gradient_norm: float
    save_every: int
    label: str
    finished: Callable[[list[float]], bool] = lambda losses: False


def train_supervised(
    model, optimizers: Sequence[torch.optim.Optimizer], plan: Plan, state: Path
) -> Iterator[tuple[int, float]]:
    """Train, resuming from `state`; yields (finished steps, loss), those of a resumed run too.

    The state is saved after the caller has dealt with the step: what it keeps of a step is never
    missing from a resumed run.

    The loss of a step is the weighted mean over all its tokens, however they are split into
    micro-batches.
    """
    base_rates = [group["lr"] for one in optimizers for group in one.param_groups]
    parts = {"model": ModelState(model, optimizers)}
    cursor = load_state(state, parts) or {"step": 0, "losses": []}
    losses = cursor["losses"]
    yield from enumerate(losses, start=1)
    progress = Progress(plan.label, plan.steps, "step", done=len(losses))
    while len(losses) < plan.steps and not plan.finished(losses):
        step = len(losses)
        model.train()
        _set_rates(optimizers, base_rates, plan.rate(step, losses))
        loss = _step(model, optimizers, plan.batch(step, losses), plan)
        model.eval()
        losses.append(loss)
        progress.advance(loss=loss)
        yield step + 1, loss
        if len(losses) % plan.save_every == 0:
            cursor = {"step": len(losses), "losses": losses}
            save_state(state, parts, cursor)
    progress.close()


def _step(model, optimizers, examples: Sequence[Example], plan: Plan) -> float:
    total = sum(sum(example.weights) for example in examples)
    device = next(model.parameters()).device
    loss = 0.0
    for batch in micro_batches(examples, plan.tokens_per_micro_batch):
        weights = [np.array(example.weights) for example in batch]
        selected = [w > 0 for w in weights]
        logprobs = token_logprobs(model, pad(batch, selected, device))
        flat = np.concatenate([w[s] for w, s in zip(weights, selected, strict=True)])
        part = -(logprobs * torch.from_numpy(flat).float().to(device)).sum() / total
        part.backward()
        loss += float(part.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), plan.max_gradient_norm)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss


def _set_rates(optimizers, base_rates: Sequence[float], factor: float) -> None:
    groups = [group for one in optimizers for group in one.param_groups]
    for group, rate in zip(groups, base_rates, strict=True):
        group["lr"] = rate * factor
