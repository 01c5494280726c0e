"""What the learner trains on: token ids, and for each term of the loss weights and advantages."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

KL = "kl"  # the term that compares with the reference policy and has no credit


@dataclass
class Term:
    """One term of the loss on one sequence: float arrays as long as the sequence.

    Attributes:
        weights: one for each token that the term covers, 0 at the others. Equal weights make the
            term a mean over tokens; weights that sum to 1 in every sequence make it a mean over
            sequences of their token means.
        advantages: credit of each covered token (unused by terms without credit).
    """

    weights: np.ndarray
    advantages: np.ndarray

    @classmethod
    def zeros(cls, length: int) -> "Term":
        """The term on a sequence of `length` tokens, of which it covers none."""
        return cls(np.zeros(length), np.zeros(length))

    def select(self, start: int, stop: int, advantage: float, weight: float = 1.0) -> None:
        """Give the tokens from `start` to before `stop` the advantage."""
        self.weights[start:stop] = weight
        self.advantages[start:stop] = advantage


@dataclass
class TrainingSequence:
    """Token ids, the terms on them, and the engine's log-probabilities of the sampled ones.

    Attributes:
        tokens: ids of context and sampled tokens.
        terms: name -> Term.
        engine_logprobs: float [tokens], NaN where nothing was sampled.
        old_logprobs: float [tokens], log pi_old as the learner had it before the update's first
            step; None where the update is a single step, at which it is log pi_theta itself.
    """

    tokens: list[int]
    terms: dict[str, Term] = field(default_factory=dict)
    engine_logprobs: np.ndarray = field(default_factory=lambda: np.empty(0))
    old_logprobs: np.ndarray | None = None

    @property
    def selected(self) -> np.ndarray:
        """bool [tokens], those that any term covers."""
        return np.any([term.weights > 0 for term in self.terms.values()], axis=0)


def token_counts(sequences: Iterable[TrainingSequence]) -> dict[str, float]:
    """Total weight of each term over all sequences: N_Q and its like (eq:question_objective)."""
    counts: dict[str, float] = {}
    for sequence in sequences:
        for name, term in sequence.terms.items():
            counts[name] = counts.get(name, 0.0) + float(term.weights.sum())
    return {name: count for name, count in sorted(counts.items()) if count}


@dataclass
class PackedTurns:
    """Turns that share their context, as one sequence.

    Attributes:
        tokens: ids of the last turn's state and its response.
        starts: number of each turn -> where its response starts in `tokens`.
    """

    tokens: list[int] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)


def pack_turns(turns: Iterable[tuple[list[int], list[int]]]) -> list[PackedTurns]:
    """Turns as sequences with shared context.

    A turn whose state continues the sequence so far shares it; where the history was changed
    (earlier thinking dropped) a new sequence starts.

    Args:
        turns: token ids of each turn's state and of its response.
    """
    packed: list[PackedTurns] = []
    for number, (state, response) in enumerate(turns):
        if not packed or state[: len(packed[-1].tokens)] != packed[-1].tokens:
            packed.append(PackedTurns())
        packed[-1].starts[number] = len(state)
        packed[-1].tokens = [*state, *response]
    return packed


@dataclass
class ValueSequence:
    """Token ids with targets at some of them.

    Attributes:
        tokens: ids.
        targets: float [tokens], NaN where there is nothing to learn.
        old_values: float [tokens], the outputs before the update; NaN likewise.
    """

    tokens: list[int]
    targets: np.ndarray
    old_values: np.ndarray

    @property
    def selected(self) -> np.ndarray:
        """bool [tokens], where there is a target."""
        return ~np.isnan(self.targets)
