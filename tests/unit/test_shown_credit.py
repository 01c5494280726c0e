"""`pcqc consult --candidates`: the credit beside each candidate is the method's own."""

import dataclasses

import pytest
from helpers import make_case, scripted_context, scripted_scorer
from scripted_methods import chances, say

from credit_lab.bench.methods import CreditedQuestions
from pcqc_study import consult as shown
from pcqc_study.study_file import load_study
from turn_credit.arithmetic import THRESHOLD

CASE = make_case(0)
# The first state's utilities are 0.818 (p), 0.364 (r), 0.25 (no question) and 0.091 (q): of mean
# 0.381 and standard deviation 0.312. The best comes first.
STANDARDISED = ["+1.40", "-0.05", "-0.42", "-0.93"]
OVER_THE_OTHERS = ["+0.58", "-0.02", "-0.17", "-0.39"]
NOTHING = ["+0.00"] * 4


@pytest.fixture
def credits(monkeypatch, capsys):
    """Whose credit stands beside the first candidates, and what it is, by a method's entry."""
    context = scripted_context(say, [CASE], name="0/consult")
    scorer = scripted_scorer(chances, context.chat)
    study = load_study("clinic")
    task = type("Task", (), {"inputs": dict.fromkeys(f"cases {n}" for n in study.benchmarks)})
    for name, value in {
        "require_made": None,
        "latest_task": task,
        "checked": None,
        "read_cases": [CASE],
        "_require_weights": None,
        "_roles": (context, scorer),
    }.items():
        monkeypatch.setattr(shown, name, lambda *given, value=value: value)

    def show(name, **settings):
        method = dataclasses.replace(study.method(name), **settings)
        own = dataclasses.replace(study, methods={**study.methods, name: method})
        shown.consult(own, name, "A", case=CASE.case_id, candidates=4)
        head, rows = capsys.readouterr().out.split("utility    gain  credit\n")[:2]
        title = head.split(", as ")[-1].split(" credits them")[0]
        return title, [row[4:].split()[2] for row in rows.splitlines()[:4]]

    return show


def test_gains_are_divided_as_the_method_says(credits):
    assert credits("pcqc") == ("PCQC", STANDARDISED)
    assert credits("pcqc", divide="none") == ("PCQC", OVER_THE_OTHERS)
    assert credits("pcqc", least_spread=0.4) == ("PCQC", NOTHING)


def test_more_candidates_than_the_method_samples_are_credited_alike(credits):
    assert credits("pcqc", question_group=2) == ("PCQC", STANDARDISED)


def test_what_a_control_does_not_train_on_has_no_credit(credits):
    assert credits("same_state_q1") == ("Same-State-Q1", [STANDARDISED[0], *NOTHING[1:]])
    # Its one executed question is compared with none.
    assert credits("executed_local") == ("Executed-local", NOTHING)


@pytest.mark.parametrize("name", ["grpo", "c3", "expected_answer"])
def test_pcqc_s_credit_stands_in_where_a_method_does_not_compare_the_scorer_s_readings(
    credits, name
):
    assert credits(name) == ("PCQC", STANDARDISED)


@pytest.mark.parametrize("setting", [{"divide": "none"}, {"least_spread": 0.0}])
def test_a_credit_by_its_name_takes_no_setting_of_pcqc_s_credit(setting):
    with pytest.raises(ValueError, match="divide and least_spread are for method: pcqc"):
        CreditedQuestions("Own", "credited_questions", question_credit="pcqc", **setting)
    kept = CreditedQuestions("Own", "credited_questions", question_credit="pcqc")
    assert (kept.divide, kept.least_spread) == ("group", THRESHOLD)
