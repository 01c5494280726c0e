"""From consultations to training sequences: which tokens each term of the loss covers."""

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from pcqc.consultation import Consultation, Turn
from pcqc.training.training_sequence import KL, Term, TrainingSequence, pack_turns

TERMINAL, QUESTION = "terminal", "question"

# Term of the loss -> first token of a response, the one after the last, and their credit.
Spans = Mapping[str, tuple[int, int, float]]


def executed_sequences(
    consultation: Consultation,
    advantages: float | Sequence[float] | np.ndarray,
    credits: Mapping[int, float] | None = None,
    weight: float = 1.0,
    spans: Mapping[int, Spans] | None = None,
) -> list[TrainingSequence]:
    """Sequences of a complete consultation.

    Args:
        consultation: to train on.
        advantages: those of all tokens of an executed response; one per turn, or the same for all.
        credits: turn number -> question credit of its executed question.
        weight: that of each actor token in the terminal loss and the KL penalty.
        spans: turn number -> what else is credited of its executed response.
    """
    credits, spans = credits or {}, spans or {}
    of_turns = np.broadcast_to(advantages, len(consultation.turns))
    sequences = []
    for packed in pack_turns(consultation.executed):
        length = len(packed.tokens)
        sequence = TrainingSequence(packed.tokens, engine_logprobs=np.full(length, np.nan))
        terminal, question = Term.zeros(length), Term.zeros(length)
        others: dict[str, Term] = {}
        for number, start in packed.starts.items():
            executed = consultation.turns[number].executed
            stop = start + len(executed.completion.tokens)
            sequence.engine_logprobs[start:stop] = executed.completion.logprobs
            terminal.select(start, stop, of_turns[number], weight)
            if number in credits and executed.question_start is not None:
                question.select(start + executed.question_start, stop, credits[number])
            _select_others(others, spans.get(number, {}), start, length)
        sequence.terms = {TERMINAL: terminal, KL: Term(terminal.weights, np.zeros(length))}
        _add(sequence, {QUESTION: question, **others})
        sequences.append(sequence)
    return sequences


def candidate_sequences(
    turn: Turn,
    credits: Sequence[float] | np.ndarray,
    spans: Sequence[Spans] = (),
) -> list[TrainingSequence]:
    """Sequences of the unexecuted candidates of a turn that have credited tokens.

    Args:
        turn: a supervised state and its responses.
        credits: question credit of the responses that are trained on, the executed one first.
        spans: what else is credited of each; nothing where questions alone are.
    """
    sequences = []
    none: repeat[Spans] = repeat({})
    rows = zip(turn.responses, credits, spans or none, strict=False)
    for response, credit, own in list(rows)[1:]:
        begin, tokens = len(turn.state), [*turn.state, *response.completion.tokens]
        question, others = Term.zeros(len(tokens)), dict[str, Term]()
        if response.question_start is not None:
            question.select(begin + response.question_start, len(tokens), credit)
        _select_others(others, own, begin, len(tokens))
        logprobs = np.full(len(tokens), np.nan)
        logprobs[begin:] = response.completion.logprobs
        sequence = TrainingSequence(tokens, engine_logprobs=logprobs)
        _add(sequence, {QUESTION: question, **others})
        if sequence.terms:
            sequences.append(sequence)
    return sequences


def _select_others(terms: dict[str, Term], spans: Spans, start: int, length: int) -> None:
    """Credit the spans of the response that starts at a token of a sequence."""
    for name, (first, stop, credit) in spans.items():
        terms.setdefault(name, Term.zeros(length)).select(start + first, start + stop, credit)


def _add(sequence: TrainingSequence, terms: Mapping[str, Term]) -> None:
    """Give the sequence those terms that cover a token."""
    sequence.terms |= {name: term for name, term in terms.items() if term.weights.any()}
