"""Golden test: our code on outcomes recovered from the paper's 13 paired comparisons."""

import numpy as np
import pytest

from analysis.published import published
from analysis.recovery import discordant_counts, printed, rebuilt_outcomes, recovered_counts
from analysis.statistics.paired import paired_comparison

PAPER = published()
ROWS = pytest.mark.parametrize(
    "row", PAPER.paired, ids=lambda r: f"{r.benchmark}-{r.minuend}-{r.subtrahend}"
)


def cases(row):
    return PAPER.benchmarks[row.benchmark].cases


def test_there_are_thirteen_rows():
    assert len(PAPER.paired) == 13


@ROWS
def test_gain_and_p_give_one_pair_of_discordant_counts(row):
    found = discordant_counts(row, cases(row))
    assert len(found) > 1 if row.p == "1.0000" else len(found) == 1


@ROWS
def test_gain_interval_and_p_are_recomputed(row):
    n = cases(row)
    outcomes = rebuilt_outcomes(recovered_counts(row, n), n)
    found = paired_comparison(*outcomes)
    assert printed(found.gain, "0.00") == printed(row.gain, "0.00")
    assert printed(found.p, row.p) == row.p
    drawn = [paired_comparison(*outcomes, seed=seed) for seed in range(20)]
    monte_carlo = np.std([(f.low, f.high) for f in drawn], axis=0, ddof=1)
    tolerance = 100 / n + 3 * monte_carlo + 0.005  # one case, and the printed rounding
    assert np.all(np.abs(np.subtract((found.low, found.high), (row.low, row.high))) <= tolerance)


@ROWS
def test_another_number_of_discordant_cases_is_noticed(row):
    """Two more discordant cases keep the gain and change p, so the golden test can fail."""
    n = cases(row)
    b, c = recovered_counts(row, n)
    found = paired_comparison(*rebuilt_outcomes((b + 1, c + 1), n))
    assert printed(found.gain, "0.00") == printed(row.gain, "0.00")
    assert printed(found.p, row.p) != row.p or row.p == "1.0000"
