"""The interface of every engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pcqc_base.settings import Decoding
from pcqc_base.system.processes import SINGLE_PROCESS, Processes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Request:
    """What is sampled.

    Attributes:
        prompt: token ids.
        streams: 64-bit name of the random stream of each sample (`pcqc.seeds.stream`).
    """

    prompt: Sequence[int]
    streams: tuple[int, ...]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        top_p: the smallest set of likeliest tokens with this probability is kept.
        max_tokens: the most that a completion has.
        stop: tokens of which each ends a completion and belongs to it.
    """

    temperature: float
    top_p: float
    max_tokens: int
    stop: tuple[int, ...]

    @classmethod
    def of(cls, decoding: Decoding, stop: tuple[int, ...]) -> "Sampling":
        """As the settings of a role say, up to the stop tokens."""
        return cls(decoding.temperature, decoding.top_p, decoding.max_tokens, stop)


@dataclass(frozen=True)
class Completion:
    """Sampled tokens.

    Attributes:
        tokens: ids, the stop token included where it was drawn.
        logprobs: log-probability of each under the whole vocabulary at temperature 1, which is
            what the learner computes; not that of the truncated distribution they were drawn from.
    """

    tokens: list[int]
    logprobs: list[float]


@dataclass(frozen=True)
class Failure:
    """In place of a result: a request to a server that failed after all attempts.

    Attributes:
        kind: no answer in time; no connection; a transient status (5xx, too many requests); a
            request that the server refused (4xx), which is not retried; an unreadable answer.
        message: details, on one line.
    """

    kind: Literal["timeout", "connection", "status", "refused", "malformed"]
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


Ticket = int  # names a request that was submitted


class Engine(Protocol):
    """Generates and scores token ids; engines inherit the methods that do nothing here.

    Only an engine behind a network returns failures.

    Attributes:
        processes: that load the same weights at the same time, each into an engine of its own.
        streams: whether it accepts requests one by one, beside those in progress.
        in_turns: whether it computes only inside a call, so that no other engine computes then.
        at_once: dialogues that a process plays side by side, where several processes share them.
        empty: whether it has lost its weights in its sleep, and needs new ones before it is used.
    """

    processes: Processes = SINGLE_PROCESS
    streams: bool = False
    in_turns: bool = False
    at_once: int = 256
    empty: bool = False

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """Accept a request beside those in progress; for engines that stream."""
        raise RuntimeError("this engine does not stream")

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """Like `submit`, for one prompt of `next_logprobs`."""
        raise RuntimeError("this engine does not stream")

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """Requests that have finished since the last call, each with its result.

        The result is that of `generate`, or after `submit_choices` a list of the prompt's one row.

        Args:
            wait: until a request finishes, if the engine computes between calls.
        """
        raise RuntimeError("this engine does not stream")

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Sequence[Sequence[Completion | Failure]]:
        """One list of completions per request, one completion per stream of it, in order.

        What is drawn depends on weights, prompt and stream alone; not on the other requests. On a
        GPU this holds with `placement.deterministic` alone (docs/engines.md, what repeats exactly).
        """

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> Sequence[list[float] | Failure]:
        """log P(token | prompt) for each token of `choices`, in one forward pass per prompt."""

    def load_weights(self, weights: "Iterable[tuple[str, torch.Tensor]]") -> None:
        """Load named weights and forget everything computed with the old ones."""

    def take_faults(self) -> dict[str, int]:
        """Retries and failed requests since the last call, of an engine behind a network."""
        return {}

    def reset_cache(self) -> None:
        """Forget cached prefixes."""
        return

    def sleep(self) -> None:
        """Free memory for the learner, as far as the engine can, until `wake`."""
        return

    def wake(self) -> None:
        """Take the memory back; no effect on an engine that is awake."""
        return


class WrappedEngine(Engine if TYPE_CHECKING else object):  # type: ignore[misc]
    """Another engine with something added; other calls pass through unchanged.

    Args:
        engine: does the work; this process's own.
    """

    def __init__(self, engine: Engine):
        self.engine = engine

    if not TYPE_CHECKING:

        def __getattr__(self, name: str):
            return getattr(self.engine, name)


def vllm_seed(stream: int) -> int:
    """vLLM's seed for a stream: 63 bits, the most that its interfaces carry."""
    return stream >> 1
