"""ATPO's critic: a model of its own with a value head, read where a state's prompt ends."""

from collections.abc import Sequence

import numpy as np
import torch

from pcqc.config import Rl, TreeSearch
from pcqc.errors import UserError
from pcqc.methods.tree_batch import ValueSequence
from pcqc.training.backend import MakeBackend, adamw_backend, laid_out, outputs
from pcqc.training.batching import Marked, Padded, hidden_states, picked


class ValueModel(torch.nn.Module):
    """A language model's body with one output per token.

    The head starts at zero: before it has learned, every state is worth nothing.
    """

    def __init__(self, body: torch.nn.Module):
        super().__init__()
        self.body = body
        self.head = torch.nn.Linear(body.config.hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.head.to(next(body.parameters()))

    def forward(self, padded: Padded) -> torch.Tensor:
        """Values [selected] at the selected tokens."""
        hidden = hidden_states(self.body, padded)
        return self.head(hidden[padded.rows, padded.columns])[:, 0].float()


class Critic:
    """V_psi with AdamW at a rate of its own (Appendix A.2).

    Args:
        body: model without its output layer, such as that of Shared SFT; trained in place.
        ending: number of tokens of the generation prompt that ends a state; V(s) is the mean of the
            outputs at them.
        tree: learning rate and clipping.
        rl: weight decay, gradient clipping, micro-batch size.
        backend: (module, learning rate, settings) -> what takes the optimiser steps.
    """

    def __init__(
        self,
        body: torch.nn.Module,
        ending: int,
        tree: TreeSearch,
        rl: Rl,
        backend: MakeBackend = adamw_backend,
    ):
        self.model = ValueModel(body)
        self.ending, self.tree, self.rl = ending, tree, rl
        self.backend = backend(self.model, tree.critic_learning_rate, rl)
        self.device = self.backend.device
        self.state = self.backend.state

    def values(self, states: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Outputs at the tokens that end each state, float64 [ending] each.

        What states of one call share is computed once, as far as a micro-batch holds it.
        """
        unique = list(dict.fromkeys(tuple(state) for state in states))
        items = [Marked(list(s), np.arange(len(s)) >= len(s) - self.ending) for s in unique]
        rows = outputs(self.backend, items, self.rl.tokens_per_micro_batch)
        found = dict(zip(unique, rows, strict=True))
        return [found[tuple(state)] for state in states]

    def update(self, sequences: Sequence[ValueSequence]) -> dict[str, float]:
        """Take one optimiser step towards the targets; the figures of it.

        The loss is the mean over all tokens that have a target, so that it depends neither on how
        the sequences are split into micro-batches nor on how they are dealt out to processes.

        Raises:
            UserError: the gradient is not finite; nothing has been changed.
        """
        count = float(sum(s.selected.sum() for s in sequences))
        total = 0.0
        budget = self.rl.tokens_per_micro_batch
        for members, selected, padded in laid_out(self.backend, sequences, budget):
            targets, old = (
                torch.from_numpy(picked(arrays, selected)).float().to(self.device)
                for arrays in ([m.targets for m in members], [m.old_values for m in members])
            )
            values = self.backend.forward(padded)
            loss = value_loss(values, old, targets, self.tree.critic_clip).sum() / count
            self.backend.backward(loss)
            total += float(loss.detach())
        norm = self.backend.step()
        if not np.isfinite(norm):
            raise UserError(
                "the critic's gradient is not finite; lower tree.critic_learning_rate and resume"
            )
        total = sum(self.backend.processes.gather(total))
        return {"critic/loss": total, "critic/gradient_norm": norm}


def value_loss(
    values: torch.Tensor, old_values: torch.Tensor, targets: torch.Tensor, clip: float
) -> torch.Tensor:
    """max((V - T)^2, (V_clipped - T)^2) of each token: V counts no further than `clip` from V_old.

    Args:
        values, old_values, targets: [tokens].
    """
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum((values - targets) ** 2, (clipped - targets) ** 2)
