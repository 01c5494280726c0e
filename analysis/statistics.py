"""The paper's statistics (Appendix A, "Statistical analysis"), each in one vectorised function.

Everything that is resampled is named: cases (with both methods' outcomes kept together) and, for
comparisons of several runs, runs. Seeds are fixed, so that equal inputs give equal numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from pcqc.errors import UserError

RESAMPLES = 10_000
CONFIDENCE = 0.95
NORMAL = 1.959964  # half the width of a normal distribution's 95 % interval, in standard errors
SEED = 20_260_101
# Up to this many distinct rows a resample is one multinomial draw over the rows' counts.
_MOST_PATTERNS = 128
_BLOCK = 2_000_000  # indices drawn at once


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, in the unit of its values; `sd` is the sample SD, None for one run."""

    mean: float
    sd: float | None
    runs: int

    @property
    def standard_error(self) -> float | None:
        """SD over runs divided by the root of their number; None for one run."""
        return None if self.sd is None else self.sd / self.runs**0.5


@dataclass(frozen=True)
class Interval:
    """A percentile interval and what was resampled to get it."""

    low: float
    high: float
    unit: str

    @property
    def standard_error(self) -> float:
        """Of a normal distribution with this 95 % interval."""
        return (self.high - self.low) / (2 * NORMAL)

    def verdict(self) -> str:
        """`supported` above zero, `contradicted` below it, `undecided` across it."""
        if self.low > 0:
            return "supported"
        return "contradicted" if self.high < 0 else "undecided"


@dataclass(frozen=True)
class PairedComparison:
    """Two sets of predictions on the same cases; gain and interval in percentage points."""

    cases: int
    minuend_accuracy: float
    subtrahend_accuracy: float
    gain: float
    low: float
    high: float
    only_minuend: int
    only_subtrahend: int
    p: float
    resamples: int = RESAMPLES
    seed: int = SEED
    resampling_unit: str = "case"

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high, self.resampling_unit)


def over_runs(values: Sequence[float]) -> Estimate:
    """Mean and sample standard deviation over independent runs; values: (runs,)."""
    values = np.asarray(values, dtype=float)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Estimate(float(values.mean()), sd, len(values))


def average_over_benchmarks(by_benchmark: Sequence[Sequence[float]]) -> Estimate:
    """Average benchmarks within each run first, then mean and SD over runs (Appendix C).

    Args:
        by_benchmark: (benchmarks, runs), the same runs in the same order for each benchmark.
    """
    return over_runs(np.asarray(by_benchmark, dtype=float).mean(axis=0))


def resampled_means(
    outcomes: np.ndarray, resamples: int = RESAMPLES, rng: np.random.Generator | int = SEED
) -> np.ndarray:
    """Column means of bootstrap resamples of rows (cases), all columns resampled together.

    Args:
        outcomes: (cases, columns), for instance the correctness of two methods.
        resamples: number of resamples.
        rng: generator or seed.

    Returns:
        (resamples, columns). Where rows take few distinct values, drawing their multinomial counts
        is the same resampling, exactly, at a fraction of the cost.
    """
    rng = np.random.default_rng(rng)
    outcomes = np.asarray(outcomes, dtype=float)
    cases = len(outcomes)
    patterns, counts = np.unique(outcomes, axis=0, return_counts=True)
    if len(patterns) <= _MOST_PATTERNS:
        drawn = rng.multinomial(cases, counts / cases, size=resamples)
        return drawn @ patterns / cases
    means = np.empty((resamples, outcomes.shape[1]))
    block = max(1, _BLOCK // cases)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        index = rng.integers(cases, size=(size, cases))
        means[start : start + size] = outcomes[index].mean(axis=1)
    return means


def percentile_interval(resampled: np.ndarray, unit: str = "case") -> Interval:
    """The central 95 % of resampled statistics."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high), unit)


def mcnemar(only_minuend: int, only_subtrahend: int) -> float:
    """Exact two-sided McNemar p of the two discordant counts; 1 where none is discordant."""
    discordant = only_minuend + only_subtrahend
    if discordant == 0:
        return 1.0
    return float(binomtest(only_minuend, discordant, 0.5).pvalue)


def paired_comparison(
    minuend: np.ndarray, subtrahend: np.ndarray, seed: int = SEED
) -> PairedComparison:
    """Gain of one method over another at fixed checkpoints (Appendix A).

    Args:
        minuend, subtrahend: (cases,) booleans, correct or not, in the same order of cases.
        seed: of the percentile bootstrap over cases.
    """
    pairs = np.column_stack([minuend, subtrahend]).astype(bool)
    first, second = pairs.T
    means = resampled_means(pairs, rng=seed)
    interval = percentile_interval(100 * (means[:, 0] - means[:, 1]))
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return PairedComparison(
        cases=len(pairs),
        minuend_accuracy=100 * float(first.mean()),
        subtrahend_accuracy=100 * float(second.mean()),
        gain=100 * (only_first - only_second) / len(pairs),
        low=interval.low,
        high=interval.high,
        only_minuend=only_first,
        only_subtrahend=only_second,
        p=mcnemar(only_first, only_second),
        seed=seed,
    )


def runs_and_cases_interval(benchmarks: Sequence[tuple[np.ndarray, np.ndarray]]) -> Interval:
    """Interval of a difference of means over runs and benchmarks, resampling cases and runs.

    Cases are resampled within each benchmark with all runs of both methods kept together. Runs
    are resampled for each method by itself, the same draw for all benchmarks: of R runs R - 1 are
    drawn with replacement, which makes the variance of the drawn mean the unbiased s^2 / R
    (McCarthy and Snowden 1985); drawing R of 3 would understate it by a third. One run stays
    fixed, and only cases are resampled for it.

    Args:
        benchmarks: for each benchmark a pair (minuend, subtrahend) of (runs, cases) arrays of any
            per-case metric; the numbers of runs must not differ between benchmarks.

    Returns:
        the interval of mean(minuend) - mean(subtrahend), averaged over benchmarks, in the unit of
        the metric.
    """
    rng = np.random.default_rng(SEED)
    first_runs, second_runs = (len(part) for part in benchmarks[0])
    first_weights = _run_weights(first_runs, RESAMPLES, rng)
    second_weights = _run_weights(second_runs, RESAMPLES, rng)
    weights = np.hstack([first_weights, -second_weights])
    total = np.zeros(RESAMPLES)
    for first, second in benchmarks:
        means = resampled_means(np.vstack([first, second]).T, rng=rng)
        total += (means * weights).sum(axis=1)
    unit = "case" if first_runs == second_runs == 1 else "case and run"
    return percentile_interval(total / len(benchmarks), unit)


def _run_weights(runs: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples, runs) weights that sum to one: R - 1 of R runs drawn with replacement."""
    if runs == 1:
        return np.ones((resamples, 1))
    return rng.multinomial(runs - 1, np.full(runs, 1 / runs), size=resamples) / (runs - 1)


def compare(path_a: str | Path, path_b: str | Path) -> dict:
    """Compare two prediction files (Parquet with columns `case_id`, `correct`), A minus B.

    Returns:
        the fields of PairedComparison as plain data.

    Raises:
        UserError: an unreadable file, a missing column, repeated cases, or cases that differ.
    """
    a, b = read_outcomes(Path(path_a)), read_outcomes(Path(path_b))
    only_a, only_b = a.index.difference(b.index), b.index.difference(a.index)
    if len(only_a) or len(only_b):
        extra, where = (only_a[0], path_a) if len(only_a) else (only_b[0], path_b)
        raise UserError(
            f"the cases differ: {len(only_a)} only in {path_a}, {len(only_b)} only in {path_b} "
            f"(first: '{extra}' in {where}); compare predictions on the same benchmark"
        )
    return asdict(paired_comparison(a.to_numpy(), b.reindex(a.index).to_numpy()))


def read_outcomes(path: Path) -> pd.Series:
    """Correctness by case id, sorted; UserError names the file and what is wrong with it."""
    try:
        frame = pd.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; name a Parquet file of predictions") from None
    except Exception as error:  # pyarrow raises many kinds for broken files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: not readable as Parquet ({reason}); remake the file") from None
    for column in ("case_id", "correct"):
        if column not in frame:
            raise UserError(f"{path}: no column '{column}'; a prediction file needs it")
    if frame.empty:
        raise UserError(f"{path}: holds no predictions; remake the file")
    ids, kinds = frame["case_id"], pd.api.types
    if ids.isna().any() or not (kinds.is_string_dtype(ids) or kinds.is_integer_dtype(ids)):
        raise UserError(f"{path}: 'case_id' must name a case in every row; remake the file")
    if not frame["correct"].isin([0, 1]).all():
        raise UserError(f"{path}: 'correct' must be true or false in every row; remake the file")
    outcomes = frame.set_index("case_id")["correct"].astype(bool).sort_index()
    if outcomes.index.has_duplicates:
        repeated = outcomes.index[outcomes.index.duplicated()][0]
        raise UserError(
            f"{path}: case '{repeated}' stands more than once; keep one prediction a case"
        )
    return outcomes
