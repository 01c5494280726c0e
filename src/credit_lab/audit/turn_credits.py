"""Expected credit of every turn of a course, over the other consultations of its group.

Exact: groups are enumerated as multisets of kinds of courses. Courses of one kind ask the same and
are rewarded alike, which is all that a turn credit reads.
"""

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement
from math import comb, factorial

import numpy as np

from credit_lab.audit.dialogues import Words
from credit_lab.audit.tabular import (
    ASK,
    Course,
    Patient,
    State,
    TabularPolicy,
    TinyClinic,
    reward,
    visited,
)
from pcqc.methods.credit import terminal_advantages
from pcqc.methods.grpo import Grpo
from pcqc.methods.peer_credit import Turns, leave_one_out
from pcqc.methods.turn_credit import CREDITS, Known, TurnCredit

# Consultations that stand for an update without end, each as often as its probability says.
LARGE_UPDATE = 20_000

Kind = tuple[tuple[int, ...], int, float]  # findings asked, turns, reward
Credits = dict[tuple[Patient, Course], np.ndarray]  # float [turns]


def turn_credits(policy: TabularPolicy, method: Grpo) -> Credits:
    """E[A_t | course] of every turn of every course of every patient.

    Args:
        policy: that samples, and whose belief is read where the method says so.
        method: its `turn_credit`, group size and belief.
    """
    if not isinstance(method, TurnCredit):
        return outcome_credits(policy, method.terminal_group)
    if method.turn_credit == "vineppo":
        return _across_update(policy)
    found: Credits = {}
    for patient in policy.clinic.patients:
        kinds = kinds_of(policy.clinic, patient)
        reader = policy if method.belief == "actor" else None
        of_kinds = _of_kinds(
            kinds_probabilities(policy, patient),
            *_groups(policy.clinic, patient, method.turn_credit, method.terminal_group, reader),
        )
        found |= {
            (patient, course): of_kinds[number, : len(course)]
            for number, (_, courses) in enumerate(kinds.items())
            for course in courses
        }
    return found


def outcome_credits(policy: TabularPolicy, group: int, credit=terminal_advantages) -> Credits:
    """Group-relative advantages of GRPO: how many of the others succeed is binomial.

    Args:
        policy: that samples.
        group: G_T.
        credit: rewards [G_T] -> advantages [G_T].
    """
    tables = [
        [credit(np.array([own] + [1.0] * n + [0.0] * (group - 1 - n)))[0] for n in range(group)]
        for own in (0.0, 1.0)
    ]
    found: Credits = {}
    for patient in policy.clinic.patients:
        p = policy.value(patient, ())
        others = [comb(group - 1, n) * p**n * (1 - p) ** (group - 1 - n) for n in range(group)]
        of_reward = [float(np.dot(others, table)) for table in tables]
        for course in policy.clinic.courses:
            credit_of_course = of_reward[int(reward(patient, course))]
            found[patient, course] = np.full(len(course), credit_of_course)
    return found


def reference_credits(policy: TabularPolicy, group: int) -> Credits:
    """Reward less the mean of the others', undivided: its expected gradient is the exact one."""
    return outcome_credits(policy, group, leave_one_out)


@cache
def kinds_of(clinic: TinyClinic, patient: Patient) -> dict[Kind, list[Course]]:
    """Kinds of courses of a patient, with the courses of each."""
    found: dict[Kind, list[Course]] = {}
    for course in clinic.courses:
        asked = tuple(content for kind, content in course if kind == ASK)[: clinic.turns - 1]
        found.setdefault((asked, len(course), reward(patient, course)), []).append(course)
    return found


def kinds_probabilities(policy: TabularPolicy, patient: Patient) -> np.ndarray:
    """float [kinds], P(kind | patient)."""
    rows = kinds_of(policy.clinic, patient).values()
    return np.array([sum(policy.course_probability(patient, c) for c in row) for row in rows])


@cache
def multisets(kinds: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every multiset of so many draws: int [multisets, size], and float [multisets] its orders."""
    groups = list(combinations_with_replacement(range(kinds), size))
    counts = np.array([np.bincount(row, minlength=kinds) for row in groups])
    return np.array(groups), factorial(size) / np.vectorize(factorial)(counts).prod(axis=1)


@cache
def _groups(
    clinic: TinyClinic, patient: Patient, credit: str, size: int, reader: TabularPolicy | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every multiset of kinds, with what a method credits in it.

    Args:
        clinic: the world.
        patient: whose consultations they are.
        credit: name of a turn credit.
        size: G_T.
        reader: whose belief is read; None for the exact posterior, the tiny clinic's scorer.

    Returns:
        int [groups, G_T] numbers of the kinds; orders of each multiset [groups]; float
        [groups, G_T, turns] credits, 0 after the last turn.
    """
    known = _known(clinic, patient, reader)
    groups, orders = multisets(len(known), size)
    credits = np.zeros((*groups.shape, clinic.turns))
    for number, row in enumerate(groups):
        chosen = [known[i] for i in row]
        one = Known(
            np.array([r for r, _, _ in chosen]),
            [states for _, states, _ in chosen],
            [beliefs for _, _, beliefs in chosen],
            [],
        )
        for i, turns in enumerate(CREDITS[credit]([one])[0]):
            credits[number, i, : len(turns)] = turns
    return groups, orders, credits


def _known(
    clinic: TinyClinic, patient: Patient, reader: TabularPolicy | None
) -> list[tuple[float, list[frozenset], np.ndarray]]:
    """Reward, states and beliefs of each kind."""
    words, found = Words(clinic), []
    for courses in kinds_of(clinic, patient).values():
        course = courses[0]
        beliefs = [_belief(clinic, reader, state) for state in visited(patient, course)]
        consultation = words.consultation(patient, course)
        states = [frozenset(turn.exchanges) for turn in consultation.turns]
        of_correct = np.array(beliefs)[:, patient.option]
        found.append((reward(patient, course), states, of_correct))
    return found


def _belief(clinic: TinyClinic, reader: TabularPolicy | None, state: State) -> np.ndarray:
    """Of the scorer, or of the actor: of each option if it had answered then."""
    if reader is None:
        return clinic.posterior(state)
    return reader.probabilities.answer[clinic.states[state]]


def _of_kinds(
    probabilities: np.ndarray, groups: np.ndarray, orders: np.ndarray, credits: np.ndarray
) -> np.ndarray:
    """E[credit | kind], float [kinds, turns]; see `_groups`."""
    weight = orders * probabilities[groups].prod(axis=1) / groups.shape[1]
    total = np.zeros((len(probabilities), credits.shape[2]))
    np.add.at(total, groups, weight[:, None, None] * credits)
    return total / np.where(probabilities > 0, probabilities, 1)[:, None]


def _across_update(policy: TabularPolicy) -> Credits:
    """VinePPO with exact values, standardised across a large update.

    Monte-Carlo values are unbiased: they make the gradient noisier and, through the larger
    deviation, shorter, and leave its direction.
    """
    pairs = [(p, c) for p in policy.clinic.patients for c in policy.clinic.courses]
    shares = [p.probability * policy.course_probability(p, c) for p, c in pairs]
    times = often(shares, LARGE_UPDATE)
    values: list[np.ndarray] = [
        np.array([policy.value(p, state) for state in visited(p, c)]) for p, c in pairs
    ]
    known = Known(
        np.repeat([reward(p, c) for p, c in pairs], times),
        [],
        [row for row, n in zip(values, times, strict=True) for _ in range(n)],
        [row for row, n in zip(values, times, strict=True) for _ in range(n)],
    )
    credits: Turns = CREDITS["vineppo"]([known])[0]
    firsts = np.cumsum(times) - times
    return {
        pair: credits[first] if n else np.zeros(len(pair[1]))
        for pair, first, n in zip(pairs, firsts, times, strict=True)
    }


def often(shares: Sequence[float], total: int) -> np.ndarray:
    """How often each of some alternatives occurs in so many draws, in proportion, at least once."""
    scaled = np.asarray(shares) / np.sum(shares) * total
    return np.maximum(np.round(scaled), scaled > 0).astype(int)
