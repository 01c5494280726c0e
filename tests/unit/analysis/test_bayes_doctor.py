"""The clinic's split of a gain, against doctors whose skills are known."""

from dataclasses import replace

import numpy as np
import pytest
from built_tables import build, cells

from analysis.bayes_doctor import BayesDoctor, exact_doctor
from analysis.tables.thoughts import thoughts_of
from pcqc.cases.prompts import UNANSWERABLE, Exchange
from pcqc_clinic import quality
from pcqc_clinic.consultations import still_likely


@pytest.fixture
def bayes(collected):
    return BayesDoctor(collected)


def test_better_questions_show_as_better_questions_and_the_parts_add_up(collected):
    """The simulated PCQC and GRPO diagnose alike; PCQC's first question is nearly always best."""
    rows = cells(build("questions_or_diagnosis", collected))
    start = rows.pop("shared_sft")
    assert start["gain"] == "—"
    for row in rows.values():
        assert row["questions"].value + row["diagnosis"].value == pytest.approx(row["gain"].value)
        assert row["interval"].low < row["gain"].value < row["interval"].high
    lost = {name: rows[name]["best"].value - rows[name]["bayes"].value for name in ("pcqc", "grpo")}
    assert lost["pcqc"] < lost["grpo"]


def test_an_exact_doctor_stops_and_keeps_what_it_knows(bayes):
    """One case is solved by its first question; the other has two, which the facts leave open."""
    world, (first, second) = bayes.world, list(bayes.cases.values())[:2]
    name = first.options[first.answer]
    shown = Exchange(f"Any {name} spots?", f"{name} spots present.")
    silent = Exchange("Any spots?", UNANSWERABLE)
    held = [(first, [shown]), (second, [silent, silent])]
    doctor = exact_doctor(world, held, bayes.rates, 3)
    assert list(doctor.asked) == [0, 1, 1.5, 1.5]
    none, sign = {}, {world.diseases.index(name): True}
    before, after, other = (
        100 * quality.diagnosis(world, case, answered, bayes.rates)
        for case, answered in ((first, none), (first, sign), (second, none))
    )
    mean = (after + other) / 2
    assert doctor.accuracy == pytest.approx([(before + other) / 2, mean, mean, mean])
    assert doctor.after(0.5) == pytest.approx(((before + other) / 2 + mean) / 2)
    assert doctor.after(9) == pytest.approx(mean)


def test_best_questions_bring_more_than_a_methods_or_random_ones(bayes):
    best, random = bayes.best, bayes.random
    assert best.accuracy[0] == pytest.approx(random.accuracy[0])
    for limit in (1, 2, 3):
        assert best.accuracy[limit] > random.accuracy[limit] > random.accuracy[limit - 1]
    for run in "ABC":
        for method in ("grpo", "pcqc"):
            consultations = bayes.consultations(method, run)
            assert consultations.bayes.mean() < best.after(consultations.questions.mean()) + 2


def test_question_quality_shows_the_skills_that_made_it(collected, bayes):
    rows = cells(build("question_quality", collected))
    first = rows["pcqc:1"]
    judged = [asked[0] for run in "ABC" for _, asked in bayes.questions("pcqc", run) if asked]
    assert first["best"].value == pytest.approx(
        100 * np.mean([question.best for question in judged]), abs=1.0
    )
    assert first["best"].value > 90  # its skill, and a few of the others by chance
    assert rows["grpo:1"]["best"].value < first["best"].value
    assert first["regret"].value < rows["grpo:1"]["regret"].value
    assert rows["grpo:3"]["repeated"].value > 0 == first["repeated"].value
    assert first["candidates"] == "—"  # the simulated training records none
    for row in rows.values():
        assert row["random_doctor"].value <= row["best_doctor"].value


def test_first_questions_are_of_all_runs_of_all_base_models(collected):
    """The second base model has runs B and C of GRPO, and none of ATPO."""
    second = collected.with_runs({"grpo": ("B", "C"), "atpo": ()})
    table = build("question_quality_by_base", replace(collected, others=(second,)))
    row = cells(table)["grpo:1–3"]
    of_bases = [row[f"above_{base}"].value for base in (1, 2)]
    assert row["above"].value == pytest.approx((3 * of_bases[0] + 2 * of_bases[1]) / 5)
    assert row["above"].value == pytest.approx(row["best"].value - row["chance"].value)
    assert table.cell("atpo:1", "above_2") == "—"
    assert "all runs on two base models" in table.caption
    early, by_turn = (cells(build(f"question_quality{end}", collected)) for end in ("_by_base", ""))
    for column in ("best", "chance", "repeated"):
        assert early["grpo:3"][column] == by_turn["grpo:3"][column]


def test_evidence_of_the_last_turn_is_that_of_the_whole_dialogue(collected, bayes):
    whole = bayes.consultations("grpo", "A").bayes
    asked = bayes.questions("grpo", "A")
    last = [100 * (a[-1].diagnosis if a else bayes.diagnosis(c, {"turns": []})) for c, a in asked]
    assert last == pytest.approx(list(whole))


def spoken(thought, question=None, answer=None):
    return {"response": f"<think>{thought}</think>", "question": question, "answer": answer}


def test_a_thought_is_judged_by_the_options_still_likely(bayes):
    world, case = bayes.world, next(iter(bayes.cases.values()))
    right = case.options[case.answer]
    first, *others = [name for name in case.options.values() if name != right]
    exchanges = [(f"Any {first} spots?", f"{first} spots absent.")]
    likely = still_likely(world, case, [])
    assert {right, first} <= set(likely)
    left = [name for name in likely if name != first]
    turns = [
        spoken(", ".join(likely), *exchanges[0]),
        spoken(", ".join(left)),
        spoken(", ".join([*left, first])),  # was ruled out
        spoken(", ".join([*left, left[0]])),
        spoken(", ".join([*left[:-1], left[-1] + first])),
        spoken(", ".join(name for name in left if name != right)),
    ]
    thoughts = list(thoughts_of(world, case, {"turns": turns}))
    assert [t.exact for t in thoughts] == [True, True, False, False, False, False]
    assert [t.garbled for t in thoughts] == [False, False, False, True, True, False]
    assert [t.dropped for t in thoughts[:4]] == [False] * 4
    assert thoughts[5].dropped
    denied = spoken("", f"Any {right} spots?", f"{right} spots absent.")
    _, last = thoughts_of(world, case, {"turns": [denied, spoken(", ".join(others))]})
    assert right not in last.likely
    assert not last.dropped


def test_what_a_method_drops_is_counted_over_all_runs(collected, monkeypatch):
    """One consultation in four drops the right option; the wrong ones are all among them."""

    def dialogues(self, method, run):
        for number, case in enumerate(list(self.cases.values())[:8]):
            right = case.options[case.answer]
            kept = [name for name in case.options.values() if name != right or number % 4]
            yield case, {"turns": [spoken(", ".join(kept))], "correct": bool(number)}

    monkeypatch.setattr(BayesDoctor, "dialogues", dialogues)
    table = build("thoughts", collected)
    assert table.cell("pcqc", "dropped").value == pytest.approx(25)
    assert table.cell("pcqc", "dropped_wrong").value == pytest.approx(100)
    assert table.cell("pcqc", "garbled").value == 0
