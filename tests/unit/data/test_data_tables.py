"""The report's tables on where the cases come from and what overlaps."""

from dataclasses import replace

import pytest
from hand_made import finish_job, folder_of
from real_data import convert

from analysis.collected import Collected
from analysis.tables import data
from pcqc_base.settings import Benchmark, Data, RawFile
from pcqc_base.system.files import write_atomic
from pcqc_study.run_job import run_job
from pcqc_study.study_file import load_study

BENCHMARKS = {
    "medqa": Benchmark("MedQA", "development"),
    "icraft_md": Benchmark("iCRAFT-MD", "independent_source"),
}
FILES = {
    "train": ("mediq", None),
    "sft": ("atpo_sft", None),
    "medqa": ("atpo_dialogues", "medqa"),
    "icraft_md": ("icraft_md", None),
}


@pytest.fixture
def collected(fixtures, tmp_path, monkeypatch):
    """A study of hand-written rows, converted and audited."""
    monkeypatch.chdir(tmp_path)
    raw = {name: RawFile(f"{file}.jsonl") for name, (file, _) in FILES.items()}
    study = replace(
        load_study("real-smoke"),
        name="tiny",
        data=Data((raw["train"],), sft=raw["sft"]),
        benchmarks={name: replace(b, raw=raw[name]) for name, b in BENCHMARKS.items()},
    )
    for name, (file, source) in FILES.items():
        convert(study, name, fixtures / f"{file}.jsonl", source)
    run_job(study, "overlap")
    used = {"train": {"train.jsonl": 1, "sft.jsonl": 3}, "medqa": {"medqa.jsonl": 4}}
    for name, rows in {**used, "icraft_md": {"icraft_md.jsonl": 2}}.items():
        write_atomic(folder_of(study, "prepare", name) / f"{name}.jsonl", "")
        finish_job(study, "prepare", name, entries={"rows": rows})
    return Collected(study, None, None, {})


def texts(row):
    return [cell if isinstance(cell, str) else cell.text() for cell in row.cells]


def test_data_cards_stand_beside_the_paper_s_counts(collected):
    table = data.cards(collected)
    train, sft, medqa, icraft = map(texts, table.rows)
    assert train == [
        "Training (mediq)",
        *["—", "2", "0", "1", "4", "0/1/1/0", "1 (0–2)", "3.5 (0–7)"],
    ]
    assert sft[:5] == ["SFT (atpo_sft)", "4,157", "3", "0", "3"]
    assert sft[5:] == ["—"] * 4
    assert medqa[:7] == ["MedQA", "1,268", "4", "0", "4", "2–5", "2/1/1/0/0"]
    assert icraft[:5] == ["iCRAFT-MD", "139", "2", "1", "2"]
    assert "Excluded: iCRAFT-MD, line 2 (icraft_md-1): the answer's text" in table.notes[0]
    assert "SHA-256: Training (mediq) " in table.notes[1]


def test_overlap_table_shows_the_audit(collected):
    table = data.overlap(collected)
    rows = {row.key: texts(row) for row in table.rows}
    assert rows["medqa:train"] == ["MedQA", "training cases", "4", "2", *["1"] * 5]
    assert rows["medqa:sft"] == ["MedQA", "SFT conversations", "4", "2", *["1"] * 5]
    assert rows["icraft_md:all training data"][2:] == ["2", "4", *["0"] * 5]
    assert "2 MedQA matches of case and problem" in table.caption
    assert "at least 0.85" in table.caption


def test_real_studies_have_the_tables_and_the_clinic_has_not():
    from analysis.tables_and_figures import TABLES, chosen

    ours = {"data_cards", "overlap"}
    studies = [load_study(name) for name in ("clinic", "real-smoke")]
    clinic, real = ({item.name for item in chosen(TABLES, study)} for study in studies)
    assert not ours & clinic
    assert ours <= real
