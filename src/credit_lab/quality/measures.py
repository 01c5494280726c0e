"""Credits of candidate questions against their exact values, state by state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from pcqc.errors import UserError
from pcqc.evaluation.bootstrap_intervals import percentile_interval, resampled_means
from pcqc.results.manifest import LATEST, checked, read_manifest
from pcqc.study import Study

SAME = 1e-9  # exact values that differ by less are equal
# Credit -> its title, and the parts of the drawing that it costs.
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
# Parts of which a credit takes one continuation of each candidate.
READ_ONCE = ["continuations", "scorer's beliefs", "actor's beliefs"]


@dataclass(frozen=True)
class Estimate:
    """A mean over cases with its 95 % interval from resampled cases; NaN without cases."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """How good one credit is.

    Attributes:
        rank: exact value -> Spearman's correlation with it, mean over states.
        regret: exact value -> of the question that it favours, in points.
        sign: share of questions better or worse than the state's mean whose credit says so, %, by
            the value of a question that is the last.
        luck: share of its variance that another continuation changes, %; None where none does, or
            where draws share continuations.
        asking: share of states at which asking is credited over answering, %; None for question
            credits, which leave that choice to the reward.
        costs: of `COSTS` -> cost of crediting the candidates of a state; None for chance.
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
        qualities: credit -> its quality; `chance` among them.
        states: number of states.
        differing: exact value -> states whose questions differ in it; only these count.
        asking: share of states at which asking gains by the policies' own continuations, %.
        study: the study.
    """

    qualities: dict[str, Quality]
    states: int
    differing: dict[str, int]
    asking: float
    study: Study


def load(study: Study) -> Judged:
    """Read the drawn states of all policies and judge every credit.

    Raises:
        UserError: the study has no such settings, or no state was drawn.
    """
    if not study.credited:
        raise UserError(f"study '{study.name}' has no settings 'credit_quality'; add the group")
    folders = {
        pair: checked(study.results.joinpath("credit_quality", *pair, LATEST))
        for pair in study.credited
    }
    manifests = [read_manifest(folder) for folder in folders.values()]
    if not sum(manifest["states"] for manifest in manifests):
        raise UserError(
            f"study '{study.name}': no state has {study.credit_quality.candidates} questions to "
            "compare; raise credit_quality.cases"
        )
    questions, asking = (
        pd.concat(
            pq.read_table(folder / f"{name}.parquet").to_pandas().assign(policy=method)
            for (method, _), folder in folders.items()
        )
        for name in ("questions", "asking")
    )
    return judge(study, questions, asking, manifests)


def judge(study: Study, questions: pd.DataFrame, asking: pd.DataFrame, manifests) -> Judged:
    """Judge every credit.

    Args:
        study: the study.
        questions: rows of `job.QUESTION_ROWS`, and their policy.
        asking: rows of `job.ASKING_ROWS`, and their policy.
        manifests: of the jobs that drew the states.
    """
    rng = np.random.default_rng(0)
    questions["executed_local"] -= questions["executed_local"].mean()
    questions[CHANCE] = rng.standard_normal(len(questions))
    states = questions.groupby(["policy", "case_id", "turn", "draw"], sort=False)
    spreads = {value: states[value].agg(np.ptp) for value in (LAST, BEST)}
    differing = {
        value: [frame for key, frame in states if spread[key] > SAME]
        for value, spread in spreads.items()
    }
    costs = _costs(manifests)
    qualities = {}
    for name in [*CREDITS, CHANCE]:
        asks = None
        if name in asking:
            shares = (asking[name] > 0) + 0.5 * (asking[name] == 0)
            asks = estimate((100 * shares).groupby(asking["case_id"]).mean())
        qualities[name] = Quality(
            {v: _over_cases(spearman, frames, name, v) for v, frames in differing.items()},
            {v: _over_cases(regret, frames, name, v) for v, frames in differing.items()},
            _over_cases(sign, differing[LAST], name, LAST),
            None if name in (CHANCE, SHARES_DRAWS) else luck(questions, name),
            asks,
            None if name == CHANCE else costs[list(CREDITS[name][1])].sum(axis=1).to_dict(),
        )
    draws = questions["draw"].nunique()
    return Judged(
        qualities,
        len(spreads[LAST]) // draws,
        {value: len(frames) // draws for value, frames in differing.items()},
        float(100 * (asking["gain"] > 0).mean()),
        study,
    )


def _over_cases(
    measure: Callable[[pd.Series, pd.Series], ArrayLike],
    states: Sequence[pd.DataFrame],
    credit: str,
    value: str,
) -> Estimate:
    """Mean of a measure of credit and exact value over a case's states, then over cases."""
    rows = [measure(state[credit], state[value]) for state in states]
    cases = pd.Series([state["case_id"].iloc[0] for state in states], dtype=object)
    return estimate(pd.Series(rows, dtype=float).groupby(cases).mean())


def estimate(cases: pd.Series) -> Estimate:
    """Mean of the cases' values, which are what is resampled."""
    if cases.empty:
        return Estimate(np.nan, np.nan, np.nan)
    interval = percentile_interval(resampled_means(cases.to_numpy()[:, None])[:, 0])
    return Estimate(float(cases.mean()), interval.low, interval.high)


def spearman(credits: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Rank correlation over the last axis; 0 where credits, or values, are all equal."""
    ranks = [rankdata(np.round(np.asarray(rows), 9), axis=-1) for rows in (credits, values)]
    own, true = (rank - rank.mean(axis=-1, keepdims=True) for rank in ranks)
    norms = np.sqrt((own**2).sum(axis=-1) * (true**2).sum(axis=-1))
    return (own * true).sum(axis=-1) / np.where(norms > 0, norms, 1)


def regret(credits: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Value of the best question less that of the favourite, in points; equal ones share it.

    Questions are along the last axis.
    """
    credits, values = np.asarray(credits), np.asarray(values)
    favourite = credits >= credits.max(axis=-1, keepdims=True) - SAME
    chosen = (favourite * values).sum(axis=-1) / favourite.sum(axis=-1)
    return 100 * (values.max(axis=-1) - chosen)


def sign(credit: pd.Series, value: pd.Series) -> float:
    """Share of questions above or below the mean whose credit has that sign, %; 0 is half right."""
    better = (value - value.mean()).to_numpy()
    true = np.sign(better[np.abs(better) > SAME])
    given = np.sign(credit.to_numpy()[np.abs(better) > SAME])
    return 100 * float((true == given).mean() + 0.5 * (given == 0).mean())


def luck(questions: pd.DataFrame, name: str) -> float | None:
    """See `Quality`: variance between draws by variance between all rows, %."""
    within = questions.groupby(["policy", "case_id", "turn", "candidate"])[name].var(ddof=1).mean()
    return None if within < SAME else float(100 * within / questions[name].var(ddof=1))


def _costs(manifests) -> pd.DataFrame:
    """Cost of a state, a row for each of `COSTS` and a column for each part of the drawing."""
    total = sum(pd.DataFrame({cost: m[cost] for cost in COSTS}).T for m in manifests)
    costs = total / sum(manifest["states"] for manifest in manifests)
    costs["all continuations"] = costs["continuations"]
    costs[READ_ONCE] /= manifests[0]["continuations"]
    return costs
