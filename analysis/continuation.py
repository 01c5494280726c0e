"""The continuation study: success by candidate, selection rules, and what utility predicts.

Claims and their tables are of states with the patient's own answers. The states at which some
answers were made to lack grounds are read for the filter of grounded answers alone.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.collected import Collected
from analysis.load import read_continuation
from analysis.statistics.estimates import rank_correlations
from pcqc.evaluation.choice import (
    EARLY,
    MAIN,
    UNGROUNDED,
    highest_utility,
    selected_success,
)
from pcqc_base.errors import UserError
from pcqc_study.intervals_over_cases import (
    RESAMPLES,
    SEED,
    Interval,
    alike,
    exact_interval,
    percentile_interval,
    resampled_means,
)

RULES = {
    "uniform": "Uniform selection",
    "executed": "Executed question q_1",
    "highest_utility": "Highest-utility selection",
}
BINS = 6


@dataclass(frozen=True)
class Gain:
    """One selection rule against another on the same cases; percent and percentage points."""

    cases: int
    selected: float
    comparator: float
    interval: Interval

    @property
    def value(self) -> float:
        return self.selected - self.comparator


@dataclass(frozen=True)
class Mean:
    """A mean over states with its interval; `states` of them have a value."""

    value: float
    interval: Interval
    states: int


@dataclass(frozen=True)
class Bin:
    """Candidates of neighbouring utility: their mean utility and their success, a fraction."""

    utility: float
    success: float
    interval: Interval
    candidates: int


@dataclass(frozen=True)
class Continued:
    """A set of states of one policy, [states, candidates] each, the executed question first.

    Attributes:
        manifest: the set's; `replaced` counts the cases that did not give enough questions.
        case_ids: the states', in the study's order.
        questions, answers: texts.
        utility: u_i.
        credit: A^Q of each candidate.
        success: fraction of correct continuations.
        eligible: whether the answer is grounded (app:compliant_continuation).
        reviewed: number of answers that a person judged.
        ungrounded: whether the answer was made to lack grounds; None where none was.
        policy: method and run.
        early: whether of an early checkpoint, whose answers nobody judged.
    """

    title: str
    manifest: dict
    case_ids: list[str]
    questions: np.ndarray
    answers: np.ndarray
    utility: np.ndarray
    credit: np.ndarray
    success: np.ndarray
    eligible: np.ndarray
    reviewed: int = 0
    ungrounded: np.ndarray | None = None
    policy: tuple[str, str] = ("", "")
    early: bool = False

    def selected(self) -> dict[str, np.ndarray]:
        """Success of each rule at each state, in percent."""
        return {k: 100 * v for k, v in selected_success(self.utility, self.success).items()}

    @property
    def differing(self) -> np.ndarray:
        """[states] how many different questions the candidates are."""
        return np.array([len(set(questions)) for questions in self.questions], int)

    def gain_over(self, rival: str, differing: int | None = None) -> Gain | None:
        """Highest-utility selection over `uniform` or `executed`; None without states.

        At all states, or where so many of the candidates are different questions.
        """
        states = slice(None) if differing is None else self.differing == differing
        chosen = self.selected()
        return paired_gain(chosen["highest_utility"][states], chosen[rival][states])

    def grounded(self) -> dict[str, Gain | None]:
        """The three comparisons on grounded answers; None where no case is left.

        The first keeps the original choices and the cases where both are eligible; the others
        choose among eligible candidates, in cases with at least two of them.
        """
        original = self.selected()
        best = highest_utility(self.utility)[:, None]
        both = self.eligible[:, 0] & np.take_along_axis(self.eligible, best, axis=1)[:, 0]
        among = selected_success(self.utility, self.success, self.eligible)
        several = self.eligible.sum(axis=1) >= 2
        asked = several & self.eligible[:, 0]
        first, mean, executed = (
            100 * among[name] for name in ("highest_utility", "uniform", "executed")
        )
        return {
            "original_highest_utility_vs_executed": paired_gain(
                original["highest_utility"][both], original["executed"][both]
            ),
            "eligible_highest_utility_vs_uniform": paired_gain(first[several], mean[several]),
            "eligible_highest_utility_vs_executed": paired_gain(first[asked], executed[asked]),
        }

    def grounded_gains(self, rival: str) -> dict[str, float]:
        """Case -> points that the highest utility gains over `uniform` or `executed`.

        Among eligible candidates, in cases with at least two of them; of `executed` in those where
        it is one.
        """
        among = selected_success(self.utility, self.success, self.eligible)
        compared = self.eligible.sum(axis=1) >= 2
        if rival == "executed":
            compared &= self.eligible[:, 0]
        gains = 100 * (among["highest_utility"] - among[rival])
        cases = np.array(self.case_ids, object)
        return dict(zip(cases[compared], gains[compared].tolist(), strict=True))

    def filter_quality(self) -> tuple[int, float, float] | None:
        """How many answers were made to lack grounds, and the filter's precision and recall."""
        if self.ungrounded is None:
            return None
        truth, filtered = self.ungrounded, ~self.eligible
        hits = int((truth & filtered).sum())
        return int(truth.sum()), hits / max(filtered.sum(), 1), hits / max(truth.sum(), 1)

    def rank_correlation(self) -> Mean | None:
        """Spearman's correlation of utility and success within a state, averaged over states.

        States at which all utilities or all successes are equal have none and are left out.
        """
        correlations = rank_correlations(self.utility, self.success)
        return mean_over_states(correlations[~np.isnan(correlations)], -1, 1)

    def calibration(self) -> list[Bin]:
        """Success by utility in bins of equally many candidates; intervals resample cases."""
        if not self.case_ids:
            return []
        edges = np.unique(np.quantile(self.utility, np.linspace(0, 1, BINS + 1)[1:-1]))
        place = np.searchsorted(edges, self.utility, side="right")
        rng = np.random.default_rng(SEED)
        states = len(self.utility)
        weights = rng.multinomial(states, np.full(states, 1 / states), size=RESAMPLES)
        bins = []
        for number in np.unique(place):
            inside = place == number
            count, total = inside.sum(axis=1), np.where(inside, self.success, 0).sum(axis=1)
            success = float(self.success[inside].mean())
            if alike(self.success[inside]):
                interval = exact_interval(success, int((count > 0).sum()), 0, 1)
            else:
                drawn = weights @ count
                means = (weights @ total)[drawn > 0] / drawn[drawn > 0]
                interval = percentile_interval(means)
            utility = float(self.utility[inside].mean())
            bins.append(Bin(utility, success, interval, int(count.sum())))
        return bins


def paired_gain(selected: np.ndarray, comparator: np.ndarray) -> Gain | None:
    """Gain with its paired case bootstrap, candidates' continuations aggregated before.

    Args:
        selected, comparator: [cases] success in percent.
    """
    if not len(selected):
        return None
    if alike(gains := selected - comparator):
        interval = exact_interval(float(gains.mean()), len(gains), -100, 100)
    else:
        means = resampled_means(np.column_stack([selected, comparator]))
        interval = percentile_interval(means[:, 0] - means[:, 1])
    return Gain(len(selected), float(selected.mean()), float(comparator.mean()), interval)


def mean_over_states(
    values: np.ndarray, lowest: float = 0.0, highest: float = 100.0
) -> Mean | None:
    """Mean of [states] values with its case bootstrap; None without values.

    Where all are the same, the interval is exact for values from `lowest` to `highest`.
    """
    if not len(values):
        return None
    if alike(values):
        interval = exact_interval(float(values.mean()), len(values), lowest, highest)
    else:
        interval = percentile_interval(resampled_means(values[:, None])[:, 0])
    return Mean(float(values.mean()), interval, len(values))


def main_policy(collected: Collected) -> Continued:
    """The states of the policy that the paper's claim is about."""
    return continued(collected, *collected.study.continued[0])


def filtered(collected: Collected) -> Continued:
    """The main policy's states for the filter of answers, which may be a set of their own."""
    kind = UNGROUNDED if collected.study.continuation.ungrounded else MAIN
    return continued(collected, *collected.study.continued[0], kind)


def policies(collected: Collected) -> list[Continued]:
    """The states of every policy: the main one, its early checkpoint, the reference."""
    (main, *references), early = collected.study.continued, collected.study.continuation.early
    places = [main, *([(*main, EARLY)] if early else []), *references]
    return [continued(collected, *place) for place in places]


def continued(collected: Collected, method: str, run: str, kind: str = MAIN) -> Continued:
    """Read one set of a policy's states from `collected/continuation/`.

    Raises:
        UserError: a file is missing, broken, or does not hold what its manifest says.
    """
    manifest = collected.record(method, run).get("continuation")
    if not manifest:
        raise UserError(
            f"study '{collected.study.name}': no continuation study of {method} run {run}; run the "
            "rule `continuation` and collect again"
        )
    manifest = manifest | manifest["further_sets"].get(kind, {})
    candidates, continuations, grounding = read_continuation(collected.study, method, run)
    candidates = candidates[candidates["set"] == kind]
    continuations = continuations[continuations["set"] == kind]
    shape = (manifest["states"], manifest["candidates"])
    keys = ["case_id", "candidate"]
    index = pd.MultiIndex.from_frame(candidates[keys])
    successes = continuations.groupby(keys, sort=False)["correct"].mean()
    judged = grounding.set_index(keys)
    if kind == EARLY:  # whose answers nobody judged
        judged = pd.DataFrame({"eligible": "", "judge": ""}, index=index)
    unknown = not (index.isin(successes.index).all() and index.isin(judged.index).all())
    if len(candidates) != shape[0] * shape[1] or unknown:
        raise UserError(
            f"study '{collected.study.name}': candidates, continuations and judged answers of "
            f"{method} run {run} do not belong together; run the rule `continuation` and collect "
            "again"
        )
    judged = judged.loc[index]
    column = {name: candidates[name].to_numpy().reshape(shape) for name in candidates}
    return Continued(
        title=_title(collected, method, run, manifest["update"] if kind == EARLY else None),
        manifest=manifest,
        case_ids=column["case_id"][:, 0].tolist(),
        questions=column["question"],
        answers=column["answer"],
        utility=column["utility"],
        credit=column["credit"],
        success=successes.loc[index].to_numpy(float).reshape(shape),
        eligible=(judged["eligible"] == "yes").to_numpy().reshape(shape),
        ungrounded=column["ungrounded"] if kind == UNGROUNDED else None,
        reviewed=int((judged["judge"] == "review").sum()),
        policy=(method, run),
        early=kind == EARLY,
    )


def _title(collected: Collected, method: str, run: str, update: int | None) -> str:
    settings = collected.study.method(method)
    if settings.kind != "rl":
        return settings.title
    return f"{settings.title} run {run}" + (f" at update {update}" if update else "")
