"""Judges of answers: the clinic's rules, a model, several together, and a person's review."""

import csv

import pytest
from helpers import make_case, scripted_judge

from clinic_env.world import World
from pcqc.cases.prompts import UNANSWERABLE
from pcqc.evaluation.grounding import (
    Answered,
    Judgement,
    agreed,
    read_review,
    reviewed,
)
from pcqc.jobs.grounding import _sheet
from pcqc.roles.patient import Inquiry
from pcqc_base.errors import UserError
from pcqc_base.system.files import csv_text
from pcqc_clinic.judge import ClinicJudge
from pcqc_clinic.ungrounded import UngroundedPatient

WORLD = World(
    ("amber", "coral"),
    ("jade", "amber", "coral"),
    ((0.9,) * 3,) * 2,
    ("fatigue",),
    ((1.0,), (1.0,)),
    (0.5, 0.5),
)
FACTS = ("amber spots absent.", "coral spots present.")
CASES = [make_case(0), make_case(1)]


@pytest.mark.parametrize(
    ("question", "answer", "supported", "confined", "free"),
    [
        ("Any amber spots?", "amber spots absent.", True, True, True),
        ("Any amber spots?", "amber spots denied.", True, True, True),
        ("Any amber spots?", "amber spots present.", False, True, True),
        ("Any amber spots?", "coral spots present.", True, False, True),
        ("Any amber spots?", "amber spots absent. coral spots present.", True, False, True),
        ("Any amber spots?", "amber spots present. amber spots absent.", False, True, True),
        ("Any amber spots?", "coral.", False, True, False),
        ("Any amber spots?", "amber.", False, True, False),
        ("Any amber spots?", "amber spots absent as in coral.", False, True, False),
        ("Any amber spots?", UNANSWERABLE, False, True, True),
        ("Any jade spots?", UNANSWERABLE, True, True, True),
        ("Any jade spots?", "jade spots absent.", False, True, True),
        ("Any amber spots?", "", False, True, True),
    ],
)
def test_the_clinics_judge_reads_exactly(question, answer, supported, confined, free):
    case = make_case(0, facts=FACTS)
    (judged,) = ClinicJudge(WORLD).judge([Answered(case, question, answer)])
    assert judged == Judgement(supported, confined, free, "rules")
    assert judged.eligible == (supported and confined and free)


def test_a_model_judges_what_two_wordings_agree_on():
    def reply(prompt):
        if "free of any hint" in prompt:
            return "Yes." if prompt.count("You review") else "no"
        return "no" if "only the information" in prompt else "yes"

    judge = scripted_judge(reply)
    items = [Answered(CASES[0], "Any rash?", "Has rash."), Answered(CASES[1], "Any?", "No.")]
    assert judge.judge(items) == [Judgement(True, False, None, "model")] * 2
    assert len(judge.engine.prompts) == 12
    (open_one,) = scripted_judge(lambda prompt: "perhaps").judge(items[:1])
    assert open_one == Judgement(None, None, None, "model")
    assert not open_one.eligible


def test_judges_decide_by_agreement_and_what_they_differ_on_stays_open():
    first = [Judgement(True, True, True, "a"), Judgement(True, None, False, "a")]
    second = [Judgement(True, False, True, "b"), Judgement(True, None, False, "b")]
    assert agreed({"a": first, "b": second}) == [
        Judgement(True, None, True, "agreement"),
        Judgement(True, None, False, "agreement"),
    ]
    assert agreed({"a": first}) == first


REVIEW = """\
method,run,case_id,candidate,supported,confined,free,note
pcqc,A,case-0,1,yes,,no,names the disease
grpo,A,case-0,0,no,no,no,
"""


def test_a_review_overrides_the_judge_where_it_decides(tmp_path):
    path = tmp_path / "review.csv"
    path.write_text(REVIEW)
    review = read_review(path, "pcqc", "A")
    assert review == {("case-0", 1): {"supported": True, "free": False}}
    judged = {("case-0", k): Judgement(None, True, True, "model") for k in range(2)}
    merged = reviewed(judged, review)
    assert merged["case-0", 0] == judged["case-0", 0]
    assert merged["case-0", 1] == Judgement(True, True, False, "review")
    with pytest.raises(UserError, match=r"candidate 1 of case 'case-0'.*remove that row"):
        reviewed({}, review)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("yes,,no", "maybe,,no", r"line 2: supported must be yes, no or empty, not 'maybe'"),
        ("case-0,1", "case-0,x", r"line 2: candidate must be a whole number, not 'x'"),
        ("case-0,1", "case-0,²", r"line 2: candidate must be a whole number, not '²'"),
        ("case-0,1", f"case-0,{'9' * 5000}", r"line 2: candidate must be .*, not '9{39}…$"),
        ("confined", "confind", r"no column 'confined'"),
        ("grpo,A,case-0,0", "pcqc,A,case-0,1", r"line 3: judges case-0, candidate 1 again; keep"),
        ("names", "x" * 200_000, r"after line 1: no CSV \(field larger than"),
    ],
)
def test_a_broken_review_is_refused(tmp_path, old, new, message):
    path = tmp_path / "review.csv"
    path.write_text(REVIEW.replace(old, new))
    with pytest.raises(UserError, match=message):
        read_review(path, "pcqc", "A")


def test_a_review_whose_quote_is_not_closed_loses_no_decision(tmp_path):
    path, more = tmp_path / "review.csv", "pcqc,A,case-1,0,no,no,no,\n"
    path.write_text(REVIEW.replace("names the", '"names the') + more)
    with pytest.raises(UserError) as error:
        read_review(path, "pcqc", "A")
    words = "no CSV (unexpected end of data); close its double quotes, or save it as CSV again"
    assert str(error.value) == f"{path}, after line 1: {words}"
    path.write_text(REVIEW.replace("names the disease", '"names the disease"') + more)
    assert list(read_review(path, "pcqc", "A")) == [("case-0", 1), ("case-1", 0)]


@pytest.mark.parametrize("case_id", ["=1+1", "'=1+1", "-1", "'plain", "plain"])
def test_a_case_id_in_the_sheet_is_no_formula_and_is_read_as_it_was(tmp_path, case_id):
    item = Answered(make_case(case_id=case_id), "Any fever?", "No.")
    open_ = Judgement(None, None, None, "model")
    row = {"case_id": case_id, "candidate": 0, "utility": 0.5, "executed": True}
    (sheet,) = csv.DictReader(
        _sheet(("pcqc", "A"), [row], [item], {"model": [open_]}, [open_], {}).splitlines()
    )
    assert not sheet["case_id"].startswith(("=", "-"))
    path = tmp_path / "review.csv"
    path.write_text(csv_text(sheet, [(sheet | {"supported": "yes"}).values()]))
    assert read_review(path, "pcqc", "A") == {(case_id, 0): {"supported": True}}


def test_a_review_may_come_from_any_spreadsheet(tmp_path):
    path = tmp_path / "review.csv"
    path.write_bytes(b"\xef\xbb\xbf" + REVIEW.replace("\n", "\r").encode())
    assert list(read_review(path, "pcqc", "A")) == [("case-0", 1)]
    path.write_bytes(REVIEW.replace("names", "né").encode("latin-1"))
    with pytest.raises(UserError, match=r"line 2: not UTF-8; save the file in UTF-8"):
        read_review(path, "pcqc", "A")


class FactualPatient:
    """Answers every question by its finding's fact."""

    engine = None

    def answer(self, inquiries):
        return ["amber spots absent." for _ in inquiries]


def test_a_known_share_of_answers_lacks_grounds_and_the_rules_find_each():
    patient = UngroundedPatient(FactualPatient(), WORLD, share=0.3, seed=0)
    inquiries = [Inquiry(FACTS, "Any amber spots?", stream) for stream in range(200)]
    answers = patient.answer(inquiries)
    case = make_case(0, facts=FACTS)
    judged = ClinicJudge(WORLD).judge([Answered(case, "Any amber spots?", a) for a in answers])
    made = [(FACTS, "Any amber spots?", answer) in patient.changed for answer in answers]
    assert [not judgement.eligible for judgement in judged] == made
    assert 0.2 < sum(made) / len(made) < 0.4
    assert {(j.supported, j.confined, j.free) for j in judged} == {
        (True, True, True),
        (False, True, True),
        (True, False, True),
        (False, True, False),
    }
    again = UngroundedPatient(FactualPatient(), WORLD, share=0.3, seed=0)
    assert again.answer(inquiries[::-1]) == answers[::-1]
