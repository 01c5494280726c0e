"""An engine of several processes: each generates and scores a part of every call."""

from collections.abc import Iterable, Sequence

import torch

from pcqc.engines.base import Completion, Engine, Request, Sampling
from pcqc.processes import Processes


class SpreadEngine:
    """One engine per process, used by all processes as one.

    All processes make the same calls; each works on its share of the requests, and all have all
    results. Since what is drawn depends on weights, prompt and stream alone, it is what one process
    would have drawn.

    Args:
        engine: of this process.
        processes: those that have one.
    """

    def __init__(self, engine: Engine, processes: Processes):
        self.engine, self.processes = engine, processes

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Engine.generate`."""
        return self.processes.spread(lambda part: self.engine.generate(part, sampling), requests)

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """See `Engine.next_logprobs`."""
        rows = list(zip(prompts, choices, strict=True))
        return self.processes.spread(
            lambda part: self.engine.next_logprobs([p for p, _ in part], [c for _, c in part]), rows
        )

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `Engine.load_weights`; every process hands its engine all weights."""
        self.engine.load_weights(weights)

    def reset_cache(self) -> None:
        """See `Engine.reset_cache`."""
        self.engine.reset_cache()

    def sleep(self) -> None:
        """See `Engine.sleep`."""
        self.engine.sleep()

    def wake(self) -> None:
        """See `Engine.wake`."""
        self.engine.wake()
