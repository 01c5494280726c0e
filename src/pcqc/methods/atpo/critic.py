"""ATPO's critic V_psi: a value model read where a state's prompt ends."""

from collections.abc import Sequence

import numpy as np
import torch

from pcqc.methods.atpo.settings import TreeSearch
from pcqc.training.backend import MakeBackend, adamw_backend, merged_micro_batches, outputs
from pcqc.training.batching import SelectedTokens, take_selected
from pcqc.training.training_sequence import ValueSequence
from pcqc.training.value_model import ValueModel, value_loss
from pcqc_base.errors import UserError
from pcqc_base.settings import Rl


class Critic:
    """V_psi with AdamW at a rate of its own (app:pcqc_frozen_setup).

    Args:
        body: model without its output layer, such as that of Shared SFT; trained in place.
        ending: number of tokens of the generation prompt that ends a state; V(s) is the mean of the
            outputs at as many tokens.
        tree: learning rate, clipping, and at which tokens V is read.
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
        """Outputs at the tokens where each state is read, float64 [ending] each.

        What states of one call share is computed once, as far as a micro-batch holds it.
        """
        unique = list(dict.fromkeys(tuple(state) for state in states))
        items = [SelectedTokens(list(s), self._read(len(s))) for s in unique]
        rows = outputs(self.backend, items, self.rl.tokens_per_micro_batch)
        read = dict(zip(unique, rows, strict=True))
        return [read[tuple(state)] for state in states]

    def _read(self, length: int) -> np.ndarray:
        """bool [length], at which tokens of a state V is read; a too short state's at all."""
        place = np.arange(length) + (self.tree.value_positions == "release")
        return (length - self.ending <= place) & (place < length)

    def keep_values(self, sequences: Sequence[ValueSequence]) -> None:
        """Note the outputs at the targets' tokens in each sequence, before several steps."""
        rows = outputs(self.backend, sequences, self.rl.tokens_per_micro_batch)
        for sequence, values in zip(sequences, rows, strict=True):
            sequence.old_values[sequence.selected] = values

    def update(self, sequences: Sequence[ValueSequence]) -> dict[str, float]:
        """Take one optimiser step towards the targets; the step's metrics.

        The loss is the mean over all tokens that have a target, so that it depends neither on how
        the sequences are split into micro-batches nor on how they are dealt out to processes.

        Raises:
            UserError: the gradient is not finite; nothing has been changed.
        """
        count = float(sum(s.selected.sum() for s in sequences))
        total = 0.0
        budget = self.rl.tokens_per_micro_batch
        for members, selected, padded in merged_micro_batches(self.backend, sequences, budget):
            targets, old = (
                torch.from_numpy(take_selected(arrays, selected)).float().to(self.device)
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
