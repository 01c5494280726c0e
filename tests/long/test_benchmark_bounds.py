"""The benchmarks that need no peer keep their bounds."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from pcqc.study import ROOT


def run(script, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("published_cases", [True, False], ids=["published", "made up"])
def test_the_search_for_overlap(tmp_path, published_cases):
    """At the paper's sizes, with texts of the published cases and, where missing, others."""
    script = ROOT / "benchmarks" / "overlap.py"
    if published_cases:
        run(script)
    else:  # beside a copy of the script no data lies
        run(shutil.copy(script, tmp_path), "--training", "3000", "--evaluation", "400")


def test_speed_and_coverage_of_the_paired_bootstrap():
    found = json.loads(run(ROOT / "benchmarks" / "bootstrap.py"))
    assert (found["resamples"], found["pairs"]) == (10_000, 1268)
    assert found["seconds"] < 0.3
    assert found["times_faster"] >= 20
    assert abs(found["coverage_percent"] - 95) <= 1
