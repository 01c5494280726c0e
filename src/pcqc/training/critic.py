"""ATPO's critic: a model of its own with a value head, read where a state's prompt ends."""

from collections.abc import Sequence

import numpy as np
import torch

from pcqc.config import Rl, TreeSearch
from pcqc.errors import UserError
from pcqc.methods.tree_batch import ValueSequence
from pcqc.training.backend import MakeBackend, TorchBackend, share
from pcqc.training.batching import Marked, Padded
from pcqc.training.trees import grow_trees, pad_trees


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
        hidden = self.body(
            input_ids=padded.ids,
            attention_mask=padded.attention(self.body.dtype),
            position_ids=padded.positions,
        ).last_hidden_state
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
        backend: MakeBackend = TorchBackend,
    ):
        self.model = ValueModel(body)
        self.ending, self.tree, self.rl = ending, tree, rl
        self.backend = backend(self.model, tree.critic_learning_rate, rl)
        self.device = self.backend.device
        self.state = self.backend.state

    @torch.no_grad()
    def values(self, states: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Outputs at the tokens that end each state, float64 [ending] each.

        What states of one call share is computed once, as far as a micro-batch holds it.
        """
        unique = dict.fromkeys(tuple(state) for state in states)
        items = [Marked(list(s), np.arange(len(s)) >= len(s) - self.ending) for s in unique]
        found: dict[tuple[int, ...], np.ndarray] = {}
        for members, padded in self._micro_batches(items):
            outputs = self.backend.forward(padded).double().cpu().numpy()
            rows = outputs.reshape(-1, self.ending)
            found |= {tuple(m.tokens): row for m, row in zip(members, rows, strict=True)}
        for part in self.backend.processes.gather(found):
            unique |= part
        return [unique[tuple(state)] for state in states]

    def update(self, sequences: Sequence[ValueSequence]) -> dict[str, float]:
        """Take one optimiser step towards the targets; the figures of it.

        The loss is the mean over all tokens that have a target, so that it depends neither on how
        the sequences are split into micro-batches nor on how they are dealt out to processes.

        Raises:
            UserError: the gradient is not finite; nothing has been changed.
        """
        count = float(sum(s.selected.sum() for s in sequences))
        total = 0.0
        for members, padded in self._micro_batches(sequences):
            targets, old = (
                torch.from_numpy(np.concatenate([np.empty(0), *parts])).float().to(self.device)
                for parts in (
                    [m.targets[m.selected] for m in members],
                    [m.old_values[m.selected] for m in members],
                )
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

    def _micro_batches(self, items):
        """Members of each micro-batch in the order of their selected tokens, and the batch."""
        budget = self.rl.tokens_per_micro_batch
        for trees in share(grow_trees(items, budget), budget, self.backend.processes):
            members = [member for tree in trees for member in tree.members]
            yield members, pad_trees(trees, [m.selected for m in members], self.device)


def value_loss(
    values: torch.Tensor, old_values: torch.Tensor, targets: torch.Tensor, clip: float
) -> torch.Tensor:
    """max((V - T)^2, (V_clipped - T)^2) of each token: V counts no further than `clip` from V_old.

    Args:
        values, old_values, targets: [tokens].
    """
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum((values - targets) ** 2, (clipped - targets) ** 2)
