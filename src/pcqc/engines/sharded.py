"""An engine over several processes, each of which does a shard of every call."""

from collections.abc import Iterable, Sequence
from typing import Any

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, WrappedEngine
from pcqc_base.system.processes import Processes


def share_out(roles: Iterable[Any], processes: Processes) -> None:
    """Have all processes use the engines of some roles together, where there are several.

    Args:
        roles: each has an `engine`, this process's own.
        processes: each has these roles.
    """
    for role in roles if processes.count > 1 else ():
        role.engine.processes = processes
        role.engine = ShardedEngine(role.engine, processes)


class ShardedEngine(WrappedEngine):
    """One engine per process, used by all processes as one.

    All processes make the same calls; each does its shard of the requests and gets all results.
    What is submitted one by one stays in its process, and every engine gets all weights. Samples
    depend on weights, prompt and stream alone, so they are those of a single process.

    Args:
        engine: this process's own.
        processes: each has an engine.
    """

    def __init__(self, engine: Engine, processes: Processes):
        super().__init__(engine)
        self.processes = processes

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Sequence[Sequence[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order."""
        return self.processes.map_sharded(
            lambda part: self.engine.generate(part, sampling), requests
        )

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> Sequence[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`."""
        rows = list(zip(prompts, choices, strict=True))
        return self.processes.map_sharded(
            lambda part: self.engine.next_logprobs([p for p, _ in part], [c for _, c in part]), rows
        )
