"""One credit on the replay bundle and in the audit's tiny clinic, as a row of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinic_env import load
from clinic_env.world import asked_findings
from credit_lab.audit.gradients import Beside, compare
from credit_lab.bench.bundle import State, each_executed
from turn_credit import Credit, Group, credit_update
from turn_credit.probes import Behaviour, behaviour, costs
from turn_credit.ranking import (
    Estimate,
    apart,
    differing,
    idle_share,
    luck,
    over_clusters,
    rank_correlation,
    regret,
)

VALUES = ("q_star", "last")
READ_BY_ACTOR = ("igpo", "a2tgpo")  # as their sources do; others read the frozen scorer's beliefs
MEASURES = {"rank": rank_correlation, "regret": regret}
LUCK_DRAWS = 8  # for the share of luck of credits that read one answer


@dataclass(frozen=True)
class Score:
    """What a credit reached; NaN or None where it does not apply.

    Attributes:
        title: the credit's.
        of: `questions` or `turns`.
        known: what it reads, and does at ties.
        states: those that every credit is asked at.
        rank: exact value -> Spearman's correlation with it, mean over states.
        by_policy: who asked -> `rank` with `last`, at the policy's states.
        regret: exact value -> of the question that it favours, in points.
        gradients: policy of the tiny clinic -> its expected gradient beside the exact one.
        luck: share of its variance that another answer or continuation changes, %.
        idle: questions that can tell nothing, credited above their state's mean, %; ties half.
        idles: such questions, where another one can tell something.
        samples, reads: responses sampled and readings, for each credited question.
    """

    title: str
    of: str
    known: Behaviour
    states: int = 0
    rank: dict[str, Estimate] | None = None
    regret: dict[str, Estimate] | None = None
    by_policy: dict[str, Estimate] | None = None
    gradients: dict[str, Beside] | None = None
    luck: float | None = None
    idle: float = np.nan
    idles: int = 0
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
    used = shared(states)
    continued = credit.of == "turns" or ("continued" in known.reads and not exact)
    gradients = None
    try:
        gradients = compare(credit, known.reads, reader, known.alone)
        credits = _credits(credit, used, continued, exact, reader)
    except ValueError as problem:  # the tiny clinic's policies have what the bundle has not
        lacking = replace(known, missing=str(problem.__cause__ or problem))
        return Score(credit.title, credit.of, lacking, gradients=gradients)
    paths = [(s, len(path)) for s in used for rows in s.row["states"] for path in rows]
    left = float(np.mean([length - s.row["turn"] for s, length in paths]))
    turns = float(np.mean([length for _, length in paths]))
    samples, reads = costs(credit, known, used[0].count, turns, left)
    measured = {
        name: {value: _over_cases(measure, credits, used, value) for value in VALUES}
        for name, measure in MEASURES.items()
    }
    idle = np.array([state.idle for state in used])
    return Score(
        credit.title,
        credit.of,
        known,
        len(used),
        **measured,
        by_policy=_by_policy(credits, used),
        gradients=gradients,
        luck=_luck(credit, known, credits, used, continued),
        idle=idle_share(credits, idle),
        idles=int(apart(idle).sum()),
        samples=samples,
        reads=reads,
    )


def shared(states: Sequence[State]) -> list[State]:
    """The states that every credit is asked at: all candidates ask, and each was played on."""
    return [state for state in states if state.draws and all(state.row["candidates"])]


def _over_cases(measure, credits: np.ndarray, states: Sequence[State], value: str) -> Estimate:
    """Mean of a measure over draws and a case's states, then over cases; of states that differ."""
    values = np.array([state.values[value] for state in states])
    differ = differing(values)
    cases = np.array([state.row["case"] for state in states])[differ]
    return over_clusters(measure(credits[:, differ], values[differ]).mean(axis=0), cases)


def _by_policy(credits: np.ndarray, states: Sequence[State]) -> dict[str, Estimate]:
    places: dict[str, list[int]] = {}
    for place, state in enumerate(states):
        places.setdefault(state.row["policy"], []).append(place)
    return {
        policy: _over_cases(rank_correlation, credits[:, own], [states[k] for k in own], "last")
        for policy, own in places.items()
    }


def reader_of(credit: Credit) -> str:
    """Whose beliefs a credit reads, `actor` or `scorer`."""
    return "actor" if credit.name in READ_BY_ACTOR else "scorer"


def _credits(
    credit: Credit, states: Sequence[State], continued: bool, exact: bool, reader: str
) -> np.ndarray:
    """float [draws, states, K]."""
    draws = []
    for draw in range(states[0].draws if continued or exact else 1):
        if credit.of == "turns":
            groups = [s.consultations(draw, reader) for s in states]
            credits = credit_update(credit, groups, unknown="nan")
            pairs = zip(states, credits, strict=True)
            draws.append([[row[s.row["turn"] - 1] for row in rows] for s, rows in pairs])
        else:
            groups = [s.candidates(draw, s.values["q_star"] if exact else None) for s in states]
            draws.append(executed_alone(credit, groups))
    return np.array(draws, float)


def executed_alone(credit: Credit, groups: Sequence[Group]) -> list[list[float]]:
    """Credit of the executed candidate of each of a group's states."""
    return [[row[0] for row in rows] for rows in credit_update(credit, groups)]


def _luck(
    credit: Credit, known: Behaviour, credits: np.ndarray, states: Sequence[State], continued: bool
) -> float | None:
    """The share of luck; None where a credit's draws share continuations."""
    if "values" in known.reads:
        return None
    if not continued:
        rng, drawn = np.random.default_rng(0), range(LUCK_DRAWS)
        credits = np.array(
            [executed_alone(credit, [_drawn(s, rng) for s in states]) for _ in drawn]
        )
    return luck(credits)


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
