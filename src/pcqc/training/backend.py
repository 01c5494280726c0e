"""What takes optimiser steps: a module with its optimiser, in one process or in several."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from pcqc.training.batching import HasSelected, HasTokens, Padded, micro_batches
from pcqc.training.state import ModelState, Part
from pcqc.training.token_trees import TokenTree, merge_prefixes, pad_token_trees
from pcqc.training.tree_attention import padded_length
from pcqc_base.errors import UserError
from pcqc_base.settings import Rl, Sft
from pcqc_base.system.processes import SINGLE_PROCESS, Processes

T = TypeVar("T", bound=HasTokens)


class Backend(Protocol):
    """A module in training; every process of `processes` makes the same calls.

    Attributes:
        device: the module's inputs lie there.
        processes: that share the work.
        state: what a resumed run needs.
        unsharded: whether this process holds all of the module's weights between steps, so that an
            engine can use them as they are.
    """

    device: torch.device
    processes: Processes
    unsharded: bool

    @property
    def state(self) -> Part: ...

    def forward(self, padded: Padded) -> torch.Tensor:
        """The module's output on a micro-batch; in training, `backward` must follow."""

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of this process's part of the loss; the parts of all are summed."""

    def step(self, rate: float = 1.0) -> float:
        """Clip the gradient to its norm over all processes and take a step with it.

        Args:
            rate: factor of the learning rate.

        Returns:
            The norm before clipping; where it is not finite, no step was taken.
        """

    def frozen(self, module: torch.nn.Module) -> Callable[[Padded], torch.Tensor]:
        """Forward of another module, sharded like this one, but never trained."""

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and unsharded tensors of the weights, one after another.

        A tensor is valid until the next is asked for: a gathered weight is then freed.
        """

    def optimizer_on_host(self) -> AbstractContextManager[None]:
        """Inside it no step can be taken, and what only steps need is in the host's memory."""


# (module, learning rate, settings with weight decay and gradient clipping)
MakeBackend = Callable[[torch.nn.Module, float, Rl | Sft], Backend]


class TorchBackend:
    """A module and its optimisers in this process.

    Args:
        module: called with a micro-batch; trained in place.
        optimizers: each of some of its parameters, at the learning rate that it has now.
        max_gradient_norm: to which the norm over all parameters is clipped.

    Raises:
        UserError: the module is in bf16, which rounds most steps away.
    """

    unsharded = True
    processes = SINGLE_PROCESS

    def __init__(
        self,
        module: torch.nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        max_gradient_norm: float,
    ):
        dtype = next(module.parameters()).dtype
        if dtype.itemsize < torch.float32.itemsize:
            raise UserError(
                f"steps would round away in weights of {str(dtype).removeprefix('torch.')}: give "
                "the study a placement, whose learner keeps fp32 master weights "
                "(docs/deepspeed.md), or hold what is trained in float32"
            )
        self.module, self.optimizers = module, optimizers
        self.max_gradient_norm = max_gradient_norm
        self.groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self.learning_rates = [group["lr"] for group in self.groups]
        self.device = next(module.parameters()).device
        self.state = ModelState(module, optimizers)

    def forward(self, padded: Padded) -> torch.Tensor:
        """The module's output on a micro-batch."""
        return self.module(padded)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the loss's gradient."""
        loss.backward()

    def step(self, rate: float = 1.0) -> float:
        """Clip the gradient, take a step unless its norm is not finite, and return that norm."""
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.max_gradient_norm)
        if torch.isfinite(norm):
            for group, learning_rate in zip(self.groups, self.learning_rates, strict=True):
                group["lr"] = rate * learning_rate
            for optimizer in self.optimizers:
                optimizer.step()
        self.module.zero_grad(set_to_none=True)
        return float(norm)

    def frozen(self, module: torch.nn.Module) -> Callable[[Padded], torch.Tensor]:
        """The other module itself: nothing is sharded here."""
        return module

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and tensors of the weights."""
        return self.module.named_parameters()

    def optimizer_on_host(self) -> AbstractContextManager[None]:
        """Does nothing: here all stays where it is."""
        return nullcontext()


def adamw_backend(
    module: torch.nn.Module, learning_rate: float, settings: Rl | Sft
) -> TorchBackend:
    """AdamW in this process (app:pcqc_frozen_setup); see `MakeBackend`."""
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=learning_rate, weight_decay=settings.weight_decay
    )
    return TorchBackend(module, [optimizer], settings.max_gradient_norm)


def model_weights(backend: Backend) -> Iterator[tuple[str, torch.Tensor]]:
    """`Backend.weights` of a `TokenModel`, by the names that the model itself has for them."""
    return ((name.removeprefix("model."), tensor) for name, tensor in backend.weights())


def share(
    items: Sequence[T],
    budget: int,
    processes: Processes,
    padding: T,
    columns: Callable[[int], int] = int,
) -> list[list[T]]:
    """This process's micro-batches of an update.

    Items are dealt out largest first, each to the process with the fewest tokens so far. All
    processes have the same number of micro-batches, since sharded weights are gathered by all
    together: where a process has fewer, batches of `padding` fill up.

    Args:
        items: the whole update's, the same in every process.
        budget: padded tokens in a micro-batch, at most.
        processes: that share the work.
        padding: an item without a selected token.
        columns: see `micro_batches`.
    """
    parts: list[list[T]] = [[] for _ in range(processes.count)]
    tokens = [0] * processes.count
    for item in sorted(items, key=lambda item: -len(item.tokens)):
        least = tokens.index(min(tokens))
        parts[least].append(item)
        tokens[least] += len(item.tokens)
    batches = [list(micro_batches(part, budget, columns)) for part in parts]
    mine, most = batches[processes.rank], max(map(len, batches))
    return mine + [[padding] for _ in range(most - len(mine))]


def merged_micro_batches(
    backend: Backend, items: Sequence[HasSelected], budget: int
) -> Iterator[tuple[list[Any], list[np.ndarray], Padded]]:
    """This process's micro-batches of items, shared prefixes merged into token trees.

    Yields:
        Items, which tokens of each are selected, and the batch, in whose order both are.
    """
    merged, padding = merge_prefixes(items, budget, backend.device), TokenTree([0], [0])
    columns = partial(padded_length, device=backend.device)
    for trees in share(merged, budget, backend.processes, padding, columns):
        members: list[Any] = [member for tree in trees for member in tree.members]
        selected = [member.selected for member in members]
        yield members, selected, pad_token_trees(trees, selected, backend.device)


@torch.no_grad()
def outputs(backend: Backend, items: Sequence[HasSelected], budget: int) -> list[np.ndarray]:
    """The module's output at the selected tokens of each item, float64 [selected]."""
    numbers = {id(item): number for number, item in enumerate(items)}
    mine: dict[int, np.ndarray] = {}
    for members, selected, padded in merged_micro_batches(backend, items, budget):
        values = backend.forward(padded).double().cpu().numpy()
        parts = np.split(values, np.cumsum([s.sum() for s in selected], dtype=int))
        mine |= {numbers[id(m)]: part for m, part in zip(members, parts, strict=False)}
    shares = backend.processes.gather(mine)
    by_number = {number: part for share in shares for number, part in share.items()}
    return [by_number[number] for number in range(len(items))]
