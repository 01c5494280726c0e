"""Malformed rows of one's own cases: one line each, with file, row and remedy."""

import json
import re

import pytest
from helpers import make_case

from data_prep.recognise import recognise
from pcqc.cases.case import read_cases
from pcqc_base.errors import UserError
from pcqc_study.cli import main

FIELDS = ("case_id", "source", "initial", "question", "options", "facts", "answer")
GOOD = {name: getattr(make_case(0), name) for name in FIELDS}
OTHERS = {"A": "flu", "B": "cold", "C": "x", "D": "y"}

# Field -> values that it may not have. Strings first, then options and facts.
WRONG = {
    **{name: (None, True, 2.5, ["x"], {}) for name in FIELDS[:4]},
    "answer": (None, [], "E", "a", "A ", "", "flu"),
    "options": (
        *(None, "A", ["flu", "cold"], {}, {"A": "flu"}),
        *({"A": "flu", "B": bad} for bad in (None, 3, "", " \n")),
        *({"A": "flu", bad: "cold"} for bad in ("", "B C", "B\n", "'", "É")),
    ),
    "facts": (None, "Has cough.", {}, [None], [[]], [""], ["ok", "\t"]),
}
BLANK = dict.fromkeys(("case_id", "source", "question"), ("", " ", "\n", "\t\u2028"))
BROKEN_IDS = {"case_id": ("a\nb", "a\tb", "a\0"), "source": ("a\nb", "\u2028x", "a\rb")}
FIELD_ROWS = [
    (name, value)
    for table in (WRONG, BLANK, BROKEN_IDS)
    for name, values in table.items()
    for value in values
]
TEXT = json.dumps(GOOD)
# `test_files.py` has every way in which a line is not JSON.
LINES = {
    TEXT[:-1]: "not JSON",
    TEXT.replace('"answer"', '"source"'): "duplicate key 'source'",
    TEXT.replace(GOOD["question"], "\\ud83d"): "lone surrogate",
    f"[{TEXT}]": "expected an object {...}, found list",
}


def write(path, line):
    """A good row, then the line."""
    path.write_text(TEXT + "\n" + line + "\n", encoding="utf-8", errors="surrogatepass")
    return path


def check_both_readers(path, capsys, *words):
    """The study's reader, and `pcqc data check`, say the words in one line on row 2."""
    with pytest.raises(UserError) as error:
        read_cases(path)
    message = str(error.value)
    assert message.startswith(f"{path}, line 2: ")
    assert message.isprintable()
    assert re.search("; fix (or remove )?the (row|line)$", message)
    assert main(["data", "check", str(path)]) == 2
    out, err = capsys.readouterr()
    (line,) = [text for text in out.splitlines() if text.startswith("  line 2: ")]
    assert err.startswith(f"pcqc: error: {path}, {line.strip()} (1 of 2 rows must be fixed or ")
    for word in words:
        assert word in message
        assert word in line


@pytest.mark.parametrize(("name", "value"), FIELD_ROWS)
def test_a_field_with_a_wrong_value_is_named(tmp_path, capsys, name, value):
    row = {**GOOD, "case_id": "other", name: value}
    path = write(tmp_path / "mine.jsonl", json.dumps(row))
    check_both_readers(path, capsys, "label" if name == "options" and "label" in str(value) else "")


@pytest.mark.parametrize(("line", "message"), LINES.items())
def test_a_line_that_is_no_case_is_named(tmp_path, capsys, line, message):
    check_both_readers(write(tmp_path / "mine.jsonl", line), capsys, message)


@pytest.mark.parametrize("name", FIELDS)
def test_a_misspelt_field_is_named_with_the_right_spelling(tmp_path, capsys, name):
    row = {**GOOD, "case_id": "other"}
    row[f"{name}s"] = row.pop(name)
    path = write(tmp_path / "mine.jsonl", json.dumps(row))
    assert main(["data", "check", str(path)]) == 2
    printed = capsys.readouterr().out
    assert f"line 2: the field '{name}' is missing; did you mean '{name}s'?" in printed
    path.write_text(json.dumps(row))
    with pytest.raises(UserError, match=f"line 1: nearest to the format 'cases': rename '{name}s'"):
        recognise(path)


def test_equal_options_and_repeated_ids_are_refused(tmp_path, capsys):
    same = {**GOOD, "case_id": "other", "options": {"A": "flu", "B": "cold", "C": "Flu "}}
    path = write(tmp_path / "mine.jsonl", json.dumps(same) + "\n" + TEXT)
    assert main(["data", "check", str(path)]) == 2
    printed = capsys.readouterr().out
    assert "line 2: options 'A' and 'C' have the same text" in printed
    assert f"line 3: an earlier row has the id '{GOOD['case_id']}' too" in printed


def test_a_row_of_an_array_is_named_by_the_line_where_it_begins(tmp_path, capsys):
    path, two = tmp_path / "cases.json", json.dumps({**GOOD, "case_id": "two"}, indent=1)
    path.write_text(f"[{TEXT},\n{two}\n]")
    assert main(["data", "check", str(path)]) == 0
    assert "format 'cases', 2 rows, 2 usable" in capsys.readouterr().out
    wrong = two.replace('"answer": "', '"answer": "no')
    path.write_text(f"\n[\n  {TEXT},\n  {wrong}, [{TEXT}]\n]")
    assert main(["data", "check", str(path)]) == 2
    printed = capsys.readouterr().out
    assert "line 4: answer" in printed
    last = 4 + wrong.count("\n")
    assert f"line {last}: expected an object {{...}}, found list" in printed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"[{TEXT},\n{TEXT}".encode(), ", line 2: not a JSON array ("),
        (f"[{TEXT}]\n[{TEXT}]".encode(), ", line 2: not a JSON array (Extra data)"),
        (b'["\\ud83d"]', ": not a JSON array (a string holds a lone surrogate"),
        (b"[]", ": holds no rows"),
    ],
)
def test_an_array_that_is_broken_or_empty_is_refused(tmp_path, capsys, content, message):
    path = tmp_path / "cases.json"
    path.write_bytes(content)
    assert main(["data", "check", str(path)]) == 2
    assert f"{path}{message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("cases.csv", b"id,question\n1,why\n", "a CSV file"),
        ("CASES.CSV", b"question\nwhy\n", "a CSV file"),
        ("cases.txt", b"id;question\n1;why\n", "a CSV file"),
        ("cases.tsv", b"id\tquestion\n1\twhy\n", "a TSV file"),
        ("cases.json", json.dumps(GOOD, indent=1).encode(), "JSON over several lines"),
        ("cases.xlsx", b"PK\x03\x04\x00", "a compressed or spreadsheet file"),
        ("cases.parquet", b"PAR1\x00", "a compressed or spreadsheet file"),
    ],
)
def test_a_file_of_another_kind_is_called_by_its_name(tmp_path, capsys, name, content, kind):
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["data", "check", str(path)]) == 2
    printed = capsys.readouterr().err
    assert f"{path}: this is {kind}, not JSON lines; docs/own-cases.md shows how" in printed
