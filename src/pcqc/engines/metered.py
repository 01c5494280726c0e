"""An engine that counts the tokens that it reads and samples."""

from collections.abc import Iterable, Sequence

from pcqc.engines.base import Completion, Engine, Failure, Request, Sampling, Ticket, WrappedEngine


class MeteredEngine(WrappedEngine):
    """Another engine, and how many tokens went through it.

    Counts depend only on what is asked and drawn, so they are the same on any machine: a token of a
    prompt counts as read even where a cache has its keys, and a prompt with several samples counts
    once. The tokens of a failed answer are not known and not counted.

    Args:
        engine: does the work; this process's own.
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
        """Accept a request beside those in progress."""
        self.read += len(request.prompt)
        return self.engine.submit(request, sampling)

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """Accept one prompt of `next_logprobs`, beside requests in progress."""
        self.read += len(prompt)
        return self.engine.submit_choices(prompt, choices)

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """Requests that have finished since the last call, each with its result."""
        finished = self.engine.collect(wait)
        self.sampled += _tokens(finished.values())
        return finished

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Sequence[Sequence[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order."""
        self.read += sum(len(request.prompt) for request in requests)
        groups = self.engine.generate(requests, sampling)
        self.sampled += _tokens(groups)
        return groups

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> Sequence[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`."""
        self.read += sum(map(len, prompts))
        return self.engine.next_logprobs(prompts, choices)


def _tokens(groups: Iterable[Sequence[Completion | Failure]]) -> int:
    results = (result for group in groups for result in group)
    return sum(len(result.tokens) for result in results if isinstance(result, Completion))
