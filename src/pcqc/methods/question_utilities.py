"""What candidate questions are compared by: the paper's scorer, or another judge of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.methods.continuations import after_candidates, continue_all
from pcqc.methods.question_groups import QuestionGroup, score_groups, supervised_states
from pcqc.roles import Scorer

Firsts = Sequence[tuple[Case, Consultation]]


class Name(NamedTuple):
    """What the random streams of an update are named by."""

    seed: int
    stage: str


@dataclass(frozen=True)
class Judged:
    """Candidate groups with utilities.

    Attributes:
        groups: one list per consultation; a state that could not be judged has none.
        consultations: how many complete ones were played to judge.
        sampled_tokens: that the actor sampled in these.
    """

    groups: list[list[QuestionGroup]]
    consultations: int = 0
    sampled_tokens: int = 0


# Judges the candidates of consultations.
Utility = Callable[[RolloutContext, Firsts, Name], Judged]


def by_scorer(scorer: Scorer) -> Utility:
    """u_i of eq:diagnostic_utility."""

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        with context.timed("scorer"):
            return Judged(score_groups(scorer, firsts))

    return judge


def by_continuations(count: int) -> Utility:
    """Mean reward of `count` consultations that go on from each candidate, as C3 has it."""

    def judge(context: RolloutContext, firsts: Firsts, name: Name) -> Judged:
        places = states_of(firsts)
        every = [after_candidates(context, *firsts[i], number) for i, number in places]
        flat = [dialogue for row in every for dialogue in row]
        found = continue_all(context, flat, count, seed=name.seed, stage=name.stage)
        ends = np.cumsum([len(row) for row in every])[:-1]
        groups = group_by(firsts, places, np.split(found.values, ends) if places else [])
        return Judged(groups, found.consultations, found.sampled_tokens)

    return judge


def group_by(
    firsts: Firsts, places: Sequence[tuple[int, int]], values: Sequence[np.ndarray]
) -> list[list[QuestionGroup]]:
    """Groups whose candidates are compared with the mean of their own utilities.

    Args:
        firsts: the consultations.
        places: number of the consultation and of the turn, for each state.
        values: float [K] of each state; one with a NaN could not be judged, and has no group.
    """
    groups: list[list[QuestionGroup]] = [[] for _ in firsts]
    for (i, number), utilities in zip(places, values, strict=True):
        if not np.isnan(utilities).any():
            case, consultation = firsts[i]
            turn, none = consultation.turns[number], np.zeros(len(utilities))
            mean = float(utilities.mean())
            groups[i].append(QuestionGroup(case, number, turn, mean, utilities, none))
    return groups


def states_of(firsts: Firsts) -> list[tuple[int, int]]:
    """Number of the consultation and of the turn of every supervised state."""
    return [(i, n) for i, (_, c) in enumerate(firsts) for n, _ in supervised_states(c)]
