"""New weights for an engine, and a check that it computes with them as the learner does.

How they travel is each engine's `load_weights`: vLLM's by `pcqc_gpu.engines.weight_transfer`; the
transformers engine shares the learner's module. When: `Engines.awake` in `jobs/engines.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from pcqc.engines.base import Engine
from pcqc_base.errors import UserError

TOKENS = 64  # log-probabilities compared on each prompt


@dataclass(frozen=True)
class WeightUpdate:
    """Hands the learner's weights to an engine that keeps its own copy.

    Nothing fails by itself where an engine has other weights, or computes otherwise with them: its
    samples are merely those of another policy. The engine proves that the bytes arrived; here
    engine and learner are compared by what they compute.

    Attributes:
        engine: takes the weights.
        learner: (prompts, choices) -> the learner's `Engine.next_logprobs`.
        prompts: token ids on which both are compared, at the tokens that occur in them.
        tolerance: largest mean difference of log-probabilities that rounding explains.
    """

    engine: Engine
    learner: Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[list[float]]]
    prompts: Sequence[Sequence[int]]
    tolerance: float

    def __call__(self, weights: Iterable[tuple[str, torch.Tensor]]) -> float:
        """Load weights and compare; the mean difference.

        Raises:
            UserError: it exceeds the tolerance, or is no number.
        """
        self.engine.load_weights(weights)
        choices = [sorted(set(prompt))[:TOKENS] for prompt in self.prompts]
        engine = cast(list[list[float]], self.engine.next_logprobs(self.prompts, choices))
        learner = self.learner(self.prompts, choices)
        rows = zip(engine, learner, strict=True)
        gaps = [abs(a - b) for row in rows for a, b in zip(*row, strict=True)]
        gap = sum(gaps) / len(gaps)
        if not gap <= self.tolerance:
            raise UserError(
                f"engine and learner differ by {gap:.3g} in a log-probability on average after a "
                f"weight update (tolerance {self.tolerance:g}): "
                "the engine does not compute with the learner's weights, or rounds more coarsely "
                "than that; rerun, and if it happens again, raise engine.sync_tolerance"
            )
        return gap
