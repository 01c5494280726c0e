"""Settings of real studies: what they need, and what an absent file means."""

import pytest
import yaml

from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a variant of real-smoke and name its path; the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCQC_DATA", str(tmp_path / "raw"))

    def write(change=lambda settings: None) -> str:
        text = (ROOT / "config" / "studies" / "real-smoke.yaml").read_text(encoding="utf-8")
        settings = yaml.safe_load(text)
        change(settings)
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        return "mine.yaml"

    return write


def put(path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")


def test_a_patient_of_its_own_weights(write):
    def change(settings):
        settings["models"]["patient"] = {"source": "elsewhere"}

    study = load_study(write(change))
    assert set(study.pretrained) == {"base", "patient_base"}
    assert (study.starts_from("patient"), study.starts_from("scorer")) == ("patient_base", "base")


def test_an_optional_benchmark_is_there_once_its_file_is(write, tmp_path):
    path = write()
    study = load_study(path)
    assert list(study.benchmarks) == ["medqa"]
    assert study.absent["medmcqa"] == "atpo/mcqa_test_dataset.jsonl"
    put(tmp_path / "raw" / "atpo" / "mcqa_test_dataset.jsonl")
    study = load_study(path)
    assert list(study.benchmarks) == ["medqa", "medmcqa"]
    assert "medmcqa" not in study.absent


def test_the_default_folder_is_below_the_working_directory(write, monkeypatch):
    monkeypatch.delenv("PCQC_DATA")
    raw = load_study(write()).benchmarks["medqa"].raw
    assert str(raw.path) == "data/raw/atpo/medqa_test_dataset.jsonl"
