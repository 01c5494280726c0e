"""Bad input: one clear line, a non-zero exit, and nothing lost.

Each goes through the real command line in a process of its own.
"""

import re

import pytest
from digests import digests
from workplace import SETTINGS, STUDY, Workplace, complaint


@pytest.mark.slow  # it pretrains; `test_base_model.py` has what a sound model is
def test_an_unsound_base_model(copy):
    copy.edit(SETTINGS, "least_patient_accuracy: 0.0", "least_patient_accuracy: 1.0")
    line = complaint(copy.run(copy.command("base", STUDY)))
    assert "the base model is not sound after 100 steps: scorer_accuracy " in line
    assert "raise scratch_model.most_steps, or change scratch_model.seed" in line


def test_the_workflow_stops_with_the_line_and_loses_nothing(copy):
    """What no job would read again is compared too, before any job starts."""
    before = digests(copy.results / "runs")
    path = copy.results / "data/clinic/train/latest/train.jsonl"
    path.write_text(path.read_text().replace('"index"', '"number"', 1))
    done = copy.run(copy.workflow("terminal_only"))
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert output.count("pcqc: error: ") == 1
    assert "/train.jsonl: altered since it was written; move " in output
    assert "Traceback" not in output
    assert digests(copy.results / "runs") == before


@pytest.mark.slow
def test_a_missing_file_or_what_went_wrong_in_a_job_is_said_last(tmp_path, monkeypatch):
    monkeypatch.delenv("PCQC_DATA", raising=False)
    place = Workplace(tmp_path / "fresh")
    done = place.run(place.workflow("--dry-run", study="own-cases"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.match(
        r"pcqc: error: data/raw/own/test.jsonl, data/raw/own/train.jsonl: missing", last
    )
    assert "download with `pcqc data fetch`, or name the folder that holds your files" in last
    raw = place.folder / "data" / "raw" / "own"
    raw.mkdir(parents=True)
    for name in ("train", "test"):
        (raw / f"{name}.jsonl").write_text("{}\n")
    done = place.run(place.workflow("--until", "convert", study="own-cases"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.match(r"pcqc: error: data/raw/own/(train|test)\.jsonl, line 1: no known format", last)
