import dataclasses

import pytest

from pcqc.study import Method
from pcqc.tracking.reading import evenly, page, table, why

METHOD = Method("PCQC", question_group=2, question_credit="same_state", beta=1.0)


def candidate(utility, credit, question="Any fever?", executed=False, supervised=True):
    return {
        "response": f"Question: {question}" if question else "Final Answer: A",
        "question": question,
        "answer": "No." if question else None,
        "utility": utility,
        "gain": utility - 0.25,
        "credit": credit,
        "executed": executed,
        "supervised": supervised,
    }


def group(*candidates, spread=0.1):
    return {
        "update": 3,
        "case_id": "c-1",
        "turn": 0,
        "baseline": 0.25,
        "spread": spread,
        "initial": "A patient of 40 feels unwell.",
        "options": {"A": "Anaemia", "B": "Borreliosis"},
        "answer_label": "B",
        "history": [{"question": "Any rash?", "answer": "Yes."}],
        "candidates": list(candidates),
    }


@pytest.mark.parametrize(
    ("given", "question_credit", "spread", "said"),
    [
        (candidate(0.45, 1.0), "same_state", 0.1, r"credit (0.450 - 0.350) / 0.100 = +1.00"),
        (candidate(0.45, 0.3), "executed_local", 0.1, "of this update, whatever their state"),
        (
            candidate(0.25, 0.0),
            "same_state",
            2e-5,
            "(standard deviation 2.0e-05), so none of them is",
        ),
        (candidate(0.45, 0.0, supervised=False), "same_state", 0.1, "learned nothing from it"),
        (candidate(0.25, -1.0, question=None), "same_state", 0.1, "stayed 0.250"),
    ],
)
def test_a_credit_is_derived_in_words(given, question_credit, spread, said):
    method = dataclasses.replace(METHOD, question_credit=question_credit, supervise="executed")
    assert said in why(group(given, candidate(0.25, -1.0), spread=spread), given, method)


@pytest.mark.parametrize(
    ("utility", "said"),
    [
        ("continuations", "a share of 0.450 ended in the correct diagnosis"),
        ("expected_answer", "the correct option's probability is 0.450 on average"),
    ],
)
def test_a_utility_is_named_by_who_gave_it(utility, said):
    given = candidate(0.45, 0.2)
    played = 1 if utility == "continuations" else 0
    method = dataclasses.replace(
        METHOD, question_credit="leave_one_out", question_utility=utility, continuations=played
    )
    text = why(group(given, candidate(0.25, -0.2)), given, method)
    assert said in text
    assert text.endswith("credit 0.450 - 0.250 = +0.20.")


def test_the_table_ranks_candidates_and_marks_the_executed_one():
    text = table(group(candidate(0.2, -1.0, "A|B?", executed=True), candidate(0.4, 1.0)))
    assert text.splitlines()[2:] == [
        "|Any fever?|No.|0.400|+0.150|+1.000|unexecuted|",
        "|A&#124;B?|No.|0.200|-0.050|-1.000|executed|",
    ]


def test_the_page_names_turn_and_answer():
    text = page("PCQC, run A", [group(candidate(0.4, 1.0), candidate(0.2, -1.0))] * 30)
    assert "24 of 30 candidate groups" in text
    assert "Update 3, case c-1, turn 2" in text
    assert "<b>B. Borreliosis (correct)</b>" in text


def test_evenly_keeps_first_and_last():
    assert evenly(range(100), 4) == [0, 33, 66, 99]
    assert evenly(range(3), 4) == [0, 1, 2]
    assert evenly(range(3), 1) == [0]
