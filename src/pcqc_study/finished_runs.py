"""What `import pcqc` offers: a finished run as data frames, and the comparison of two."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pcqc_base.errors import UserError
from pcqc_study.paired import paired_average, paired_comparison
from pcqc_study.runs import Run, load, read_frame

__all__ = ["Run", "compare", "load"]
AVERAGE = "average"


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
