"""Differences of methods where runs alone are random, or cases alone."""

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.statistics.intervals.effect import Effect


def effect_over_runs(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], reach: float = np.inf
) -> Effect | None:
    """Difference of two methods' means from one value of each run, with its error over runs.

    The degrees of freedom are those of Welch's t test.

    Args:
        first, second: [base models][runs] of each method; base models count alike.
        reach: how far two runs' values can lie apart.

    Returns:
        None where a method has one run on some base model.
    """
    if (fewest := min(map(len, [*first, *second]))) < 2:
        return None
    share = 1 / len(first)
    parts = [
        (share**2 * float(np.var(runs, ddof=1)) / len(runs), len(runs) - 1)
        for runs in [*first, *second]
    ]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / spread if spread else float(sum(f for _, f in parts))
    pairs = list(zip(first, second, strict=True))
    difference = float(np.mean([np.mean(a) - np.mean(b) for a, b in pairs]))
    by_base: dict[str, Effect] = {}
    for number, (a, b) in enumerate(pairs, 1) if len(pairs) > 1 else ():
        by_base[f"base model {number}"] = effect_over_runs([a], [b], reach)
    return Effect(difference, variance**0.5, freedom, "run", by_base, outcomes=fewest, reach=reach)


def effect_over_cases(bases: Sequence[Mapping[str, float]], reach: float = np.inf) -> Effect:
    """Mean of differences that are known case by case, under one policy of each base model.

    Cases alone are random. One that is known under several base models is one case: what it adds
    under each is added up before it is squared.

    Args:
        bases: for each base model, case -> difference.
        reach: how far a difference can lie from zero.
    """
    parts: dict[str, float] = {}
    means = [float(np.mean([*differences.values()])) for differences in bases]
    for differences, mean in zip(bases, means, strict=True):
        for case, difference in differences.items():
            part = (difference - mean) / (len(differences) * len(bases))
            parts[case] = parts.get(case, 0.0) + part
    cases = len(parts)
    variance = sum(part**2 for part in parts.values()) * cases / max(cases - 1, 1)
    by_base = {}
    if len(bases) > 1:
        by_base = {f"base model {n}": effect_over_cases([b], reach) for n, b in enumerate(bases, 1)}
    difference, freedom = float(np.mean(means)), max(cases - 1, 1)
    least = min(map(len, bases))
    return Effect(difference, variance**0.5, freedom, "case", by_base, outcomes=least, reach=reach)
