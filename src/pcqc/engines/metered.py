"""An engine that counts the tokens which it reads and samples."""

from collections.abc import Iterable, Sequence

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket, WrappedEngine


class MeteredEngine(WrappedEngine):
    """Another engine, and how many tokens went through it.

    Counts follow from what is asked and drawn alone, so that they are the same on any machine: a
    token of a prompt counts as read wherever its keys came from, a prompt with several samples
    once. Tokens of an answer that failed are not known, and count as none.

    Args:
        engine: does the work; a process's own.
    """

    def __init__(self, engine: Engine):
        super().__init__(engine)
        self.read = self.sampled = 0

    def take_counts(self) -> dict[str, int]:
        """Tokens `read` in prompts and tokens `sampled` since the last call."""
        counts = {"read": self.read, "sampled": self.sampled}
        self.read = self.sampled = 0
        return counts

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """See `Engine.submit`."""
        self.read += len(request.prompt)
        return self.engine.submit(request, sampling)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """See `Engine.submit_choices`."""
        self.read += len(prompt)
        return self.engine.submit_choices(prompt, choices)

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """See `Engine.collect`."""
        found = self.engine.collect(wait)
        self.sampled += _tokens(found.values())
        return found

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Sequence[Sequence[Completion | Failure]]:
        """See `Engine.generate`."""
        self.read += sum(len(request.prompt) for request in requests)
        groups = self.engine.generate(requests, sampling)
        self.sampled += _tokens(groups)
        return groups

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> Sequence[list[float] | Failure]:
        """See `Engine.next_logprobs`."""
        self.read += sum(map(len, prompts))
        return self.engine.next_logprobs(prompts, choices)


def _tokens(groups: Iterable[Sequence[Completion | Failure]]) -> int:
    return sum(len(one.tokens) for group in groups for one in group if isinstance(one, Completion))
