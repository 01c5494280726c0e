"""The clinic's split of a gain, against doctors whose skills are known."""

import numpy as np
import pytest

from analysis.instrument import Instrument
from analysis.tables import TABLES


@pytest.fixture
def instrument(collected):
    return Instrument(collected, "clinic_dev")


def test_parts_add_up_to_the_gain(collected):
    table = TABLES.module("instrument").build(collected)
    keys = [column.key for column in table.columns]
    for row in table.rows[1:]:
        cells = dict(zip(keys, row.cells, strict=True))
        assert cells["questions"].value + cells["diagnosis"].value == pytest.approx(
            cells["gain"].value
        )
        assert cells["interval"].low < cells["gain"].value < cells["interval"].high


def test_better_questions_show_as_better_questions(collected):
    """The simulated PCQC and GRPO diagnose alike; PCQC's first question is nearly always best."""
    table = TABLES.module("instrument").build(collected)
    keys = [column.key for column in table.columns]
    rows = {row.key: dict(zip(keys, row.cells, strict=True)) for row in table.rows}
    per_question = {
        name: rows[name]["bayes"].value - rows[name]["best"].value for name in ("pcqc", "grpo")
    }
    assert per_question["pcqc"] > per_question["grpo"]
    assert rows["shared_sft"]["gain"] == "—"


def test_no_doctor_beats_the_best_questions_and_the_best_beat_random_ones(instrument):
    for run in "ABC":
        found = instrument.consultations("pcqc", run)
        assert found.bayes.mean() <= found.best.mean() + 5  # realised against expected accuracy
    for questions in range(1, 4):
        best, random = (instrument.frontier(questions, best) for best in (True, False))
        assert best > random
        assert best > instrument.frontier(questions - 1, True)


def test_equally_likely_diagnoses_share_the_credit(instrument, monkeypatch):
    case = next(iter(instrument.cases.values()))
    monkeypatch.setattr("analysis.instrument.posterior.evidence", lambda world, dialogue: {})
    monkeypatch.setattr(
        "analysis.instrument.posterior.posterior", lambda *a: np.full(len(case.options), 0.25)
    )
    assert instrument.diagnosis(case, {}) == 1 / len(case.options)
