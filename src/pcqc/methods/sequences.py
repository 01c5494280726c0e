"""From consultations to training sequences: which tokens each term of the loss covers."""

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from pcqc.consultation import Consultation, Turn
from pcqc.training.training_sequence import KL, Term, TrainingSequence, pack_turns

TERMINAL, QUESTION, THOUGHT = "terminal", "question", "thought"

Thought = tuple[int, float]  # how many tokens a response begins with, and their credit


def executed_sequences(
    consultation: Consultation,
    advantages: float | Sequence[float] | np.ndarray,
    credits: Mapping[int, float] | None = None,
    weight: float = 1.0,
    thoughts: Mapping[int, Thought] | None = None,
) -> list[TrainingSequence]:
    """Sequences of a complete consultation.

    Args:
        consultation: to train on.
        advantages: of all tokens of an executed response; one per turn, or the same for all.
        credits: turn number -> question credit of its executed question.
        weight: of each actor token in the terminal loss and the KL penalty.
        thoughts: turn number -> the credited thought of its executed response.
    """
    credits, thoughts = credits or {}, thoughts or {}
    of_turns = np.broadcast_to(advantages, len(consultation.turns))
    sequences = []
    for packed in pack_turns(consultation.executed):
        length = len(packed.tokens)
        sequence = TrainingSequence(packed.tokens, engine_logprobs=np.full(length, np.nan))
        terminal, question, thought = (Term.zeros(length) for _ in range(3))
        for number, start in packed.starts.items():
            executed = consultation.turns[number].executed
            stop = start + len(executed.completion.tokens)
            sequence.engine_logprobs[start:stop] = executed.completion.logprobs
            terminal.select(start, stop, of_turns[number], weight)
            if number in credits and executed.question_start is not None:
                question.select(start + executed.question_start, stop, credits[number])
            if number in thoughts:
                count, credit = thoughts[number]
                thought.select(start, start + count, credit)
        sequence.terms = {TERMINAL: terminal, KL: Term(terminal.weights, np.zeros(length))}
        _add(sequence, {QUESTION: question, THOUGHT: thought})
        sequences.append(sequence)
    return sequences


def candidate_sequences(
    turn: Turn,
    credits: Sequence[float] | np.ndarray,
    thoughts: Sequence[Thought] = (),
) -> list[TrainingSequence]:
    """Sequences of the unexecuted candidates of a turn that have credited tokens.

    Args:
        turn: a supervised state and its responses.
        credits: question credit of the responses that are trained on, the executed one first.
        thoughts: their credited thoughts; none where thoughts are not credited.
    """
    sequences = []
    none = repeat((0, 0.0))
    rows = zip(turn.responses, credits, thoughts or none, strict=False)
    for response, credit, (count, of_thought) in list(rows)[1:]:
        begin, tokens = len(turn.state), [*turn.state, *response.completion.tokens]
        question, thought = Term.zeros(len(tokens)), Term.zeros(len(tokens))
        if response.question_start is not None:
            question.select(begin + response.question_start, len(tokens), credit)
        thought.select(begin, begin + count, of_thought)
        logprobs = np.full(len(tokens), np.nan)
        logprobs[begin:] = response.completion.logprobs
        sequence = TrainingSequence(tokens, engine_logprobs=logprobs)
        _add(sequence, {QUESTION: question, THOUGHT: thought})
        if sequence.terms:
            sequences.append(sequence)
    return sequences


def _add(sequence: TrainingSequence, terms: Mapping[str, Term]) -> None:
    """Give the sequence those terms that cover a token."""
    sequence.terms |= {name: term for name, term in terms.items() if term.weights.any()}
