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
        "pcqc.clinic.quality.posterior", lambda *a: np.full(len(case.options), 0.25)
    )
    assert instrument.diagnosis(case, {}) == 1 / len(case.options)


def test_question_quality_shows_the_skills_that_made_it(collected, instrument):
    table = TABLES.module("question_quality").build(collected)
    keys = [column.key for column in table.columns]
    rows = {row.key: dict(zip(keys, row.cells, strict=True)) for row in table.rows}
    first = rows["pcqc:1"]
    judged = [asked[0] for run in "ABC" for _, asked in instrument.questions("pcqc", run) if asked]
    assert first["best"].value == pytest.approx(
        100 * np.mean([one.best for one in judged]), abs=1.0
    )
    assert first["best"].value > 90  # its skill, and a few of the others by chance
    assert rows["grpo:1"]["best"].value < first["best"].value
    assert first["regret"].value < rows["grpo:1"]["regret"].value
    assert rows["grpo:3"]["repeated"].value > 0 == first["repeated"].value
    assert first["candidates"] == "—"  # the simulated training records none
    for row in rows.values():
        assert row["random"].value <= row["best_possible"].value


def test_evidence_of_the_last_turn_is_that_of_the_whole_dialogue(collected, instrument):
    whole = instrument.consultations("grpo", "A").bayes
    asked = instrument.questions("grpo", "A")
    last = [
        100 * (a[-1].diagnosis if a else instrument.diagnosis(c, {"turns": []})) for c, a in asked
    ]
    assert last == pytest.approx(list(whole))
