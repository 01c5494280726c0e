"""An engine that says what a test tells it to, and records what it was asked."""

from collections.abc import Callable, Iterable, Sequence

import torch

from pcqc.engines.base import Completion, Request, Sampling

Reply = Callable[[tuple[int, ...], int], Sequence[int]]
Scores = Callable[[tuple[int, ...], Sequence[int]], Sequence[float]]


class ScriptedEngine:
    """Replies by function.

    Args:
        reply: (prompt, stream) -> tokens of the completion.
        scores: (prompt, choices) -> log-probability of each choice.
    """

    def __init__(self, reply: Reply | None = None, scores: Scores | None = None):
        self._reply = reply
        self._scores = scores
        self.prompts: list[tuple[int, ...]] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Engine.generate`."""
        self.prompts += [tuple(request.prompt) for request in requests]
        return [
            [self._completion(request, stream, sampling) for stream in request.streams]
            for request in requests
        ]

    def _completion(self, request: Request, stream: int, sampling: Sampling) -> Completion:
        tokens = list(self._reply(tuple(request.prompt), stream))[: sampling.max_tokens]
        if sampling.stop in tokens:
            tokens = tokens[: tokens.index(sampling.stop) + 1]
        return Completion(tokens, [0.0] * len(tokens), sampling.stop in tokens)

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """See `Engine.next_logprobs`."""
        self.prompts += [tuple(prompt) for prompt in prompts]
        pairs = zip(prompts, choices, strict=True)
        return [list(self._scores(tuple(prompt), ids)) for prompt, ids in pairs]

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `Engine.load_weights`: a script has none."""

    def reset_cache(self) -> None:
        """See `Engine.reset_cache`: a script keeps nothing."""

    def sleep(self) -> None:
        """See `Engine.sleep`."""

    def wake(self) -> None:
        """See `Engine.wake`."""
