"""The learner: optimiser steps from weighted token sequences, blind to where they came from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pcqc.config import Rl
from pcqc.errors import UserError
from pcqc.methods.sequences import KL, TrainingSequence
from pcqc.training.batching import micro_batches, token_logprobs
from pcqc.training.objective import Clip, clipped_policy_loss, kl_estimate, ratio_statistics
from pcqc.training.state import ModelState
from pcqc.training.trees import TokenTree, grow_trees, pad_trees


@dataclass
class UpdateReport:
    """What an update did.

    Attributes:
        losses: component name -> loss (already divided by its token count, without coefficient).
        statistics: ratio, clipped share, KL, gradient norm, gap between engine and learner.
    """

    losses: dict[str, float]
    statistics: dict[str, float]


class TorchPolicy:
    """A causal language model with AdamW at a constant learning rate (Appendix A.2).

    Args:
        model: the actor, trained in place.
        reference: the frozen reference policy, None where the KL penalty has no weight.
        settings: learning rate, weight decay, clipping, micro-batch size.
    """

    def __init__(self, model, reference, settings: Rl):
        self.model = model
        self.reference = reference
        self.settings = settings
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.device = next(model.parameters()).device
        self.state = ModelState(model, self.optimizer)

    @torch.no_grad()
    def keep_logprobs(self, sequences: Sequence[TrainingSequence]) -> None:
        """Note log pi_old of the selected tokens in each sequence, before several steps."""
        budget = self.settings.tokens_per_micro_batch
        for trees in micro_batches(grow_trees(sequences, budget), budget):
            batch = [sequence for tree in trees for sequence in tree.members]
            selected = [sequence.selected for sequence in batch]
            logprobs = token_logprobs(self.model, pad_trees(trees, selected, self.device))
            parts = np.split(
                logprobs.double().cpu().numpy(), np.cumsum([s.sum() for s in selected])
            )
            for sequence, chosen, part in zip(batch, selected, parts, strict=False):
                sequence.old_logprobs = np.full(len(sequence.tokens), np.nan)
                sequence.old_logprobs[chosen] = part

    def update(
        self,
        sequences: Sequence[TrainingSequence],
        coefficients: dict[str, float],
        *,
        clip: Clip | None = None,
        rate: float = 1.0,
    ) -> UpdateReport:
        """Take one optimiser step on the weighted sum of the components.

        Each component is divided by its own total weight over the whole step, so that the gradient
        does not depend on how the sequences are split into micro-batches.

        Args:
            sequences: with their terms.
            coefficients: component name -> weight; a component of weight 0 is not computed.
            clip: of the ratio; that of the settings where not given.
            rate: factor of the learning rate.

        Raises:
            UserError: the loss is not finite; nothing has been changed.
        """
        clip = clip or Clip(self.settings.clip, self.settings.clip)
        counts = token_counts(sequences)
        totals = dict.fromkeys(counts, 0.0)
        statistics: dict[str, float] = {}
        self.optimizer.zero_grad(set_to_none=True)
        budget = self.settings.tokens_per_micro_batch
        for trees in micro_batches(grow_trees(sequences, budget), budget):
            self._accumulate(trees, counts, coefficients, clip, totals, statistics)
        norm = float(
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_gradient_norm)
        )
        if not np.isfinite(norm):
            raise UserError("the gradient is not finite; lower rl.learning_rate and resume")
        for group in self.optimizer.param_groups:
            group["lr"] = rate * self.settings.learning_rate
        self.optimizer.step()
        return UpdateReport(totals, _summary(statistics, norm))

    def _accumulate(
        self, trees: list[TokenTree], counts, coefficients, clip: Clip, totals, statistics
    ) -> None:
        """Add one micro-batch's gradient, losses and statistics."""
        batch = [sequence for tree in trees for sequence in tree.members]
        selected = [sequence.selected for sequence in batch]
        padded = pad_trees(trees, selected, self.device)
        logprobs = token_logprobs(self.model, padded)
        old = self._old_logprobs(batch, selected, logprobs)
        weight, advantage = self._flatten(batch, selected)
        loss = logprobs.new_zeros(())
        for name, count in counts.items():
            if name not in weight or not coefficients[name]:
                continue
            if name == KL:
                with torch.no_grad():
                    reference = token_logprobs(self.reference, padded)
                per_token = kl_estimate(logprobs, reference)
            else:
                per_token = clipped_policy_loss(logprobs, old, advantage[name], clip)
            component = (per_token * weight[name]).sum() / count
            totals[name] += float(component.detach())
            loss = loss + coefficients[name] * component
        if loss.requires_grad:
            loss.backward()
        engine = np.concatenate(
            [s.engine_logprobs[c] for s, c in zip(batch, selected, strict=True)]
        )
        _add_statistics(statistics, logprobs.detach(), old, engine, clip)

    def _old_logprobs(self, batch, selected, logprobs: torch.Tensor) -> torch.Tensor:
        """log pi_old of the selected tokens: as it was kept, else that of this first step."""
        if batch[0].old_logprobs is None:
            return logprobs.detach()
        kept = [s.old_logprobs[c] for s, c in zip(batch, selected, strict=True)]
        return torch.from_numpy(np.concatenate(kept)).to(logprobs)

    def _flatten(self, batch, selected) -> tuple[dict, dict]:
        """Per component the weights and advantages of the selected tokens, one after another."""
        weight, advantage = {}, {}
        for name in sorted({name for s in batch for name in s.terms}):
            zeros = [np.zeros(len(s.tokens)) for s in batch]
            parts = [
                (s.terms[name].weights, s.terms[name].advantages) if name in s.terms else (z, z)
                for s, z in zip(batch, zeros, strict=True)
            ]
            for target, column in ((weight, 0), (advantage, 1)):
                flat = np.concatenate([p[column][c] for p, c in zip(parts, selected, strict=True)])
                target[name] = torch.from_numpy(flat).float().to(self.device)
        return weight, advantage


def token_counts(sequences: Sequence[TrainingSequence]) -> dict[str, float]:
    """Total weight of each component over all sequences: N_Q and its like (Eq. 10)."""
    counts: dict[str, float] = {}
    for sequence in sequences:
        for name, term in sequence.terms.items():
            counts[name] = counts.get(name, 0.0) + float(term.weights.sum())
    return {name: count for name, count in sorted(counts.items()) if count}


def _add_statistics(statistics, logprobs, old, engine: np.ndarray, clip: Clip) -> None:
    # The engine sampled with the old policy.
    gap = np.abs(old.double().cpu().numpy() - engine)
    new = ratio_statistics(logprobs, old, clip)
    new |= {"gap/mean": float(gap.sum()), "tokens/trained": float(len(gap))}
    for name, value in new.items():
        statistics[name] = statistics.get(name, 0.0) + value
    largest = float(gap.max()) if len(gap) else 0.0
    statistics["gap/max"] = max(statistics.get("gap/max", 0.0), largest)


def _summary(statistics: dict[str, float], norm: float) -> dict[str, float]:
    tokens = max(statistics.get("tokens/trained", 0.0), 1.0)
    means = {
        name: statistics.get(name, 0.0) / tokens
        for name in ("ratio/mean", "ratio/clipped_share", "gap/mean")
    }
    return {
        **means,
        "gap/max": statistics.get("gap/max", 0.0),
        "tokens/trained": statistics.get("tokens/trained", 0.0),
        "gradient_norm": norm,
    }
