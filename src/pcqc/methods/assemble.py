"""From the consultations of one update to what the learner trains on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases import Case
from pcqc.config import Method
from pcqc.consultation import Consultation
from pcqc.credit.terminal import terminal_advantages
from pcqc.methods.question_groups import QuestionGroup, assign_credit
from pcqc.methods.sequences import (
    KL,
    QUESTION,
    TERMINAL,
    TrainingSequence,
    candidate_sequences,
    executed_sequences,
)


@dataclass
class UpdateBatch:
    """Everything one policy update learns from.

    Attributes:
        sequences: token sequences with their terms.
        rewards: float [cases, G_T].
        advantages: float [cases, G_T], terminal advantages.
    """

    sequences: list[TrainingSequence]
    rewards: np.ndarray
    advantages: np.ndarray


def reward(case: Case, consultation: Consultation) -> float:
    """Terminal reward: 1 for a correct valid final answer, 0 for every other ending."""
    return float(consultation.predicted == case.answer)


def assemble(
    method: Method,
    cases: Sequence[Case],
    consultations: Sequence[Sequence[Consultation]],
    groups: Sequence[QuestionGroup],
) -> UpdateBatch:
    """Turn consultations and their question groups into weighted token sequences.

    Args:
        method: settings; decides whose question tokens are supervised.
        cases: [cases].
        consultations: [cases][G_T]; candidates hang on the first of each case.
        groups: scored question groups of the first consultations; empty without question credit.
    """
    assign_credit(groups, method)
    of_turn = {id(group.turn): group for group in groups}
    rewards = np.array(
        [[reward(case, c) for c in row] for case, row in zip(cases, consultations, strict=True)]
    )
    advantages = np.array([terminal_advantages(row) for row in rewards])
    sequences: list[TrainingSequence] = []
    for row, scores in zip(consultations, advantages, strict=True):
        for consultation, advantage in zip(row, scores, strict=True):
            own = [of_turn[id(t)] for t in consultation.turns if id(t) in of_turn]
            credits = {group.number: float(group.credits[0]) for group in own}
            of_each_turn = [float(advantage)] * len(consultation.turns)
            sequences += executed_sequences(consultation, of_each_turn, credits)
            if method.supervise == "all":
                for group in own:
                    sequences += candidate_sequences(group.turn, group.credits)
    return UpdateBatch(sequences, rewards, advantages)


def coefficients(method: Method) -> dict[str, float]:
    """Weight of each component in the method's loss (Eq. 11)."""
    return {TERMINAL: 1.0, QUESTION: method.beta, KL: method.kl_coefficient}
