"""One credit on the replay bundle and in the audit's tiny clinic, as a row of numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.statistics.estimates import rank_correlations
from clinic_env import load
from clinic_env.world import asked_findings
from credit_lab.audit.gradients import Beside, compare
from credit_lab.bench.bundle import State, each_executed
from credit_lab.bench.probes import Behaviour, behaviour, costs
from pcqc_study.intervals_over_cases import percentile_interval, resampled_means
from turn_credit import Credit, Group, credit_update

VALUES = ("q_star", "last")
READ_BY_ACTOR = ("igpo", "a2tgpo")  # as their sources do; others read the frozen scorer's beliefs
SAME = 1e-9  # exact values that differ by less are equal
# Sampled for the share of luck of credits that read one answer.
LUCK_STATES, LUCK_DRAWS = 400, 8


@dataclass(frozen=True)
class Estimate:
    """A mean over cases with its 95 % interval from resampled cases."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """What a credit reached; NaN or None where it does not apply.

    Attributes:
        title: the credit's.
        of: `questions` or `turns`.
        known: what it reads, and does at ties.
        states: how many of the bundle's have what it reads.
        rank: exact value -> Spearman's correlation with it, mean over states.
        regret: exact value -> of the question that it favours, in points.
        gradients: policy of the tiny clinic -> its expected gradient beside the exact one.
        luck: share of its variance that another answer or continuation changes, %.
        idle: questions that can tell nothing, credited above their state's mean, %; ties half.
        samples, reads: responses sampled and readings, for each credited question.
    """

    title: str
    of: str
    known: Behaviour
    states: int = 0
    rank: dict[str, Estimate] | None = None
    regret: dict[str, Estimate] | None = None
    gradients: dict[str, Beside] | None = None
    luck: float | None = None
    idle: float = np.nan
    samples: float = np.nan
    reads: float = np.nan


def score(credit: Credit, states: Sequence[State], exact: bool = False) -> Score:
    """Judge a credit.

    Args:
        credit: one of turns or questions.
        states: the bundle's.
        exact: feed it Q* in place of continuations' rewards: a control of the bench itself.
    """
    known = behaviour(credit)
    if known.missing:
        return Score(credit.title, credit.of, known)
    reader = reader_of(credit)
    played = [state for state in states if state.draws]
    continued = credit.of == "turns" or ("continued" in known.reads and not exact)
    used = played if continued else states
    gradients = None
    try:
        gradients = compare(credit, known.reads, reader, known.alone)
        credits = _credits(credit, used, continued, exact, reader)
    except ValueError as problem:  # the tiny clinic's policies have what the bundle has not
        lacking = replace(known, missing=str(problem.__cause__ or problem))
        return Score(credit.title, credit.of, lacking, gradients=gradients)
    paths = [(s, len(path)) for s in played for rows in s.row["states"] for path in rows]
    left = float(np.mean([length - s.row["turn"] for s, length in paths]))
    turns = float(np.mean([length for _, length in paths]))
    samples, reads = costs(credit, known, played[0].count, turns, left)
    return Score(
        credit.title,
        credit.of,
        known,
        len(used),
        {value: _over_cases(rank_correlation, credits, used, value) for value in VALUES},
        {value: _over_cases(regret, credits, used, value) for value in VALUES},
        gradients,
        _luck(credit, known, credits, states, continued),
        _idle(credits, used),
        samples,
        reads,
    )


def rank_correlation(credits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Spearman's, of each row; 0 where a row's credits, or values, are all equal."""
    return np.nan_to_num(rank_correlations(np.round(credits, 9), np.round(values, 9)))


def regret(credits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Value of a row's best candidate less that of its favourite, in points; equals share it."""
    favourite = credits >= credits.max(axis=-1, keepdims=True) - SAME
    chosen = (favourite * values).sum(axis=-1) / favourite.sum(axis=-1)
    return 100 * (values.max(axis=-1) - chosen)


def _over_cases(
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray],
    credits: np.ndarray,
    states: Sequence[State],
    value: str,
) -> Estimate:
    """Mean of a measure over draws and a case's states, then over cases; of states that differ."""
    values = np.array([state.values[value] for state in states])
    differ = np.ptp(values, axis=1) > SAME
    measured = measure(credits[:, differ], values[differ]).mean(axis=0)
    cases = np.array([state.row["case"] for state in states])[differ]
    means = pd.Series(measured, dtype=float).groupby(cases).mean().to_numpy()
    if not len(means):
        return Estimate(np.nan, np.nan, np.nan)
    interval = percentile_interval(resampled_means(means[:, None])[:, 0])
    return Estimate(float(means.mean()), interval.low, interval.high)


def reader_of(credit: Credit) -> str:
    """Whose beliefs a credit reads, `actor` or `scorer`."""
    return "actor" if credit.name in READ_BY_ACTOR else "scorer"


def _credits(
    credit: Credit, states: Sequence[State], continued: bool, exact: bool, reader: str
) -> np.ndarray:
    """float [draws, states, K]."""
    draws = []
    for draw in range(states[0].draws if continued else 1):
        if credit.of == "turns":
            groups = [s.consultations(draw, reader) for s in states]
            credits = credit_update(credit, groups, unknown="nan")
            pairs = zip(states, credits, strict=True)
            draws.append([[row[s.row["turn"] - 1] for row in rows] for s, rows in pairs])
        else:
            groups = [s.candidates(draw, s.values["q_star"] if exact else None) for s in states]
            draws.append(_firsts(credit, groups))
    return np.array(draws, float)


def _firsts(credit: Credit, groups: Sequence[Group]) -> list[list[float]]:
    """Credit of the executed candidate of each of a group's states."""
    return [[row[0] for row in rows] for rows in credit_update(credit, groups)]


def _idle(credits: np.ndarray, states: Sequence[State]) -> float:
    """`Score.idle`, of states where another candidate can tell something."""
    idle = np.array([state.idle for state in states])
    counted = idle & ~idle.all(axis=1, keepdims=True)
    above = (credits - credits.mean(axis=-1, keepdims=True))[:, counted]
    return float(100 * ((above > SAME) + 0.5 * (np.abs(above) <= SAME)).mean())


def _luck(
    credit: Credit, known: Behaviour, credits: np.ndarray, states: Sequence[State], continued: bool
) -> float | None:
    """`Score.luck`: %, or None where it does not apply."""
    if "values" in known.reads:  # its draws share continuations
        return None
    if not continued:
        rng, some = np.random.default_rng(0), states[:: max(1, len(states) // LUCK_STATES)]
        drawn = range(LUCK_DRAWS)
        credits = np.array([_firsts(credit, [_drawn(s, rng) for s in some]) for _ in drawn])
    total = credits.var(ddof=1)
    return None if total < SAME else float(100 * credits.var(axis=0, ddof=1).mean() / total)


def _drawn(state: State, rng: np.random.Generator) -> Group:
    """The candidates under another patient whose consultation came to the same state.

    Diagnosis and answers are drawn from the exact posterior, which is the scorer too.
    """
    row, (world, _) = state.row, load()
    belief = np.array(row["posterior"])
    option = int(rng.choice(len(belief), p=belief))
    table = world.table[[world.diseases.index(name) for name in row["options"]]]
    asked = {f for e in row["exchanges"] for f in asked_findings(world, e["question"])}
    utilities = []
    for question in row["candidates"]:
        weight = belief.copy()
        for finding in sorted(asked_findings(world, question or "") - asked):
            chance = table[:, finding]
            weight *= chance if rng.random() < chance[option] else 1 - chance
        utilities.append(weight[option] / weight.sum())
    return each_executed(utilities, belief[option], row["expected"], utilities)
