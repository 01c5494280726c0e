"""Two methods or runs on the same cases: gain, its bootstrap interval and McNemar's test."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

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
from pcqc_study.runs import Run, read_frame

AVERAGE = "average"


@dataclass(frozen=True)
class PairedComparison:
    """Two sets of predictions on the same cases (app:paired_statistics).

    Attributes:
        cases: their number.
        accuracy_a, accuracy_b: each set's, in percent.
        gain: their difference, in percentage points.
        low, high: ends of the gain's 95 % interval, in percentage points.
        only_a, only_b: cases that one set alone has right.
        p: McNemar's; None of an average over benchmarks.
    """

    cases: int
    accuracy_a: float
    accuracy_b: float
    gain: float
    low: float
    high: float
    only_a: int
    only_b: int
    p: float | None
    resamples: int = RESAMPLES
    seed: int = SEED
    resampling_unit: str = "case"

    @property
    def interval(self) -> Interval:
        """Of the gain, in percentage points."""
        one_sided = max(self.only_a, self.only_b)
        alike = self.only_a + self.only_b == one_sided in (0, self.cases)
        return Interval(self.low, self.high, alike)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar p of the two discordant counts; 1 where none is discordant."""
    discordant = only_a + only_b
    if discordant == 0:
        return 1.0
    return float(binomtest(only_a, discordant, 0.5).pvalue)


def paired_comparison(
    minuend: np.ndarray, subtrahend: np.ndarray, seed: int = SEED
) -> PairedComparison:
    """Gain of one method over another at fixed checkpoints (app:paired_statistics).

    Args:
        minuend, subtrahend: (cases,) booleans, correct or not, in the same order of cases.
        seed: the percentile bootstrap's, over cases.
    """
    pairs = np.column_stack([minuend, subtrahend]).astype(bool)
    first, second = pairs.T
    if _decided_alike(pairs):
        interval = _exact(pairs)
    else:
        interval = percentile_interval(_resampled_gains(pairs, seed))
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return PairedComparison(
        cases=len(pairs),
        accuracy_a=100 * float(first.mean()),
        accuracy_b=100 * float(second.mean()),
        gain=100 * (only_first - only_second) / len(pairs),
        low=interval.low,
        high=interval.high,
        only_a=only_first,
        only_b=only_second,
        p=mcnemar(only_first, only_second),
        seed=seed,
    )


def paired_average(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], compared: Sequence[PairedComparison]
) -> PairedComparison:
    """The same over several benchmarks: the unweighted mean, cases resampled within each.

    Args:
        pairs: (minuend, subtrahend) of each benchmark, as in `paired_comparison`.
        compared: what that returned for each.
    """
    rng, outcomes = np.random.default_rng(SEED), [np.column_stack(p).astype(bool) for p in pairs]
    if all(map(_decided_alike, outcomes)):
        exact = [_exact(each) for each in outcomes]
        low, high = (float(np.mean([getattr(e, end) for e in exact])) for end in ("low", "high"))
        interval = Interval(low, high, exact=True)
    else:
        gains = [_resampled_gains(each, rng) for each in outcomes]
        interval = percentile_interval(np.mean(gains, axis=0))
    return PairedComparison(
        cases=sum(each.cases for each in compared),
        accuracy_a=float(np.mean([each.accuracy_a for each in compared])),
        accuracy_b=float(np.mean([each.accuracy_b for each in compared])),
        gain=float(np.mean([each.gain for each in compared])),
        low=interval.low,
        high=interval.high,
        only_a=sum(each.only_a for each in compared),
        only_b=sum(each.only_b for each in compared),
        p=None,
    )


def compare(a: Run | str | Path, b: Run | str | Path) -> pd.DataFrame:
    """Accuracy of A minus that of B on the same cases, paired (app:paired_statistics).

    Args:
        a, b: a run, or a Parquet or CSV file with columns `case_id` and `correct`.

    Returns:
        One row for each benchmark that both have and, of several, one for their unweighted average,
        with `cases`, the two accuracies in percent, the `gain` in points with its 95 % interval
        (`low`, `high`) over cases, how many cases one alone got right, and McNemar's exact `p`.

    Raises:
        UserError: a file cannot be read, a case is there twice, or the cases differ.
    """
    first, second = (_outcomes(side) for side in (a, b))
    names = [name for name in first if name in second]
    if not names:
        raise UserError(f"{a} and {b} have no benchmark in common; name runs of like studies")
    pairs = {name: _paired(first[name], second[name], a, b) for name in names}
    rows = {name: paired_comparison(*pair) for name, pair in pairs.items()}
    if len(rows) > 1:
        rows[AVERAGE] = paired_average(list(pairs.values()), list(rows.values()))
    return pd.DataFrame([asdict(row) for row in rows.values()], index=list(rows))


def _paired(a: pd.Series, b: pd.Series, name_a: Any, name_b: Any) -> tuple:
    """Both outcomes as arrays in one order of cases."""
    only_a, only_b = a.index.difference(b.index), b.index.difference(a.index)
    if len(only_a) or len(only_b):
        extra, where = (only_a[0], name_a) if len(only_a) else (only_b[0], name_b)
        raise UserError(
            f"the cases differ: {len(only_a)} only in {name_a}, {len(only_b)} only in {name_b} "
            f"(first: '{extra}' in {where}); compare predictions on the same benchmark"
        )
    return a.to_numpy(), b.reindex(a.index).to_numpy()


def _outcomes(side: Run | str | Path) -> dict[str, pd.Series]:
    """Benchmark -> correctness by case id; a file that names no benchmark has one, `cases`."""
    if isinstance(side, Run):
        frame = side.predictions()
    else:
        remedy = "name a Parquet file of predictions"
        frame = read_frame(Path(side), ("case_id", "correct"), remedy)
    if frame.empty:
        raise UserError(f"{side}: holds no predictions; remake the file")
    ids, kinds = frame["case_id"], pd.api.types
    named = kinds.is_string_dtype(ids) or kinds.is_integer_dtype(ids)
    if ids.isna().any() or not named or (ids.astype(str).str.strip() == "").any():
        raise UserError(f"{side}: 'case_id' must name a case in every row; remake the file")
    if not frame["correct"].isin([0, 1]).all():
        raise UserError(f"{side}: 'correct' must be true or false in every row; remake the file")
    frame = frame.assign(case_id=ids.astype(str))
    if "benchmark" not in frame:
        frame = frame.assign(benchmark="cases")
    outcomes = {
        str(name): rows.set_index("case_id")["correct"].astype(bool).sort_index()
        for name, rows in frame.groupby("benchmark", sort=False)
    }
    for rows in outcomes.values():
        if rows.index.has_duplicates:
            repeated = rows.index[rows.index.duplicated()][0]
            raise UserError(
                f"{side}: case '{repeated}' is there more than once; keep one prediction per case"
            )
    return outcomes


def _decided_alike(pairs: np.ndarray) -> bool:
    """Whether the gain is the same on every case; pairs are (cases, 2) booleans."""
    return alike(pairs[:, 0].astype(float) - pairs[:, 1])


def _exact(pairs: np.ndarray) -> Interval:
    """Interval in points of a gain that is the same on every case."""
    gain = 100 * (float(pairs[0, 0]) - float(pairs[0, 1]))
    return exact_interval(gain, len(pairs), -100, 100)


def _resampled_gains(pairs: np.ndarray, rng: int | np.random.Generator) -> np.ndarray:
    """Gain in points in each resample of the cases; pairs are (cases, 2) booleans."""
    means = resampled_means(pairs, rng=rng)
    return 100 * (means[:, 0] - means[:, 1])
