"""Difference of two methods, where runs are crossed with cases and nested in base models.

The outcome of run r on case c is mean + run effect + case effect + rest, the rest being decoding
noise and what a run does on this case alone. Runs and cases are random, base models and benchmarks
fixed. The variance of a mean over R runs and C cases is then

    s_run^2 / R + s_case^2 / C + s_rest^2 / (R C).

The variance of the runs' means over R estimates the first term and the last, that of the cases'
means over C the second and the last. Adding both, as resampling runs and cases does, counts the
last twice, so it is taken off once (Owen 2007, "The pigeonhole bootstrap", section 3).

A negative estimate of the variance between runs is set to zero, so intervals over runs are at
least as wide as intervals over cases. Degrees of freedom are Welch's (1947, his second
approximation), exact for a single term; Satterthwaite's (1946) are too few for three runs.
tests/long/test_coverage.py has how often such intervals hold the truth.

Where no case and no run differs from another, the variance is zero, and that is no certainty. The
bounds are then exact (`exact_interval`), for as many outcomes as the smallest benchmark has cases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.statistics.intervals.effect import Effect

# From this many runs of every base model on, runs of one letter are compared pairwise: they share
# the order of training cases. Fewer do not show whether that makes them alike.
PAIRED_FROM = 5


@dataclass(frozen=True)
class Sample:
    """A method's outcomes, in the unit of the metric.

    Attributes:
        benchmarks: (runs, cases) of each benchmark, its cases in one order for all methods.
        runs: letter of each run.
        bases: base model of each run; all of one base model by default.
        drawn: whether other runs could have come out; else these are all there are.
        reach: how far two outcomes can lie apart; infinite where that is not known.
    """

    benchmarks: tuple[np.ndarray, ...]
    runs: tuple[str, ...]
    bases: tuple[str, ...] = ()
    drawn: bool = True
    reach: float = np.inf

    def by_base(self) -> dict[str, dict[str, tuple[np.ndarray, ...]]]:
        """Base model -> run -> (cases,) of each benchmark."""
        by_base: dict[str, dict[str, tuple[np.ndarray, ...]]] = {}
        bases = self.bases or ("",) * len(self.runs)
        for i, (run, base) in enumerate(zip(self.runs, bases, strict=True)):
            by_base.setdefault(base, {})[run] = tuple(b[i].astype(float) for b in self.benchmarks)
        return by_base

    def on(self, base: str) -> "Sample":
        """Its runs of one base model."""
        rows = [i for i, of in enumerate(self.bases or ("",) * len(self.runs)) if of == base]
        benchmarks, runs = [b[rows] for b in self.benchmarks], [self.runs[i] for i in rows]
        bases = (base,) * len(rows)
        return replace(self, benchmarks=tuple(benchmarks), runs=tuple(runs), bases=bases)

    def tasks(self, other: "Sample") -> list[tuple[np.ndarray, np.ndarray]]:
        """(runs,) means of both methods, for each benchmark under each base model."""
        mine, theirs = (
            {base: [[b.mean() for b in run] for run in runs.values()] for base, runs in own.items()}
            for own in (self.by_base(), other.by_base())
        )
        pairs = [(np.array(mine[base]).T, np.array(theirs[base]).T) for base in mine]
        return [task for first, second in pairs for task in zip(first, second, strict=True)]


@dataclass(frozen=True)
class _Team:
    """Runs of one base model, of one method or of paired methods: (runs, cases) per benchmark."""

    weight: float
    benchmarks: list[np.ndarray]

    def mean(self) -> float:
        return self.weight * float(np.mean([b.mean() for b in self.benchmarks]))

    def case_means(self, benchmark: int) -> np.ndarray:
        return self.weight * self.benchmarks[benchmark].mean(axis=0)

    @property
    def runs(self) -> int:
        return len(self.benchmarks[0])

    @property
    def share(self) -> float:
        """Of a single run's variance that the weighted mean over runs has."""
        return self.weight**2 / self.runs

    def run_terms(self) -> list[tuple[float, float]]:
        """(variance, degrees of freedom) of a single run: of its mean, and less the rest in it."""
        means = np.mean([b.mean(axis=1) for b in self.benchmarks], axis=0)
        terms = [(float(means.var(ddof=1)), self.runs - 1)]
        for outcomes in self.benchmarks:
            cases = outcomes.shape[1]
            freedom = (self.runs - 1) * (cases - 1)
            centred = outcomes - outcomes.mean(axis=0)
            centred -= centred.mean(axis=1, keepdims=True)
            rest = float((centred**2).sum()) / max(freedom, 1)
            terms.append((-rest / (cases * len(self.benchmarks) ** 2), max(freedom, 1)))
        return terms


def crossed_effect(minuend: Sample, subtrahend: Sample, alike: Sequence[Sample] = ()) -> Effect:
    """The difference of two methods' means over base models, runs and benchmarks.

    Base models count alike, and so do benchmarks. Where a method has one run of a base model, it is
    taken to vary as the method's runs of the others do, and where it has one of each, as the other
    method's runs do. Where neither has more, the interval covers cases alone.

    Args:
        minuend, subtrahend: the same benchmarks and cases, runs of the same base models.
        alike: methods as whose runs these two's are taken to vary, in place of their own.

    Raises:
        ValueError: the methods' base models differ.
    """
    first, second = minuend.by_base(), subtrahend.by_base()
    if first.keys() != second.keys():
        raise ValueError(f"base models differ: {sorted(first)} and {sorted(second)}")
    paired = not alike and all(
        first[base].keys() == second[base].keys() and len(first[base]) >= PAIRED_FROM
        for base in first
    )
    teams = {base: _teams(first[base], second[base], 1 / len(first), paired) for base in first}
    every = [team for members in teams.values() for team in members]
    terms = []
    for k, outcomes in enumerate(minuend.benchmarks):
        cases, count = outcomes.shape[1], len(minuend.benchmarks)
        means = np.sum([team.case_means(k) for team in every], axis=0)
        variance = float(means.var(ddof=1)) if cases > 1 else np.inf
        terms.append((variance / (cases * count**2), max(cases - 1, 1)))
    sides = zip(*teams.values(), strict=True)  # one where runs are paired
    samples = minuend, subtrahend
    drawn = [side for side, sample in zip(sides, samples, strict=False) if sample.drawn]
    others = [_Team(1, _stacked(runs.values())) for own in alike for runs in own.by_base().values()]
    runs = _run_terms(drawn, others)
    # `sampled` is the variance over cases with the runs fixed; a negative estimate of what runs add
    # is set to zero.
    sampled = sum(variance for variance, _ in terms)
    total = sampled + max(0.0, sum(variance for variance, _ in runs))
    spread = sum(variance**2 / (freedom + 2) for variance, freedom in terms + runs)
    fewest = min(freedom for _, freedom in terms + runs)
    return Effect(
        sum(team.mean() for team in every),
        total**0.5,
        max(total**2 / spread - 2, fewest) if 0 < spread < np.inf else float(fewest),
        "case and run" if runs else "case",
        _on_each(minuend, subtrahend, alike) if len(first) > 1 else {},
        max(team.runs for team in every) if runs else 0,
        max(0.0, sampled + sum(min(variance, 0.0) for variance, _ in runs)),
        min(outcomes.shape[1] for outcomes in minuend.benchmarks),
        max(minuend.reach, subtrahend.reach),
    )


def _on_each(minuend: Sample, subtrahend: Sample, alike: Sequence[Sample]) -> dict[str, Effect]:
    """Base model -> effect there. A single run varies as both methods' runs of all do."""
    effects = {}
    for base in minuend.by_base():
        pair = minuend.on(base), subtrahend.on(base)
        single = any(sample.drawn and len(sample.runs) == 1 for sample in pair)
        every = [sample for sample in (minuend, subtrahend) if sample.drawn] if single else []
        effects[base] = crossed_effect(*pair, alike or every)
    return effects


def _run_terms(sides: list[tuple[_Team, ...]], others: list[_Team]) -> list[tuple[float, float]]:
    """(variance, degrees of freedom) of what the drawn methods' runs add.

    They vary as those of `others`; without any as their method's own, or as both methods' where a
    method has single runs alone.
    """
    every = [team for side in sides for team in side]
    if others:
        return _pooled(every, others)
    single = any(all(team.runs == 1 for team in side) for side in sides)
    terms = []
    for teams in [every] if single else sides:
        if all(team.runs > 1 for team in teams):
            terms += [(team.share * v, f) for team in teams for v, f in team.run_terms()]
        else:
            terms += _pooled(teams, teams)
    return terms


def _pooled(teams: Sequence[_Team], alike: Sequence[_Team]) -> list[tuple[float, float]]:
    """What the runs of teams add, if each varies as those of `alike` that are several."""
    terms = [team.run_terms() for team in alike if team.runs > 1]
    share = sum(team.share for team in teams)
    pooled = []
    for same in zip(*terms, strict=True):
        freedom = sum(f for _, f in same)
        pooled.append((share * sum(f * v for v, f in same) / freedom, freedom))
    return pooled


def _teams(
    first: Mapping[str, Sequence[np.ndarray]],
    second: Mapping[str, Sequence[np.ndarray]],
    weight: float,
    paired: bool,
) -> list[_Team]:
    """One team of differences where runs are paired, else one for each method."""
    if paired:
        pairs = [[a - b for a, b in zip(first[r], second[r], strict=True)] for r in first]
        return [_Team(weight, _stacked(pairs))]
    sides = ((weight, first), (-weight, second))
    return [_Team(signed, _stacked(side.values())) for signed, side in sides]


def _stacked(runs) -> list[np.ndarray]:
    """(runs, cases) per benchmark, of runs that each have (cases,) per benchmark."""
    return [np.stack(rows) for rows in zip(*runs, strict=True)]
