"""An engine over several processes, each of which does a shard of every call."""

from collections.abc import Iterable, Sequence

import torch

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket
from pcqc.processes import Processes


class ShardedEngine(Engine):
    """One engine per process, used by all processes as one.

    All processes make the same calls; each does its shard of the requests and gets all results.
    Samples depend on weights, prompt and stream alone, so they are those of a single process.

    Args:
        engine: this process's own.
        processes: each has an engine.
    """

    def __init__(self, engine: Engine, processes: Processes):
        self.engine, self.processes = engine, processes
        self.streams, self.in_turns = engine.streams, engine.in_turns

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """See `Engine.submit`; each process submits requests of its own."""
        return self.engine.submit(request, sampling)

    def collect(self, wait: bool) -> dict[Ticket, list[Completion | Failure]]:
        """See `Engine.collect`."""
        return self.engine.collect(wait)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Sequence[Sequence[Completion | Failure]]:
        """See `Engine.generate`."""
        return self.processes.map_sharded(
            lambda part: self.engine.generate(part, sampling), requests
        )

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> Sequence[list[float] | Failure]:
        """See `Engine.next_logprobs`."""
        rows = list(zip(prompts, choices, strict=True))
        return self.processes.map_sharded(
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
