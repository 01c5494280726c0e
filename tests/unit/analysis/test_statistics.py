"""The paper's statistics against independent formulas and against scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.statistics.estimates import average_over_benchmarks, over_runs
from pcqc_base.errors import UserError
from pcqc_study.intervals_over_cases import resampled_means
from pcqc_study.paired import compare, paired_comparison


@pytest.fixture
def outcomes():
    rng = np.random.default_rng(3)
    subtrahend = rng.random(400) < 0.5
    minuend = np.where(rng.random(400) < 0.3, rng.random(400) < 0.7, subtrahend)
    return minuend, subtrahend


def write(folder, name, case_ids, correct):
    path = folder / name
    pd.DataFrame({"case_id": case_ids, "correct": correct}).to_parquet(path)
    return path


def test_interval_is_scipys_paired_percentile_bootstrap(outcomes):
    compared = paired_comparison(*outcomes)
    scipys = stats.bootstrap(
        outcomes,
        lambda a, b, axis: 100 * (a.mean(axis=axis) - b.mean(axis=axis)),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (compared.low, compared.high) == pytest.approx(tuple(scipys), abs=100 / 400 + 0.05)


def test_pattern_counts_and_drawn_indices_resample_alike():
    values = np.random.default_rng(0).choice([0.0, 0.25, 1.0], size=(150, 2))
    noise = 1e-9 * np.arange(300).reshape(150, 2)  # makes every row its own pattern
    counted = resampled_means(values, rng=1)
    indexed = resampled_means(values + noise, rng=2)
    assert counted.mean(axis=0) == pytest.approx(indexed.mean(axis=0), abs=0.002)
    assert np.cov(counted.T) == pytest.approx(np.cov(indexed.T), abs=5e-5)


def test_sd_is_the_sample_sd_and_benchmarks_are_averaged_within_runs():
    accuracies = [[61.59, 61.59, 64.43], [62.67, 60.00, 62.67], [53.73, 53.92, 55.78]]
    average = average_over_benchmarks(accuracies)
    assert (round(average.mean, 2), round(average.sd, 2)) == (59.60, 1.25)
    assert over_runs([1.0]).sd is None


def test_compare_matches_cases_by_id(tmp_path):
    a = write(tmp_path, "a.parquet", ["x", "y", "z"], [True, True, False])
    b = write(tmp_path, "b.parquet", ["z", "x", "y"], [False, False, True])
    result = compare(a, b).loc["cases"]
    assert (result["cases"], result["only_a"], result["only_b"]) == (3, 1, 0)
    assert result["gain"] == pytest.approx(100 / 3)


def test_compare_averages_benchmarks_of_any_size_alike(tmp_path):
    """A gains half of two cases on `small` and none of four on `large`: 25 points on average."""
    ids, benchmarks = list("abcdef"), ["small"] * 2 + ["large"] * 4
    for name, correct in (("a", [True] * 6), ("b", [True, False, True, True, True, True])):
        rows = {"case_id": ids, "benchmark": benchmarks, "correct": correct}
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    result = compare(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert result["gain"].to_dict() == {"small": 50.0, "large": 0.0, "average": 25.0}
    # A resample of the two cases has the one that differs 0, 1 or 2 times.
    assert result.loc["average", ["low", "high"]].tolist() == [0.0, 50.0]
    # Four cases without a difference: at most 1 - 0.025^(1/4) of others have one, either way.
    ends = result.loc["large", ["low", "high"]].tolist()
    assert ends == pytest.approx([-60.236, 60.236], abs=1e-3)


UNUSUAL = ["1", "007", "7", "NA", "null", "1e3", "True", "x y", "é"]


@pytest.mark.parametrize("quoting", [0, 1])
def test_ids_are_texts_in_csv_as_in_parquet(tmp_path, quoting):
    """What looks like a number, a missing value or a truth value is a name all the same."""
    right = [True, False] * 4 + [True]
    a = write(tmp_path, "a.parquet", UNUSUAL, right)
    frame = pd.DataFrame({"case_id": UNUSUAL, "correct": [1, 1, 0, 0, 1, 1, 0, 0, 1]})
    frame.to_csv(tmp_path / "b.csv", index=False, quoting=quoting)
    result = compare(a, tmp_path / "b.csv").loc["cases"]
    # By hand: alone right are the third and seventh of A, the second and sixth of B.
    assert (result["cases"], result["only_a"], result["only_b"]) == (9, 2, 2)
    numbers = write(tmp_path, "c.parquet", [1, 2, 10], [True, True, False])
    frame = pd.DataFrame({"case_id": ["10", "1", "2"], "correct": [True, True, True]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    assert compare(numbers, tmp_path / "d.csv").loc["cases", "only_b"] == 1
    assert compare(tmp_path / "d.csv", tmp_path / "d.csv").loc["cases", "gain"] == 0


@pytest.mark.parametrize("text", ["case_id,correct\n,1\nx,1\n", 'case_id,correct\n" ",1\n'])
def test_an_id_that_is_blank_names_no_case(tmp_path, text):
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(UserError, match=r"b\.csv: 'case_id' must name a case in every row"):
        compare(tmp_path / "b.csv", tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("ids", "correct", "message"),
    [
        (["x", "y", "w"], [True] * 3, "the cases differ: 1 only in"),
        (["x", "y", "y"], [True] * 3, "case 'y' is there more than once"),
        (["x", "y", "z"], [None, True, True], "'correct' must be true or false"),
        ([["x"], ["y"], ["z"]], [True] * 3, "'case_id' must name a case"),
        ([1, 2, 3], [True] * 3, "the cases differ: 3 only in"),
        ([], [], "holds no predictions"),
    ],
)
def test_compare_refuses_files_that_cannot_be_paired(tmp_path, ids, correct, message):
    a = write(tmp_path, "a.parquet", ["x", "y", "z"], [True, True, False])
    b = write(tmp_path, "b.parquet", ids, correct)
    with pytest.raises(UserError, match=message) as raised:
        compare(a, b)
    assert "\n" not in str(raised.value)


def test_compare_names_a_missing_column_and_a_broken_or_missing_file(tmp_path):
    a = write(tmp_path, "a.parquet", ["x", "y"], [True, True])
    pd.read_parquet(a).drop(columns="correct").to_parquet(tmp_path / "less.parquet")
    (tmp_path / "cut.parquet").write_bytes(a.read_bytes()[:40])
    (tmp_path / "folder.parquet").mkdir()
    for name, reason in {
        "less": "no column correct",
        "cut": ".*",
        "folder": ".*",
        "none": "no such file",
    }.items():
        with pytest.raises(UserError, match=rf"{name}\.parquet: {reason}; name a") as raised:
            compare(a, tmp_path / f"{name}.parquet")
        assert "\n" not in str(raised.value)
