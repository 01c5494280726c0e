"""From the consultations of one update to what the learner trains on."""

from collections.abc import Sequence

import numpy as np

from pcqc.config import Method
from pcqc.consultation import Consultation
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.sequences import (
    KL,
    QUESTION,
    TERMINAL,
    TrainingSequence,
    candidate_sequences,
    executed_sequences,
)


def assemble(
    method: Method,
    consultations: Sequence[Sequence[Consultation]],
    advantages: Sequence[np.ndarray],
    groups: Sequence[Sequence[QuestionGroup]],
) -> list[TrainingSequence]:
    """Turn consultations and credit into weighted token sequences.

    Args:
        method: settings; decides whose question tokens are supervised.
        consultations: [cases][G_T]; candidates hang on the first of each case.
        advantages: [cases], float [G_T]: terminal advantages.
        groups: [cases], credited question groups of the first consultation; empty lists without
            question credit.
    """
    sequences: list[TrainingSequence] = []
    for row, scores, own in zip(consultations, advantages, groups, strict=True):
        for consultation, score in zip(row, scores, strict=True):
            here = own if consultation is row[0] else []
            credits = {group.number: float(group.credits[0]) for group in here}
            of_turns = [float(score)] * len(consultation.turns)
            sequences += executed_sequences(consultation, of_turns, credits)
            if method.supervise == "all":
                for group in here:
                    sequences += candidate_sequences(group.turn, group.credits)
    return sequences


def coefficients(method: Method) -> dict[str, float]:
    """Weight of each component in the method's loss (Eq. 11)."""
    return {TERMINAL: 1.0, QUESTION: method.beta, KL: method.kl_coefficient}
