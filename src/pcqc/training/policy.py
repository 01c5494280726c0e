"""The learner: optimiser steps from weighted token sequences, blind to where they came from."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pcqc.training.backend import (
    MakeBackend,
    adamw_backend,
    merged_micro_batches,
    model_weights,
    outputs,
)
from pcqc.training.batching import HasSelected, SelectedTokens, TokenModel, take_selected
from pcqc.training.kl import kl_estimate
from pcqc.training.mismatch import Ratios, statistics
from pcqc.training.policy_loss import Clip, clipped_policy_loss, ratio_statistics
from pcqc.training.training_sequence import KL, Term, TrainingSequence, token_counts
from pcqc_base.errors import UserError
from pcqc_base.settings import Rl


@dataclass
class UpdateReport:
    """What an update did.

    Attributes:
        losses: term name -> loss (divided by its token count, without coefficient).
        statistics: ratio, clipped share, gradient norm, gap between engine and learner.
    """

    losses: dict[str, float]
    statistics: dict[str, float]


class Policy:
    """A causal language model in training (app:pcqc_frozen_setup).

    Args:
        model: the actor, trained in place.
        reference: the frozen reference policy, None where the KL penalty has no weight.
        settings: learning rate, weight decay, clipping, micro-batch size.
        backend: (module, learning rate, settings) -> what takes the optimiser steps.
        gap_alarm: largest mean |log pi_learner - log pi_engine| of tokens at which a step
            is taken; None where no engine sampled them.
        float32_head: as `engine.float32_head`.

    Attributes:
        version: number of steps that this object has taken; it changes whenever the weights do.
    """

    def __init__(
        self,
        model,
        reference,
        settings: Rl,
        backend: MakeBackend = adamw_backend,
        gap_alarm: float | None = None,
        float32_head: bool = False,
    ):
        self.model = model
        self.settings, self.gap_alarm = settings, gap_alarm
        self.backend = backend(TokenModel(model, float32_head), settings.learning_rate, settings)
        frozen = TokenModel(reference, float32_head) if reference else None
        self.reference = self.backend.frozen(frozen) if frozen else None
        self.device = self.backend.device
        self.version = 0
        self.state = self.backend.state

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names, as the model itself has them, and unsharded tensors; see `Backend.weights`."""
        return model_weights(self.backend)

    def logprobs(self, sequences: Sequence[HasSelected]) -> list[np.ndarray]:
        """log pi_theta of the selected tokens of each sequence, float64 [selected]."""
        return outputs(self.backend, sequences, self.settings.tokens_per_micro_batch)

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log P(token | prompt) for each token of `choices`, to compare an engine with."""
        ends = [
            SelectedTokens([*prompt, token], np.arange(len(prompt) + 1) == len(prompt))
            for prompt, tokens in zip(prompts, choices, strict=True)
            for token in tokens
        ]
        logprobs = iter(self.logprobs(ends))
        return [[float(next(logprobs)[0]) for _ in tokens] for tokens in choices]

    def keep_logprobs(self, sequences: Sequence[TrainingSequence]) -> None:
        """Note log pi_old of the selected tokens in each sequence, before several steps."""
        for sequence, logprobs in zip(sequences, self.logprobs(sequences), strict=True):
            sequence.old_logprobs = np.full(len(sequence.tokens), np.nan)
            sequence.old_logprobs[sequence.selected] = logprobs

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
        depends neither on how the sequences are split into micro-batches nor on how they are dealt
        out to processes.

        Args:
            sequences: with their terms; the same in every process.
            coefficients: component name -> weight; a component of weight 0 is not computed.
            clip: the ratio's; that of the settings where not given.
            rate: factor of the learning rate.

        Raises:
            UserError: the gradient is not finite, in any process, or engine and learner differ by
                more than the alarm allows; nothing has been changed.
        """
        clip = clip or Clip(self.settings.clip, self.settings.clip)
        counts = token_counts(sequences)
        parts = [
            self._add_gradient(members, selected, padded, counts, coefficients, clip)
            for members, selected, padded in merged_micro_batches(
                self.backend, sequences, self.settings.tokens_per_micro_batch
            )
        ]
        sums = _combined(self.backend.processes.gather(_combined(parts)))
        summary = _summary(sums)
        self._check_gap(summary["gap/mean"])
        norm = self.backend.step(rate) if sequences else 0.0
        self.version += 1
        if not np.isfinite(norm):
            raise UserError("the gradient is not finite; lower rl.learning_rate and resume")
        losses = {name: sums[f"loss/{name}"] for name in counts}
        return UpdateReport(losses, {**summary, "gradient_norm": norm})

    def _check_gap(self, gap: float) -> None:
        """Raise UserError where another policy sampled the tokens.

        The mean is compared, since rounding alone gives single tokens large gaps. NaN raises too.
        """
        if self.gap_alarm is not None and not gap <= self.gap_alarm:
            raise UserError(
                f"engine and learner differ by {gap:.3g} in a token's log-probability on average "
                f"(alarm at rl.gap_alarm = {self.gap_alarm}); check that the engine has the "
                "learner's weights"
            )

    def _add_gradient(
        self, batch, selected, padded, counts, coefficients, clip: Clip
    ) -> dict[str, float]:
        """Add the gradient of a micro-batch; returns its parts of the losses and statistics."""
        logprobs = self.backend.forward(padded)
        with torch.no_grad():
            # Every process must run it, since all gather sharded weights together.
            compared = counts.get(KL) and coefficients[KL]
            reference = self.reference(padded) if compared else None
        old = self._old_logprobs(batch, selected, logprobs)
        weight, advantage = self._flatten(batch, selected)
        # What the engine sampled with was the old policy.
        engine = take_selected([s.engine_logprobs for s in batch], selected)
        lengths = [int(s.sum()) for s in selected]
        ratios = Ratios(old.double().cpu().numpy() - engine, lengths)
        importance = ratios.weights(self.settings.mismatch)
        loss, losses = 0 * logprobs.sum(), dict.fromkeys(counts, 0.0)
        for name, count in counts.items():
            if name not in weight or not coefficients[name]:
                continue
            if name == KL:
                per_token = kl_estimate(logprobs, reference)
            else:
                per_token = clipped_policy_loss(logprobs, old, advantage[name], clip)
                if importance is not None:
                    per_token = per_token * torch.from_numpy(importance).to(per_token)
            component = (per_token * weight[name]).sum() / count
            losses[name] = float(component.detach())
            loss = loss + coefficients[name] * component
        self.backend.backward(loss)
        return {
            **{f"loss/{name}": value for name, value in losses.items()},
            **ratio_statistics(logprobs, old, clip),
            **ratios.sums(),
        }

    def _old_logprobs(self, batch, selected, logprobs: torch.Tensor) -> torch.Tensor:
        """log pi_old of the selected tokens: as kept, or in a single step log pi_theta itself."""
        if not batch or batch[0].old_logprobs is None:
            return logprobs.detach()
        kept = take_selected([s.old_logprobs for s in batch], selected)
        return torch.from_numpy(kept).to(logprobs)

    def _flatten(self, batch, selected) -> tuple[dict, dict]:
        """Per component the weights and advantages of the selected tokens, one after another."""
        weight: dict[str, torch.Tensor] = {}
        advantage: dict[str, torch.Tensor] = {}
        for name in sorted({name for s in batch for name in s.terms}):
            terms = [s.terms.get(name) or Term.zeros(len(s.tokens)) for s in batch]
            for target, arrays in (
                (weight, [term.weights for term in terms]),
                (advantage, [term.advantages for term in terms]),
            ):
                flat = torch.from_numpy(take_selected(arrays, selected))
                target[name] = flat.float().to(self.device)
        return weight, advantage


def _combined(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The rows as one: sums, and of maxima the largest."""
    rows = [row for row in rows if row]
    names = rows[0] if rows else ()
    # numpy's maximum keeps NaN
    return {n: float((np.max if n.endswith("max") else sum)([r[n] for r in rows])) for n in names}


def _summary(sums: dict[str, float]) -> dict[str, float]:
    """Statistics of an update; zeros where it had no sequences."""
    known: Counter[str] = Counter(sums)  # the missing are zero
    tokens = known["count/token"]
    means = {name: known[name] / max(tokens, 1) for name in ("ratio/mean", "ratio/clipped_share")}
    return {**means, **statistics(known), "tokens/trained": tokens}
