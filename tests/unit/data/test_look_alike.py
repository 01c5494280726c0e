"""Texts that a reader cannot tell apart are equal, and a text that shows nothing is blank."""

import json
import unicodedata

import pytest
from helpers import make_case

from data_prep.own_cases import check_different
from data_prep.parts import SPACES, TWINS, compare_answer, plain
from data_prep.rows import BadRow
from pcqc.cases.case import read_cases, write_cases
from pcqc_base.errors import UserError
from pcqc_study.cli import main

ALIKE = [
    ("café", unicodedata.normalize("NFD", "café")),
    ("Crohn's disease", "Crohn’s disease"),
    ("Crohn's disease", "Crohnʼs  Disease"),
    ('"Strawberry" tongue', "“Strawberry” tongue"),
    ("Beta-blocker", "Beta\u2011blocker"),
    ("5-10 mg", "5–10 mg"),
    ("Flu", "Flu\u200b"),
    ("Flu", "\ufeffF\u00adlu"),
    ("38 °C", "38\u00a0℃"),
    ("fibrosis", "\ufb01brosis"),
    ("50 µg", "50 μg"),
    ("STRASSE", "straße"),
]
UNLIKE = [
    ("10² cells", "102 cells"),
    ("10⁻³", "10-3"),
    ("résumé", "resume"),
    ("x < 5", "x > 5"),
    ("vitamin B1", "vitamin B12"),
    ("β-blocker", "B-blocker"),
]
NOTHING = ["\u200b", "\ufeff \u2060", "\u00ad", "\u3164", "\u2800\u2003", "\u0301", "\x00"]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_texts_that_look_alike_are_one_text(one, other):
    assert plain(one) == plain(other)
    with pytest.raises(BadRow, match="options 'A' and 'B' have the same text"):
        check_different({"A": one, "B": other})
    case = make_case(0, options={"A": one, "B": "Zoster", "C": other}, answer="A")
    assert compare_answer(case, other) == [SPACES, TWINS]


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_texts_that_differ_to_a_reader_stay_two(one, other):
    assert plain(one) != plain(other)
    check_different({"A": one, "B": other})


def test_a_plain_text_stays_as_it_is():
    for one, other in ALIKE + UNLIKE:
        assert plain(plain(one)) == plain(one)
        assert plain(plain(other)) == plain(other)


@pytest.mark.parametrize("blank", NOTHING)
@pytest.mark.parametrize("name", ["question", "options", "facts", "initial"])
def test_a_text_that_shows_nothing_is_refused_as_blank(tmp_path, capsys, name, blank):
    row = {field: getattr(make_case(0), field) for field in ("case_id", "source", "initial")}
    row |= {"question": "What is it?", "options": {"A": "Flu", "B": "Cold"}, "facts": ["Cough."]}
    row |= {"answer": "A", name: {"options": {"A": "Flu", "B": blank}, "facts": [blank]}.get(name)}
    row[name] = row[name] or blank
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=r"mine\.jsonl, line 1: .*non-empty string"):
        read_cases(path)
    status = main(["data", "check", str(path)])
    printed = capsys.readouterr().out
    if name == "initial":  # published cases may lack it; no study uses them
        assert (status, "no initial information" in printed) == (0, True)
    else:
        assert (status, "line 1: " in printed, "non-empty string" in printed) == (2, True, True)


def test_a_case_of_look_alike_texts_keeps_them_byte_for_byte(tmp_path):
    options = {"A": "Crohn’s\u00a0disease", "B": unicodedata.normalize("NFD", "café")}
    case = make_case(0, options=options, answer="B")
    write_cases(tmp_path / "cases.jsonl", [case])
    assert read_cases(tmp_path / "cases.jsonl")[0].options == options
