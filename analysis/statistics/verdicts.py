"""Several comparisons judged together, by margins that were fixed before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.intervals import Effect

LEVEL = 0.05  # chance of any wrong decision among comparisons that are judged together
NOMINAL = "nominal (unadjusted) p < 0.05"
CONTRARY = f"contrary, {NOMINAL}"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"
TOO_FEW = "too few to say"
NOT_JUDGED = "not judged: one run"
DIFFERS = "differs by base model"
NOT_ON_EACH = "not on each base model"
DECIDED = ("supported", "contradicted")
VERDICTS = (
    *DECIDED,
    NOMINAL,
    CONTRARY,
    EQUIVALENT,
    UNDECIDED,
    TOO_FEW,
    DIFFERS,
    NOT_ON_EACH,
    NOT_JUDGED,
)


@dataclass(frozen=True)
class Judged:
    """A comparison among others: its verdict, and Holm's p of no difference; None: not judged."""

    verdict: str
    p: float | None


def judge(
    effects: Sequence[Effect], margins: Sequence[float], single: Sequence[bool] | None = None
) -> list[Judged]:
    """Verdicts on comparisons whose positive differences favour what is claimed.

    - supported: above zero; contradicted: below zero; at 5 % over all comparisons (Holm's p), and
      by the 95 % interval on each base model.
    - nominal (unadjusted) p < 0.05, and contrary with one: the comparison's own 95 % interval
      leaves out zero, and that on each base model, but it is not decided at 5 % over all.
    - equivalent: closer to zero than the margin on each base model, by two one-sided tests on each
      (Schuirmann 1987; the largest p of them counts, Berger 1982), at 5 % over all comparisons.
    - undecided: the interval holds zero.
    - too few to say: the same where nothing varied, with an exact interval.
    - differs by base model: the interval leaves out zero, but the difference has another sign on
      some base model.
    - not on each base model: all signs are the same, but the interval on some base model holds
      zero.
    - not judged: one run of each method, so nothing is known of other runs, and the others are
      corrected as if it were not there.

    Args:
        effects: the comparisons of one table.
        margins: one for each, in its unit: a difference below it would not matter.
        single: which of them compare one run with one run.
    """
    results = [Judged(NOT_JUDGED, None)] * len(effects)
    several = [i for i in range(len(effects)) if not (single and single[i])]
    differ = holm([effects[i].p for i in several])
    alike = holm([max(e.p_beyond(margins[i]) for e in effects[i].on_each) for i in several])
    for i, p, beyond in zip(several, differ, alike, strict=True):
        results[i] = Judged(_verdict(effects[i], p, beyond), p)
    return results


def _verdict(effect: Effect, p: float, p_beyond: float) -> str:
    """Of one comparison, from its p values among all."""
    if effect.p >= LEVEL:
        if p_beyond < LEVEL:
            return EQUIVALENT
        return TOO_FEW if effect.constant else UNDECIDED
    differences = [each.difference for each in effect.on_each]
    if min(differences) <= 0 <= max(differences):
        return DIFFERS
    if any(each.p >= LEVEL for each in effect.on_each):
        return NOT_ON_EACH
    favours = effect.difference > 0
    if p < LEVEL:
        return "supported" if favours else "contradicted"
    return NOMINAL if favours else CONTRARY


def holm(p: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down p values, in the order given."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate((len(values) - np.arange(len(values))) * values[order])
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted.tolist()


def probability_of_improvement(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """Chance that a run of one method beats a run of another on the same task.

    Agarwal et al. 2021 (rliable): all pairs of runs of a task, ties count half, the mean over
    tasks. None where every method has only one run.

    Args:
        pairs: for each task, a benchmark under one base model, (runs,) scores of both methods.
    """
    if all(len(first) == len(second) == 1 for first, second in pairs):
        return None
    beats = [np.sign(np.subtract.outer(first, second)).mean() for first, second in pairs]
    return float(0.5 + 0.5 * np.mean(beats))
