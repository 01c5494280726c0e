"""Credits of candidate questions: the paper's (sec:method:credit), its controls', and peers'."""

from typing import Any

import numpy as np

from turn_credit.arithmetic import (
    THRESHOLD,
    Divisor,
    diagnostic_gain,
    executed_local_credit,
    leave_one_out,
    pooled_variance,
    same_state_credit,
)
from turn_credit.group import Group, Ragged
from turn_credit.registry import credit


def _pooled(settings: dict[str, Any]) -> bool:
    """Whether the deviation is one of an update."""
    return settings.get("divide") in ("update", "shrunk")


@credit("PCQC", "questions", joins=_pooled)
def pcqc(group: Group, divide: Divisor = "group", threshold: float = THRESHOLD) -> Ragged:
    """Each candidate question, compared with the others at its state (PCQC).

    Args:
        group: with utilities; `update` and `shrunk` need all consultations of an update, which
            `credit_update` joins.
        divide, threshold: see `same_state_credit`.

    Formula: A_k = (u_k − mean u) / (sd u + 1e-6); 0 where sd < 1e-4
    Needs: utilities: a frozen scorer that reads the answer, and the label
    Costs: an answer and a reading per candidate
    Bias: values an answer as the scorer reads it; opposes the policy gradient where the policy
        reads it otherwise; does not shrink as the candidates become alike
    Source: the paper, eq:group_credit
    """
    states = group.read("utilities")
    pooled = pooled_variance(states)
    return [same_state_credit(utilities, divide, threshold, pooled) for utilities in states]


@credit("Same-State-Q1", "questions")
def same_state_q1(group: Group) -> Ragged:
    """PCQC's credit of the executed question; the other candidates only compare (a control).

    Formula: that of `pcqc` for k = 0; 0 for all others
    Needs: utilities
    Costs: an answer and a reading per candidate
    Bias: that of `pcqc`
    Source: the paper, app:same_state_q1
    """
    return [_first_alone(credits) for credits in pcqc(group)]


@credit("Executed-local", "questions", scope="update")
def executed_local(group: Group) -> Ragged:
    """The executed question's gain, compared across all states of an update (a control).

    Formula: A_0 = z(u_0 − b) over the executed questions of the update; 0 for the candidates
    Needs: utilities and baselines: a frozen scorer, and the label
    Costs: a reading per turn
    Bias: that of `pcqc`; a state's own level is credited to its question
    Source: the paper, eq:executed_local_gain
    """
    utilities, baselines = group.read("utilities"), np.asarray(group.given("baselines"), float)
    pairs = zip(utilities, baselines, strict=True)
    gains = [diagnostic_gain(row, baseline)[0] for row, baseline in pairs]
    credits = executed_local_credit(gains)
    return [_first_alone(np.full(len(u), a)) for u, a in zip(utilities, credits, strict=True)]


@credit("C3", "questions")
def c3(group: Group, divide: bool = False) -> Ragged:
    """Each candidate's value less the mean of the others, by playing on (C3).

    Args:
        group: with values of consultations played on.
        divide: by the population's deviation within the state, as the release does afterwards. Its
            default subtracts the mean of a critic's values, which is not done here.

    Formula: A_k = V_k − mean_{j≠k} V_j
    Needs: continued: consultations played on from each candidate
    Costs: a consultation per candidate
    Bias: none; a single continuation is mostly luck
    Source: Chen et al. 2026 (arXiv 2603.06859), release EIT-EAST-Lab/C3 628185b
    """
    credits = [leave_one_out(values) for values in group.read("continued")]
    return [row / np.sqrt(row.var() + 1e-8) for row in credits] if divide else credits


@credit("Expected answer", "questions")
def expected_answer(group: Group) -> Ragged:
    """PCQC's comparison, of a utility averaged over the answers that a question might get.

    Formula: A_k = z(U_k), U = Σ_y b(y) Σ_a P(a∣y) b(y∣a)
    Needs: expected: the world's probabilities, or imagined answers; no label
    Costs: nothing where the world is known; else n answers and readings per candidate
    Bias: as `pcqc`; the luck of one answer is gone
    Source: ours; see `expected_probability`
    """
    return [same_state_credit(values) for values in group.read("expected")]


def _first_alone(credits: np.ndarray) -> np.ndarray:
    return np.append(credits[:1], np.zeros(len(credits) - 1))
