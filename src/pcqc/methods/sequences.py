"""Token sequences with, for each component of the loss, a weight and an advantage per token."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.consultation import Consultation, Turn

TERMINAL, QUESTION, KL = "terminal", "question", "kl"


@dataclass
class Term:
    """One component on one sequence: float arrays as long as the sequence.

    Attributes:
        weights: of the tokens that the component selects, 0 at the others. Equal weights make the
            component a mean over tokens; weights that sum to 1 in every consultation make it a mean
            over consultations of their token means.
        advantages: credit of each selected token (unused by components without credit).
    """

    weights: np.ndarray
    advantages: np.ndarray

    @classmethod
    def zeros(cls, length: int) -> "Term":
        return cls(np.zeros(length), np.zeros(length))

    def select(self, start: int, stop: int, advantage: float, weight: float = 1.0) -> None:
        """Give the tokens from `start` to before `stop` the advantage."""
        self.weights[start:stop] = weight
        self.advantages[start:stop] = advantage


@dataclass
class TrainingSequence:
    """Token ids, the terms on them, and what the engine said of the sampled ones.

    Attributes:
        tokens: ids of context and sampled tokens.
        terms: component name -> Term.
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
        """bool [tokens], those that any component selects."""
        return np.any([term.weights > 0 for term in self.terms.values()], axis=0)


@dataclass
class Laid:
    """Turns that share their context, as one sequence.

    Attributes:
        tokens: ids of the last turn's state and its response.
        starts: number of each turn -> where its response starts in `tokens`.
    """

    tokens: list[int] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)


def lay_out(turns: Iterable[tuple[list[int], list[int]]]) -> list[Laid]:
    """Turns as sequences with shared context.

    Turns whose state continues the sequence so far share it; where the history was changed (earlier
    thinking dropped) a new sequence starts.

    Args:
        turns: token ids of each turn's state and of its response.
    """
    laid: list[Laid] = []
    for number, (state, response) in enumerate(turns):
        if not laid or state[: len(laid[-1].tokens)] != laid[-1].tokens:
            laid.append(Laid())
        laid[-1].starts[number] = len(state)
        laid[-1].tokens = [*state, *response]
    return laid


def executed_sequences(
    consultation: Consultation,
    advantages: Sequence[float],
    credits: Mapping[int, float],
    weight: float = 1.0,
) -> list[TrainingSequence]:
    """Sequences of a complete consultation.

    Args:
        consultation: to train on.
        advantages: of each turn, for all tokens of its executed response.
        credits: turn number -> question credit of its executed question.
        weight: of each actor token among those of the update.
    """
    sequences = []
    for laid in lay_out(consultation.executed):
        length = len(laid.tokens)
        sequence = TrainingSequence(laid.tokens, engine_logprobs=np.full(length, np.nan))
        terminal, question = Term.zeros(length), Term.zeros(length)
        for number, start in laid.starts.items():
            executed = consultation.turns[number].executed
            stop = start + len(executed.completion.tokens)
            sequence.engine_logprobs[start:stop] = executed.completion.logprobs
            terminal.select(start, stop, advantages[number], weight)
            if number in credits and executed.question_start is not None:
                question.select(start + executed.question_start, stop, credits[number])
        sequence.terms = {TERMINAL: terminal, KL: Term(terminal.weights, np.zeros(length))}
        if question.weights.any():
            sequence.terms[QUESTION] = question
        sequences.append(sequence)
    return sequences


def candidate_sequences(turn: Turn, credits: Sequence[float]) -> list[TrainingSequence]:
    """Sequences of the unexecuted candidates of a turn that have question tokens.

    Args:
        turn: a supervised state and its responses.
        credits: question credit of every response, the executed one first.
    """
    sequences = []
    for response, credit in list(zip(turn.responses, credits, strict=True))[1:]:
        if response.question_start is None:
            continue
        tokens = [*turn.state, *response.completion.tokens]
        question = Term.zeros(len(tokens))
        question.select(len(turn.state) + response.question_start, len(tokens), credit)
        logprobs = np.full(len(tokens), np.nan)
        logprobs[len(turn.state) :] = response.completion.logprobs
        sequences.append(TrainingSequence(tokens, {QUESTION: question}, logprobs))
    return sequences
