"""From consultations to training sequences: which tokens each term of the loss covers."""

from collections.abc import Mapping, Sequence

import numpy as np

from pcqc.consultation import Consultation, Turn
from pcqc.training.sequences import KL, Term, TrainingSequence, pack_turns

TERMINAL, QUESTION = "terminal", "question"


def executed_sequences(
    consultation: Consultation,
    advantages: float | Sequence[float] | np.ndarray,
    credits: Mapping[int, float] | None = None,
    weight: float = 1.0,
) -> list[TrainingSequence]:
    """Sequences of a complete consultation.

    Args:
        consultation: to train on.
        advantages: of all tokens of an executed response; one per turn, or the same for all.
        credits: turn number -> question credit of its executed question.
        weight: of each actor token in the terminal loss and the KL penalty.
    """
    credits = credits or {}
    of_turns = np.broadcast_to(advantages, len(consultation.turns))
    sequences = []
    for packed in pack_turns(consultation.executed):
        length = len(packed.tokens)
        sequence = TrainingSequence(packed.tokens, engine_logprobs=np.full(length, np.nan))
        terminal, question = Term.zeros(length), Term.zeros(length)
        for number, start in packed.starts.items():
            executed = consultation.turns[number].executed
            stop = start + len(executed.completion.tokens)
            sequence.engine_logprobs[start:stop] = executed.completion.logprobs
            terminal.select(start, stop, of_turns[number], weight)
            if number in credits and executed.question_start is not None:
                question.select(start + executed.question_start, stop, credits[number])
        sequence.terms = {TERMINAL: terminal, KL: Term(terminal.weights, np.zeros(length))}
        if question.weights.any():
            sequence.terms[QUESTION] = question
        sequences.append(sequence)
    return sequences


def candidate_sequences(
    turn: Turn, credits: Sequence[float] | np.ndarray
) -> list[TrainingSequence]:
    """Sequences of the unexecuted candidates of a turn that have question tokens.

    Args:
        turn: a supervised state and its responses.
        credits: question credit of the responses that are trained on, the executed one first.
    """
    sequences = []
    for response, credit in list(zip(turn.responses, credits, strict=False))[1:]:
        if response.question_start is None:
            continue
        tokens = [*turn.state, *response.completion.tokens]
        question = Term.zeros(len(tokens))
        question.select(len(turn.state) + response.question_start, len(tokens), credit)
        logprobs = np.full(len(tokens), np.nan)
        logprobs[len(turn.state) :] = response.completion.logprobs
        sequences.append(TrainingSequence(tokens, {QUESTION: question}, logprobs))
    return sequences
