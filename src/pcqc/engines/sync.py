"""New weights for an engine, and a check that it uses them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from pcqc.engines.base import Engine
from pcqc.errors import UserError

TOKENS = 64  # log-probabilities compared on each prompt


@dataclass(frozen=True)
class WeightSync:
    """Hands the learner's weights to an engine that keeps its own copy.

    Nothing fails by itself where an engine goes on with old weights, or with some of them: its
    samples are merely those of another policy. So the two are compared each time.

    Attributes:
        engine: takes the weights.
        learner: (prompts, choices) -> the learner's `Engine.next_logprobs`.
        prompts: token ids on which both are compared, at the tokens that occur in them.
        tolerance: largest difference of two log-probabilities that rounding explains.
    """

    engine: Engine
    learner: Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[list[float]]]
    prompts: Sequence[Sequence[int]]
    tolerance: float

    def __call__(self, weights: Iterable[tuple[str, torch.Tensor]]) -> float:
        """Load weights and compare; the largest difference.

        Raises:
            UserError: it exceeds the tolerance.
        """
        self.engine.load_weights(weights)
        choices = [sorted(set(prompt))[:TOKENS] for prompt in self.prompts]
        engine = cast(list[list[float]], self.engine.next_logprobs(self.prompts, choices))
        learner = self.learner(self.prompts, choices)
        gaps = [
            (abs(theirs - ours), number, token, theirs, ours)
            for number, row in enumerate(zip(choices, engine, learner, strict=True))
            for token, theirs, ours in zip(*row, strict=True)
        ]
        # No number is larger than NaN, which `max` would pass over.
        gap, number, token, theirs, ours = max(gaps, key=lambda row: (math.isnan(row[0]), row[0]))
        if not gap <= self.tolerance:
            raise UserError(
                f"engine and learner differ by {gap:.3g} after a weight update (token {token} "
                f"after prompt {number}: log-probability {theirs:.4f} and {ours:.4f}; tolerance "
                f"{self.tolerance:g}): the engine has stale weights, or rounds more coarsely than "
                "that; rerun, and if it happens again, raise engine.sync_tolerance"
            )
        return gap
