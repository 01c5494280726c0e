"""Credits of candidate questions against their exact values, state by state."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.stats import rankdata

from analysis.statistics.bootstrap import percentile_interval, resampled_means
from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.manifest import LATEST, checked, read_manifest

SAME = 1e-9  # exact values that differ by less are equal
# Credit -> its title, and the parts of the drawing that a state's credits take; those that read
# consultations take one continuation of each candidate.
CREDITS = {
    "expected_answer": ("Expected answer", ("candidates",)),
    "imagined_answers": ("Expected answer, imagined", ("candidates", "imagined answers")),
    "pcqc": ("PCQC", ("candidates", "utilities")),
    "executed_local": ("Executed-local", ("candidates", "utilities")),
    "c3": ("C3", ("candidates", "continuations")),
    "vineppo": ("VinePPO", ("candidates", "all continuations")),
    "gigpo": ("GiGPO", ("candidates", "continuations")),
    "mt_grpo": ("MT-GRPO", ("candidates", "continuations", "scorer's beliefs")),
    "igpo": ("IGPO", ("candidates", "continuations", "actor's beliefs")),
    "igpo_scorer": (
        "IGPO, the scorer's belief",
        ("candidates", "continuations", "scorer's beliefs"),
    ),
    "tips": ("TIPS", ("candidates", "continuations", "scorer's beliefs")),
    "grpo": ("GRPO", ("candidates", "continuations")),
}
# Exact values of a question: accuracy if it is the last, and Q*, if best ones follow.
LAST, BEST = "last", "best"
COSTS = ("sampled", "read", "seconds")  # tokens, tokens, device-seconds
CHANCE = "chance"  # a credit that knows nothing
SHARES_DRAWS = "vineppo"  # its values are means over the continuations of the other draws


@dataclass(frozen=True)
class Estimate:
    """A mean over cases with its 95 % interval from resampled cases."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """How one credit does.

    Attributes:
        rank: exact value -> Spearman's correlation with it, mean over states.
        regret: exact value -> of the question that it favours, in points.
        sign: share of questions better or worse than the state's mean whose credit says so, %, by
            the value of a question that is the last.
        luck: share of its variance that another continuation changes, %; None where none does, or
            where draws share continuations.
        asking: share of states at which asking is credited over answering, %; None for question
            credits, which leave that choice to the reward.
        costs: of `COSTS` -> what it takes to credit the candidates of a state; None for chance.
    """

    rank: dict[str, Estimate]
    regret: dict[str, Estimate]
    sign: Estimate
    luck: float | None
    asking: Estimate | None
    costs: dict[str, float] | None


@dataclass(frozen=True)
class Judged:
    """All credits of a study.

    Attributes:
        qualities: credit -> how it does; `chance` among them.
        states: how many.
        differing: exact value -> states whose questions differ in it; the others do not count.
        asking: share of states at which asking gains by the policies' own continuations, %.
        candidates: questions compared at a state.
        policies: titles of those whose states they are.
    """

    qualities: dict[str, Quality]
    states: int
    differing: dict[str, int]
    asking: float
    candidates: int
    policies: tuple[str, ...]
    study: Study


def load(study: Study) -> Judged:
    """Read the drawn states of all policies and judge every credit.

    Raises:
        UserError: the study has no such settings, or no state was drawn.
    """
    if not study.credited:
        raise UserError(f"study '{study.name}' has no settings 'credit_quality'; add the group")
    questions: list[pd.DataFrame] = []
    asking: list[pd.DataFrame] = []
    manifests = []
    for method, run in study.credited:
        folder = checked(study.results / "credit_quality" / method / run / LATEST)
        manifests.append(read_manifest(folder))
        for name, frames in (("questions", questions), ("asking", asking)):
            frame = pq.read_table(folder / f"{name}.parquet").to_pandas()
            frames.append(frame.assign(policy=method))
    if not sum(manifest["states"] for manifest in manifests):
        raise UserError(
            f"study '{study.name}': no state has {study.credit_quality.candidates} questions to "
            "compare; raise credit_quality.cases"
        )
    return judge(study, pd.concat(questions), pd.concat(asking), manifests)


def judge(study: Study, questions: pd.DataFrame, asking: pd.DataFrame, manifests) -> Judged:
    rng = np.random.default_rng(0)
    questions["executed_local"] -= questions["executed_local"].mean()
    questions[CHANCE] = rng.standard_normal(len(questions))
    states = questions.groupby(["policy", "case_id", "turn", "draw"], sort=False)
    spreads = {value: states[value].agg(np.ptp) for value in (LAST, BEST)}
    differ = {value: spread[spread > SAME].index for value, spread in spreads.items()}
    costs = {cost: _costs(manifests, cost) for cost in COSTS}
    qualities = {}
    for name in [*CREDITS, CHANCE]:
        asks = None
        if name in asking:
            shares = (asking[name] > 0) + 0.5 * (asking[name] == 0)
            asks = _estimate((100 * shares).groupby(asking["case_id"]).mean())
        credited = states[[name, LAST, BEST]]
        qualities[name] = Quality(
            {v: _by_case(credited, chosen, spearman, name, v) for v, chosen in differ.items()},
            {v: _by_case(credited, chosen, regret, name, v) for v, chosen in differ.items()},
            _by_case(credited, differ[LAST], sign, name, LAST),
            None if name in (CHANCE, SHARES_DRAWS) else luck(questions, name),
            asks,
            None if name == CHANCE else _taken(costs, CREDITS[name][1]),
        )
    draws = questions["draw"].nunique()
    return Judged(
        qualities,
        len(spreads[LAST]) // draws,
        {value: len(chosen) // draws for value, chosen in differ.items()},
        float(100 * (asking["gain"] > 0).mean()),
        study.credit_quality.candidates,
        tuple(study.method(method).title for method, _ in study.credited),
        study,
    )


def _by_case(
    states,
    chosen: pd.Index,
    measure: Callable[[pd.Series, pd.Series], float],
    name: str,
    value: str,
) -> Estimate:
    """Mean of a measure over the chosen states, then over cases, which are what is resampled."""
    rows = {key: measure(frame[name], frame[value]) for key, frame in states if key in chosen}
    return _estimate(pd.Series(rows, dtype=float).groupby(level=1).mean())


def _estimate(cases: pd.Series) -> Estimate:
    if cases.empty:
        return Estimate(np.nan, np.nan, np.nan)
    interval = percentile_interval(resampled_means(cases.to_numpy()[:, None])[:, 0])
    return Estimate(float(cases.mean()), interval.low, interval.high)


def spearman(credit: pd.Series, value: pd.Series) -> float:
    """Rank correlation; 0 for a credit that makes no difference."""
    ranks = [rankdata(np.round(column.to_numpy(), 9)) for column in (credit, value)]
    if min(np.ptp(rank) for rank in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def regret(credit: pd.Series, value: pd.Series) -> float:
    """Value of the best question less that of the favourite, in points; equal ones share it."""
    favourites = credit.to_numpy() >= credit.max() - SAME
    return 100 * float(value.max() - value.to_numpy()[favourites].mean())


def sign(credit: pd.Series, value: pd.Series) -> float:
    """Share of questions above or below the mean whose credit has that sign, %; 0 is half right."""
    better = (value - value.mean()).to_numpy()
    told = np.sign(better[np.abs(better) > SAME])
    given = np.sign(credit.to_numpy()[np.abs(better) > SAME])
    return 100 * float((told == given).mean() + 0.5 * (given == 0).mean())


def luck(questions: pd.DataFrame, name: str) -> float | None:
    within = questions.groupby(["policy", "case_id", "turn", "candidate"])[name].var(ddof=1).mean()
    return None if within < SAME else float(100 * within / questions[name].var(ddof=1))


def _costs(manifests, cost: str) -> dict[str, float]:
    """Part -> cost of a state; what reads consultations reads one continuation of each."""
    states = sum(manifest["states"] for manifest in manifests)
    total = {
        part: sum(manifest[cost][part] for manifest in manifests) / states
        for part in manifests[0][cost]
    }
    several = manifests[0]["continuations"]
    read = ("continuations", "scorer's beliefs", "actor's beliefs")
    once = {part: total[part] / several for part in read}
    return {**total, **once, "all continuations": total["continuations"]}


def _taken(costs: dict[str, dict[str, float]], parts: tuple[str, ...]) -> dict[str, float]:
    return {cost: sum(by_part[part] for part in parts) for cost, by_part in costs.items()}
