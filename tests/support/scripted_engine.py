"""An engine for tests: it replies by a function and records its prompts."""

from collections.abc import Callable, Sequence

from pcqc.engines.base import Completion, Engine, Request, Sampling

Reply = Callable[[tuple[int, ...], int], Sequence[int]]
Scores = Callable[[tuple[int, ...], Sequence[int]], Sequence[float]]


class ScriptedEngine(Engine):
    """Replies by a function.

    Args:
        reply: (prompt, stream) -> tokens of the completion.
        scores: (prompt, choices) -> log-probability of each choice.
    """

    def __init__(self, reply: Reply | None = None, scores: Scores | None = None):
        self._reply = reply
        self._scores = scores
        self.prompts: list[tuple[int, ...]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One list of completions per request, one completion per stream of it, in order."""
        self.prompts += [tuple(request.prompt) for request in requests]
        return [
            [self._completion(request, stream, sampling) for stream in request.streams]
            for request in requests
        ]

    def _completion(self, request: Request, stream: int, sampling: Sampling) -> Completion:
        tokens = list(self._reply(tuple(request.prompt), stream))[: sampling.max_tokens]
        ends = [i for i, token in enumerate(tokens) if token in sampling.stop]
        tokens = tokens[: ends[0] + 1] if ends else tokens
        return Completion(tokens, [0.0] * len(tokens))

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log P(token | prompt) for each token of `choices`."""
        self.prompts += [tuple(prompt) for prompt in prompts]
        pairs = zip(prompts, choices, strict=True)
        return [list(self._scores(tuple(prompt), ids)) for prompt, ids in pairs]
