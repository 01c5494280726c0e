"""Speed and coverage of the paired case bootstrap.

    python -m benchmarks.bootstrap [--studies 4000]

Times 10,000 resamples of 1,268 pairs against `scipy.stats.bootstrap` calling the statistic once
per resample, in the same run, and measures by simulation how often the 95 % interval covers the
true gain. Prints JSON; exits with 1 if a bound is missed.
"""

import argparse
import sys

import numpy as np
from scipy import stats

from analysis.statistics.bootstrap import RESAMPLES
from analysis.statistics.paired import paired_comparison
from benchmarks.measure import Finding, report, timed

PAIRS = 1268
# P(both right), P(only first), P(only second), P(neither): near the paper's MedQA rows.
CELLS = (0.42, 0.196, 0.141, 0.243)
TRUE_GAIN = 100 * (CELLS[1] - CELLS[2])
BOUNDS = {"seconds": 0.3, "times_faster": 20, "coverage": (94, 96)}


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) outcomes of two methods on one drawn set of cases."""
    cell = rng.choice(4, size=PAIRS, p=CELLS)
    return (cell == 0) | (cell == 1), (cell == 0) | (cell == 2)


def fastest(call, repeats: int) -> float:
    """Seconds of the fastest of several calls."""
    return min(timed(call) for _ in range(repeats))


def scipys(first: np.ndarray, second: np.ndarray) -> None:
    """The same interval, one call of the statistic per resample."""
    stats.bootstrap(
        (first, second),
        lambda a, b: a.mean() - b.mean(),
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(0),
    )


def coverage(studies: int) -> float:
    """Percent of simulated studies whose interval holds the true gain."""
    rng = np.random.default_rng(1)
    found = (paired_comparison(*draw(rng), seed=study) for study in range(studies))
    return 100 * float(np.mean([f.low - 1e-9 <= TRUE_GAIN <= f.high + 1e-9 for f in found]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=4000, help="simulated studies")
    arguments = parser.parse_args()
    pairs = draw(np.random.default_rng(0))
    ours = fastest(lambda: paired_comparison(*pairs), 5)
    theirs = fastest(lambda: scipys(*pairs), 2)
    covered = coverage(arguments.studies)
    result = {
        "pairs": PAIRS,
        "resamples": RESAMPLES,
        "seconds": round(ours, 5),
        "scipy_seconds": round(theirs, 3),
        "times_faster": round(theirs / ours, 1),
        "studies": arguments.studies,
        "coverage_percent": round(covered, 2),
    }
    low, high = BOUNDS["coverage"]
    findings = [
        Finding("seconds for an interval", ours, "s", most=BOUNDS["seconds"]),
        Finding("our rate by scipy's", theirs / ours, "times", least=BOUNDS["times_faster"]),
        Finding("intervals that cover the true gain", covered, "%", least=low, most=high),
    ]
    return report(findings, **result)


if __name__ == "__main__":
    sys.exit(main())
