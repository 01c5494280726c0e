"""Expected credit of every turn of a course, over the other consultations of its group.

Exact: groups are enumerated as multisets of kinds of courses. Courses of one kind ask the same and
have the same reward; a turn credit reads nothing else, unless it reads shifts.
"""

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement
from math import factorial

import numpy as np

from credit_lab.audit.enumerable_clinic import (
    ASK,
    Course,
    Patient,
    TabularPolicy,
    TinyClinic,
    reward,
    visited,
)
from turn_credit import Credit, Group, ProcessGroup, credit_update, critiques_of

# Consultations in an update that stands for an infinite one; each course is as frequent as its
# probability says.
LARGE_UPDATE = 20_000

Credits = dict[tuple[Patient, Course], np.ndarray]  # float [turns]


def group_credits(
    policy: TabularPolicy,
    credit: str | Credit,
    size: int,
    reader: TabularPolicy | None,
    shifted: bool = False,
) -> Credits:
    """E[A_t | course] of every turn of every course of every patient, over groups of one case.

    Args:
        policy: that samples.
        credit: compares the consultations of a group.
        size: consultations in a group.
        reader: whose belief the credit reads; see `_groups`.
        shifted: whether it reads shifts, which are the policy's.
    """
    clinic, credits_of_courses = policy.clinic, {}
    for patient in clinic.patients:
        kinds = _kinds(clinic, patient, shifted)
        shares = np.array(
            [sum(policy.course_probability(patient, c) for c in row) for row in kinds]
        )
        own = policy if shifted else None
        groups, orders, credits = _groups(clinic, patient, credit, size, reader, own)
        weight = orders * shares[groups].prod(axis=1) / size
        total = np.zeros((len(kinds), clinic.turns))
        np.add.at(total, groups, weight[:, None, None] * credits)
        of_kinds = total / np.where(shares > 0, shares, 1)[:, None]
        for courses, of_kind in zip(kinds, of_kinds, strict=True):
            for course in courses:
                credits_of_courses[patient, course] = of_kind[: len(course)]
    return credits_of_courses


def shifts_of(policy: TabularPolicy, patient: Patient, course: Course) -> np.ndarray:
    """InfoPO's shift of each turn, float [turns]: how much likelier its answer made the next act.

    It is a mean over both tokens. Without the answer the doctor is where it was before the turn.
    """
    before = visited(patient, course)
    chances = [[policy.probability(state, act) for state in before] for act in course]
    told = [np.log(chances[t + 1][t + 1] / chances[t + 1][t]) / 2 for t in range(len(course) - 1)]
    return np.array([*told, 0.0])


@cache
def _kinds(clinic: TinyClinic, patient: Patient, apart: bool) -> list[list[Course]]:
    """The courses of each kind: those with the same answered questions, turns and reward.

    Shifts tell all courses apart.
    """
    if apart:
        return [[course] for course in clinic.courses]
    kinds: dict[tuple, list[Course]] = {}
    for course in clinic.courses:
        asked = tuple(content for kind, content in course if kind == ASK)[: clinic.turns - 1]
        kinds.setdefault((asked, len(course), reward(patient, course)), []).append(course)
    return list(kinds.values())


@cache
def multisets(kinds: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every multiset of so many draws: int [multisets, size], and float [multisets] its orders."""
    groups = list(combinations_with_replacement(range(kinds), size))
    counts = np.array([np.bincount(row, minlength=kinds) for row in groups])
    return np.array(groups), factorial(size) / np.vectorize(factorial)(counts).prod(axis=1)


@cache
def _groups(
    clinic: TinyClinic,
    patient: Patient,
    credit: str | Credit,
    size: int,
    reader: TabularPolicy | None,
    shifted: TabularPolicy | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every multiset of kinds, with a method's credits in it.

    Args:
        clinic: the world.
        patient: the consultations' patient.
        credit: a turn credit, or its name.
        size: G_T.
        reader: whose belief is read, of each option if it had answered then; None for the exact
            posterior, the tiny clinic's scorer.
        shifted: whose shifts are read; None where the credit reads none.

    Returns:
        int [groups, G_T] numbers of the kinds; orders of each multiset [groups]; float
        [groups, G_T, turns] credits, 0 after the last turn.
    """
    rewards, states, beliefs, shifts = [], [], [], []
    for course, *_ in _kinds(clinic, patient, shifted is not None):
        before = visited(patient, course)
        rewards.append(reward(patient, course))
        states.append([frozenset(state) for state in before])
        read = [
            clinic.posterior(state)
            if reader is None
            else reader.probabilities.answer[clinic.states[state]]
            for state in before
        ]
        beliefs.append(np.array(read)[:, patient.option])
        shifts.append(shifts_of(shifted, patient, course) if shifted else None)
    groups, orders = multisets(len(rewards), size)
    credits = np.zeros((*groups.shape, clinic.turns))
    for number, row in enumerate(groups):
        read = [beliefs[i] for i in row]
        group = ProcessGroup(
            np.array([rewards[i] for i in row]),
            states=[states[i] for i in row],
            beliefs=read,
            critiques=critiques_of(read),
            shifts=[shifts[i] for i in row] if shifted else None,
        )
        for i, of_turns in enumerate(credit_update(credit, [group])[0]):
            credits[number, i, : len(of_turns)] = of_turns
    return groups, orders, credits


def across_update(policy: TabularPolicy, credit: str | Credit) -> Credits:
    """Of a credit that reads values, exact ones, in a large update; VinePPO is one.

    Monte-Carlo values are unbiased: they make the gradient noisier and, through the larger
    deviation, shorter, and leave its direction.
    """
    pairs = [(p, c) for p in policy.clinic.patients for c in policy.clinic.courses]
    shares = [p.probability * policy.course_probability(p, c) for p, c in pairs]
    times = often(shares, LARGE_UPDATE)
    values = [
        np.array([policy.value(patient, state) for state in visited(patient, course)])
        for patient, course in pairs
    ]
    rewards = np.repeat([reward(patient, course) for patient, course in pairs], times)
    every = [row for row, n in zip(values, times, strict=True) for _ in range(n)]
    credits = credit_update(credit, [Group(rewards, values=every)])[0]
    firsts = np.cumsum(times) - times
    return {
        pair: credits[first] if n else np.zeros(len(pair[1]))
        for pair, first, n in zip(pairs, firsts, times, strict=True)
    }


def often(shares: Sequence[float], total: int) -> np.ndarray:
    """Counts in proportion to the shares, `total` up to rounding; at least 1 of each above 0."""
    scaled = np.asarray(shares) / np.sum(shares) * total
    return np.maximum(np.round(scaled), scaled > 0).astype(int)
