"""Damaged and incomplete collections are refused in one line."""

import shutil

import pandas as pd
import pytest
import simulated
from hand_made import finish_job

from analysis import load as reader
from pcqc.errors import UserError


def spoiled(folder, monkeypatch, change):
    """A copy of the study whose predictions were changed."""
    monkeypatch.chdir(folder)
    path = folder / "results/simulated/collected/latest/predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    return vouched(simulated.load_study(simulated.STUDY))


def vouched(study):
    """The study, as if its collection had been made as it is now."""
    finish_job(study, "collect")
    return study


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
def test_incomplete_collections_are_refused(study_folder, tmp_path, monkeypatch, change, message):
    shutil.copytree(study_folder / "results", tmp_path / "results", symlinks=True)
    study = spoiled(tmp_path, monkeypatch, change)
    with pytest.raises(UserError, match=message):
        reader.load(study)


def test_missing_and_cut_files_are_named(study_folder, tmp_path, monkeypatch):
    shutil.copytree(study_folder / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results/simulated/collected/latest/updates.parquet"
    study, whole = simulated.load_study(simulated.STUDY), path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(
        UserError, match=r"updates\.parquet: altered since .* move .*collected/latest away"
    ):
        reader.load(study)
    with pytest.raises(UserError, match=r"updates\.parquet: .*collect the study's runs again"):
        reader.load(vouched(study))
    path.unlink()
    with pytest.raises(UserError, match=r"updates\.parquet: missing; move .*collected/latest away"):
        reader.load(study)
    finish_job(study, "collect")
    (study.results / "collected" / "latest" / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"is not finished \(no manifest\.json\); run the workflow"):
        reader.load(study)


@pytest.mark.parametrize("content", ["{}", "[]", "[{}]", "null", '[{"method": 1}]', "{"])
def test_a_list_of_runs_of_another_shape_is_one_line(study_folder, tmp_path, monkeypatch, content):
    shutil.copytree(study_folder / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/simulated/collected/latest/runs.json").write_text(content)
    with pytest.raises(UserError, match=r"runs\.json.*; collect the study's runs again") as refused:
        reader.load(vouched(simulated.load_study(simulated.STUDY)))
    assert "\n" not in str(refused.value)
