"""Is a group's baseline biased where the policy decides when to stop? Exact, in the tiny clinic.

Every turn but the last has a reward r_k, the gain of the correct option's probability. Credit of a
turn is its reward to go less a baseline. Three baselines, as means over infinitely many
consultations of the same patient, so that only what they condition on differs:

- `per turn`: of every later turn k the mean of r_k over the consultations that have a turn k, as in
  MT-GRPO (Zeng et al. 2025). Whether k comes depends on the turn's own choice to ask or to stop.
- `to go`: the mean reward to go of the consultations that reached the turn, known before it.
- `whole`: the mean of all rewards of a consultation, as GRPO's.
"""

from collections import defaultdict

import numpy as np

from credit_lab.audit.tabular import (
    Course,
    Patient,
    TabularPolicy,
    add_course,
    exact_gradient,
    visited,
)
from credit_lab.parts import Parts

BASELINES = ("per turn", "to go", "whole")


def turn_rewards(policy: TabularPolicy, patient: Patient, course: Course) -> np.ndarray:
    """float [turns], r_k; 0 for the last turn, after which nothing is heard."""
    clinic = policy.clinic
    beliefs = [clinic.posterior(state)[patient.option] for state in visited(patient, course)]
    return np.append(np.diff(beliefs), 0.0)


def intended(policy: TabularPolicy) -> Parts:
    """Exact gradient of the expected sum of the turns' rewards."""
    return exact_gradient(policy, lambda p, c: float(turn_rewards(policy, p, c).sum()))


def estimated(policy: TabularPolicy, baseline: str) -> Parts:
    """Expected gradient of the estimator with one of `BASELINES`."""
    clinic = policy.clinic
    weights = clinic.zeros()
    for patient in clinic.patients:
        shares = {c: policy.course_probability(patient, c) for c in clinic.courses}
        rewards = {c: turn_rewards(policy, patient, c) for c in clinic.courses}
        to_go = {c: r[::-1].cumsum()[::-1] for c, r in rewards.items()}
        compared = rewards if baseline == "per turn" else to_go
        means = _means(shares, compared)
        for course, share in shares.items():
            turns = len(course)
            if baseline == "per turn":
                later = (rewards[course] - means[:turns])[::-1].cumsum()[::-1]
            elif baseline == "to go":
                later = to_go[course] - means[:turns]
            else:
                later = to_go[course] - means[0]
            amount = patient.probability * share * later
            add_course(weights, clinic, patient, course, amount)
    return policy.gradient(weights)


def hidden_bonus(policy: TabularPolicy) -> Parts:
    """What `per turn` adds to the intended gradient, in closed form.

    It is -sum_k m_k grad P(a consultation has a turn k), with m_k the mean of r_k over those that
    have one: where turns gain something, a push to stop.
    """
    clinic = policy.clinic
    weights = clinic.zeros()
    for patient in clinic.patients:
        shares = {c: policy.course_probability(patient, c) for c in clinic.courses}
        rewards = {c: turn_rewards(policy, patient, c) for c in clinic.courses}
        means = _means(shares, rewards)
        for course, share in shares.items():
            amount = -patient.probability * share * float(means[: len(course)].sum())
            add_course(weights, clinic, patient, course, amount)
    return policy.gradient(weights)


def _means(shares: dict[Course, float], values: dict[Course, np.ndarray]) -> np.ndarray:
    """float [most turns], mean at each turn over the courses that have it."""
    total: dict[int, float] = defaultdict(float)
    weight: dict[int, float] = defaultdict(float)
    for course, share in shares.items():
        for turn, value in enumerate(values[course]):
            total[turn] += share * value
            weight[turn] += share
    return np.array([total[turn] / weight[turn] for turn in sorted(weight)])
