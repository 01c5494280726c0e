"""Token sequences with, for each component of the loss, a weight and an advantage per token."""

from collections.abc import Sequence
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
class _Laid:
    """A sequence being laid out, with the place of each turn's executed response in it."""

    tokens: list[int]
    places: list[tuple[int, Turn]]


def lay_out(consultation: Consultation) -> list[_Laid]:
    """The consultation's executed turns as sequences with shared context.

    Turns whose state continues the sequence so far share it; where the history was changed (earlier
    thinking dropped) a new sequence starts.
    """
    laid: list[_Laid] = []
    for turn in consultation.turns:
        current = laid[-1].tokens if laid else None
        if current is None or turn.state[: len(current)] != current:
            laid.append(_Laid([], []))
        here = laid[-1]
        here.places.append((len(turn.state), turn))
        here.tokens = [*turn.state, *turn.executed.completion.tokens]
    return laid


def executed_sequences(
    consultation: Consultation, advantage: float, credits: dict[int, float]
) -> list[TrainingSequence]:
    """Sequences of a complete consultation.

    Args:
        consultation: to train on.
        advantage: terminal advantage, the same for all actor tokens.
        credits: turn number -> question credit of its executed question.
    """
    numbers = {id(turn): number for number, turn in enumerate(consultation.turns)}
    sequences = []
    for laid in lay_out(consultation):
        length = len(laid.tokens)
        sequence = TrainingSequence(laid.tokens, engine_logprobs=np.full(length, np.nan))
        terminal, question = Term.zeros(length), Term.zeros(length)
        for start, turn in laid.places:
            completion = turn.executed.completion
            stop = start + len(completion.tokens)
            sequence.engine_logprobs[start:stop] = completion.logprobs
            terminal.select(start, stop, advantage)
            first = turn.executed.question_start
            if (credit := credits.get(numbers[id(turn)])) is not None and first is not None:
                question.select(start + first, stop, credit)
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
