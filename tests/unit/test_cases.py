"""Files of cases: a round trip changes nothing; `data/test_malformed_rows.py` has wrong fields."""

import dataclasses
import json

import pytest
from helpers import make_case

from pcqc.cases.case import read_cases, write_cases
from pcqc_base.errors import UserError

ROW = dataclasses.asdict(make_case(1, origin={"file": "x.csv", "row": 3}))


def write_rows(path, *rows):
    path.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in rows))
    return path


def test_round_trip(tmp_path):
    cases = [make_case(i, facts=(f"Has {i} ü.",), origin={"row": i}) for i in range(3)]
    path = tmp_path / "cases.jsonl"
    write_cases(path, cases)
    assert read_cases(path) == cases
    first = path.read_bytes()
    write_cases(path, read_cases(path))
    assert path.read_bytes() == first
    assert list(read_cases(path)[0].options) == ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"facts": []}, "there are no facts"),
        ({"initial": ""}, "'initial' must be a non-empty string"),
        ({"origin": {"row": None}}, "'origin' must be an object of strings and whole numbers"),
        ({"extra": 1}, "unknown field 'extra' in a case"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, changes, message):
    path = write_rows(tmp_path / "bad.jsonl", ROW, "\n", {**ROW, "case_id": "other", **changes})
    with pytest.raises(UserError, match=f"bad.jsonl, line 3: {message}"):
        read_cases(path)


OTHER = {**ROW, "case_id": "other"}
FILES = {
    "a missing field": ([dict(list(ROW.items())[1:])], "line 1: a case needs the field 'case_id'"),
    "a repeated id": ([ROW, OTHER, ROW], "line 3: duplicate case id 'case-1', first in line 1"),
    "no cases": (["\n"], "holds no cases"),
}


@pytest.mark.parametrize(("rows", "message"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, rows, message):
    with pytest.raises(UserError, match=message):
        read_cases(write_rows(tmp_path / "bad.jsonl", *rows))
