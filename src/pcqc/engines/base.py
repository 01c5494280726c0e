"""What every engine offers its callers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class Request:
    """A prompt and the random streams of its samples, one sample for each."""

    prompt: Sequence[int]
    streams: tuple[int, ...]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        top_p: the smallest set of likeliest tokens with this probability is kept.
        max_tokens: of one completion.
        stop: token that ends a completion and belongs to it.
    """

    temperature: float
    top_p: float
    max_tokens: int
    stop: int


@dataclass(frozen=True)
class Completion:
    """Sampled tokens.

    Attributes:
        tokens: ids, the stop token included where it was drawn.
        logprobs: log-probability of each under the whole vocabulary at temperature 1, which is
            what the learner computes; not that of the truncated distribution they were drawn from.
        stopped: whether the stop token ended it (False: the limit did).
    """

    tokens: list[int]
    logprobs: list[float]
    stopped: bool


class Engine(Protocol):
    """Generates and scores token ids."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One list of completions per request, one completion per stream of it, in order.

        What is drawn depends on weights, prompt and stream alone; not on the other requests.
        """

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log P(token | prompt) for each token of `choices`, in one forward pass per prompt."""

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over named weights and forget everything computed with the old ones."""

    def reset_cache(self) -> None:
        """Forget cached prefixes."""

    def sleep(self) -> None:
        """Leave memory to the learner, as far as the engine can; only `wake` may follow."""

    def wake(self) -> None:
        """Take the memory back; an engine that is awake stays so."""
