"""What every engine offers its callers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

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


@dataclass(frozen=True)
class Failure:
    """In place of a result: a request to a server that came to nothing, after all attempts.

    Attributes:
        kind: no answer in time; no connection; a status that may pass (5xx, too many requests); a
            request that the server refuses (4xx) and was not repeated; an answer that makes no
            sense.
        message: what was seen.
    """

    kind: Literal["timeout", "connection", "status", "refused", "malformed"]
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Engine(Protocol):
    """Generates and scores token ids. Only one that is reached over a network has failures."""

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> list[list[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order.

        What is drawn depends on weights, prompt and stream alone; not on the other requests.
        """

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`, in one forward pass per prompt."""

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over named weights and forget everything computed with the old ones."""

    def reset_cache(self) -> None:
        """Forget cached prefixes."""

    def sleep(self) -> None:
        """Leave memory to the learner, as far as the engine can; only `wake` may follow."""

    def wake(self) -> None:
        """Take the memory back; an engine that is awake stays so."""


def vllm_seed(stream: int) -> int:
    """The seed that vLLM is given for a stream: 63 bits, what its interfaces can carry."""
    return stream >> 1
