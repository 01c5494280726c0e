"""A published file is compared with its description; each way in which it differs has a message."""

import json
from dataclasses import replace

import pytest

from data_prep.check import check_file, differences
from data_prep.convert import convert_file, convert_rows
from data_prep.parts import KNOWN, SPACES, TWINS
from data_prep.recognise import recognise
from data_prep.rows import Origin
from data_prep.sources import Holds, Source, load_sources
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json

FIELDS = ("prompt", "ground_truth", "agent_name", "extra_info", "data_source", "index")
SETS = {"medqa": 1, "mcqa": 2, "aie": 1}
HOLDS = Holds("atpo-dialogues", rows=4, fields=FIELDS, sets=SETS, system_messages=1)
SOURCE = Source("s", "S", "https://x", "none", "s.jsonl", ("s",), holds=HOLDS)


def differences_of(path, holds):
    module = recognise(path)
    return differences(holds, module.NAME, convert_rows(path, module, Origin("s", path.name), True))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, None),
        ({"format": "mediq"}, "its format is 'atpo-dialogues', not 'mediq'"),
        ({"rows": 5, "fields": ()}, "it has 4 rows, not 5"),
        ({"excluded": 1}, "0 rows contradict themselves, not 1"),
        ({"system_messages": 2}, "it has 1 different system messages, not 2"),
        ({"sets": {"medqa": 1, "mcqa": 3}}, "1 rows have the set 'aie', not 0"),
        ({"sets": {**SETS, "mcqa": 3}}, "2 rows have the set 'mcqa', not 3"),
        ({"fields": FIELDS[:-1]}, "4 rows have the field 'index', not 0"),
        ({"fields": (*FIELDS, "more")}, "0 rows have the field 'more', not 4"),
    ],
)
def test_each_difference_is_named(fixtures, change, difference):
    texts = differences_of(fixtures / "atpo_dialogues.jsonl", replace(HOLDS, **change))
    assert texts[:1] == ([difference] if difference else [])


def test_a_file_that_is_not_the_published_one_ends_in_one_line(
    fixtures, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("data_prep.check.known_source", lambda raw: SOURCE)
    lines = (fixtures / "atpo_dialogues.jsonl").read_text().splitlines()
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines))
    check_file(path)
    first, *remarks = capsys.readouterr().out.splitlines()
    assert first == f"{path}: format 'atpo-dialogues', 4 rows, 4 usable"
    assert remarks == [
        "  ignored fields: 'agent_name' (4)",
        f"  note: {SPACES} (2)",
        f"  note: {KNOWN} (1)",
        f"  note: {TWINS} (1)",
    ]
    path.write_text("\n".join(lines[1:]))
    with pytest.raises(UserError, match=r"not the published 's', see above \(2\); fetch it"):
        check_file(path)
    printed = capsys.readouterr().out
    assert "differs from the published 's': it has 3 rows, not 4" in printed
    assert "differs from the published 's': 0 rows have the set 'medqa', not 1" in printed


@pytest.mark.parametrize("name", ["medqa", "medical_exam", "medmcqa", "icraft_md", "mediq_dev"])
def test_the_published_files_are_as_described(published, name):
    source = load_sources()[name]
    assert differences_of(published(source.file), source.holds) == []


@pytest.mark.parametrize(
    ("change", "form"),
    [
        (
            {"context": "A 40-year-old baker comes with a cough.\nDr. Li knows. It hurts."},
            "'context' is a string, facts are in 'atomic_facts', a list",
        ),
        (
            {"atomic_facts": "1. The cough is worse at work.\n2. There is no fever."},
            "'context' is a list, facts are in 'atomic_facts', a string",
        ),
    ],
)
def test_forms_of_mediq_that_are_clear_become_the_same_case(fixtures, tmp_path, change, form):
    path, to = tmp_path / "raw.jsonl", tmp_path / "cases.jsonl"
    row = json.loads((fixtures / "mediq.jsonl").read_text().splitlines()[0])
    rows = [{**row, **change}, {**row, "id": 4, "facts": ["1. x"]}]
    del rows[1]["atomic_facts"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    case, _ = convert_file(path, to).records
    assert case.initial == "A 40-year-old baker comes with a cough."
    assert case.facts == ("1. The cough is worse at work.", "2. There is no fever.")
    forms = read_json(tmp_path / "cases.card.json")["forms"]
    assert forms == {form: 1, "'context' is a list, facts are in 'facts', a list": 1}


@pytest.mark.parametrize(
    "context", ["Hi,\n\nI have coughed. It is worse at work.", ["Hi,"], [], None, ...]
)
def test_what_a_row_says_that_the_patient_says_first_is_what_the_doctor_is_told(
    fixtures, tmp_path, context
):
    """ALFA's program begins with `initial_info` where a row has it, whatever its context is."""
    row = json.loads((fixtures / "mediq.jsonl").read_text().splitlines()[0])
    other = {**row, "id": 7, "initial_info": "“I cough at work.”", "context": context}
    if context is ...:
        del other["context"]
    path, to = tmp_path / "raw.jsonl", tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (row, other)))
    first, second = convert_file(path, to).records
    assert (first.initial, second.initial) == (row["context"][0], "“I cough at work.”")
    assert list(second.facts) == row["atomic_facts"]
    assert (
        "the initial information is 'initial_info', facts are in 'atomic_facts', a list"
        in read_json(tmp_path / "cases.card.json")["forms"]
    )


@pytest.mark.parametrize("wrong", ["", " \u200b", 3, ["I cough."]])
def test_an_initial_info_that_is_no_text_is_a_bad_row(fixtures, tmp_path, wrong):
    row = json.loads((fixtures / "mediq.jsonl").read_text().splitlines()[0])
    path = tmp_path / "raw.jsonl"
    path.write_text(json.dumps({**row, "initial_info": wrong}))
    with pytest.raises(UserError, match="line 1: 'initial_info' must be a"):
        convert_file(path, tmp_path / "cases.jsonl")
