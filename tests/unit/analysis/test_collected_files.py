"""Damaged and incomplete collections are refused in one line."""

import pandas as pd
import pytest
import simulated

from analysis.load import load
from pcqc_base.errors import UserError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f[~((f.method == "grpo") & (f.run == "B"))],
            "no predictions of grpo run B on clinic_dev; evaluate and collect that run",
        ),
        (lambda f: pd.concat([f, f.iloc[:1]]), "is there twice for shared_sft run A"),
        (
            lambda f: f[~((f.method == "pcqc") & (f.run == "C") & (f.case_id == "clinic_dev-3"))],
            "pcqc run C was evaluated on other cases of clinic_dev",
        ),
        (lambda f: f.replace({"method": {"grpo": "gpro"}}), "method 'gpro' is not in study"),
        (lambda f: f.drop(columns=["turns", "run"]), "no column run, turns; collect the study's"),
    ],
)
def test_incomplete_collections_are_refused(copied, reloaded, change, message):
    path = copied / "predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    with pytest.raises(UserError, match=message):
        reloaded()


def test_missing_and_cut_files_are_named(copied, reloaded):
    path, study = copied / "updates.parquet", simulated.load_study(simulated.STUDY)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        UserError, match=r"updates\.parquet: altered since .* move .*collected/\w{8} away"
    ):
        load(study)
    with pytest.raises(UserError, match=r"updates\.parquet: .*collect the study's runs again"):
        reloaded()
    path.unlink()
    with pytest.raises(UserError, match=r"updates\.parquet: missing; move .*collected/\w{8} away"):
        load(study)
    (copied / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"is not finished \(no manifest\.json\); run the workflow"):
        load(study)


@pytest.mark.parametrize("content", ["{}", "[]", "[{}]", "null", '[{"method": 1}]', "{"])
def test_a_list_of_runs_of_another_shape_is_one_line(copied, reloaded, content):
    (copied / "runs.json").write_text(content)
    with pytest.raises(UserError, match=r"runs\.json.*; collect the study's runs again") as refused:
        reloaded()
    assert "\n" not in str(refused.value)
