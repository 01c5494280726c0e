"""Two methods on the same cases: gain, its bootstrap interval and McNemar's test."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from analysis.load import read_frame
from analysis.statistics.bootstrap_intervals import (
    RESAMPLES,
    SEED,
    Interval,
    percentile_interval,
    resampled_means,
)
from pcqc.errors import UserError


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
        return Interval(self.low, self.high)


def mcnemar(only_minuend: int, only_subtrahend: int) -> float:
    """Exact two-sided McNemar p of the two discordant counts; 1 where none is discordant."""
    discordant = only_minuend + only_subtrahend
    if discordant == 0:
        return 1.0
    return float(binomtest(only_minuend, discordant, 0.5).pvalue)


def paired_comparison(
    minuend: np.ndarray, subtrahend: np.ndarray, seed: int = SEED
) -> PairedComparison:
    """Gain of one method over another at fixed checkpoints (app:paired_statistics).

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
    frame = read_frame(path, ("case_id", "correct"), "name a Parquet file of predictions")
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
            f"{path}: case '{repeated}' is there more than once; keep one prediction per case"
        )
    return outcomes
