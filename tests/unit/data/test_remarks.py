"""What a conversion remarks on: fields that are not read, answers that leak, equal prompts."""

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from data_prep.convert import convert_file
from data_prep.parts import KNOWN, REPEATED, TOLD
from data_prep.recognise import FORMATS
from data_prep.rows import Origin, Refused, unread
from pcqc_base.system.files import read_json
from pcqc_study.cli import main

FIXTURES = Path(__file__).parents[2] / "fixtures" / "data"
EXAMPLES = {path.stem: path for path in sorted(FIXTURES.glob("*.jsonl"))}
CASE = {"case_id": "a-0", "source": "mine", "initial": "He limps.", "question": "Which test?"}
CASE |= {"options": {"A": "X-ray of the hip", "B": "MRI"}, "facts": ["He fell."], "answer": "A"}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(name):
    return [json.loads(line) for line in EXAMPLES[name].read_text(encoding="utf-8").splitlines()]


def printed(capsys, *command):
    assert main(list(map(str, command))) == 0
    return capsys.readouterr().out.splitlines()


def test_a_field_that_nothing_reads_is_named(tmp_path, capsys):
    second = CASE | {"case_id": "a-1", "fact": ["He fell."], "options": {"A": "X-ray", "B": "MRI"}}
    raw = write(tmp_path / "mine.jsonl", CASE | {"line\nbreak": 1}, second | {"Option C": "CT"})
    said = "  ignored fields: 'Option C' (1), 'fact' (1), 'line\\nbreak' (1)"
    assert said in printed(capsys, "data", "check", raw)
    to = tmp_path / "cases.jsonl"
    assert said in printed(capsys, "data", "convert", raw, "--to", to)
    ignored = read_json(tmp_path / "cases.card.json")["ignored_fields"]
    assert ignored == {"Option C": 1, "fact": 1, "line\nbreak": 1}


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("agentclinic", ["OSCE_Examination.Objective_for_Doctor"]),
        ("atpo_dialogues", ["agent_name"]),
        ("atpo_sft", []),
        ("cases", []),
        ("dxbench", ["department"]),
        ("icraft_md", ["patient"]),
        ("mediq", ["context_len", "facts_old", "patient"]),
        ("symptomcheck", []),
    ],
)
def test_the_fields_of_published_files_that_are_not_read_are_named(tmp_path, name, ignored):
    convert_file(EXAMPLES[name], tmp_path / "out.jsonl")
    assert sorted(read_json(tmp_path / "out.card.json")["ignored_fields"]) == ignored


def without(row, path):
    """A copy of a row without a field."""
    copy = json.loads(json.dumps(row))
    outer, _, inner = path.partition(".")
    (copy[outer] if inner else copy).pop(inner or outer)
    return copy


def converted(module, row):
    """What a row becomes, or that it is refused."""
    try:
        origin = Origin("s", "s.jsonl", diagnoses={"Gout", "Asthma", "Migraine", "Common Cold"})
        return module.convert(row, origin, 1).record
    except Refused:
        return "refused"


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_reads_and_nothing_else_changes_its_cases(name):
    module, stem = FORMATS[name], name.replace("-", "_")
    rows = [*rows_of(stem), *(rows_of("icraft_md") if name == "mediq" else [])]
    rows += [{**rows[0], "initial_info": "“I cough.”"}] if name == "mediq" else []
    changing = set()
    for row in rows:
        for path in [*module.READ, *unread(row, module.READ)]:
            with suppress(KeyError):  # which not every row has
                if converted(module, without(row, path)) != converted(module, row):
                    changing.add(path)
    assert changing == module.READ - {"origin"}


def leaking(folder, **changes):
    conversion = convert_file(write(folder / "raw.jsonl", CASE | changes), folder / "out.jsonl")
    return [note for note in conversion.notes if note in (TOLD, KNOWN)]


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, []),
        ({"initial": "He limps. An  x\u2011ray of the HIP was taken."}, [TOLD]),
        ({"question": "Which test, as X-ray of the hip or MRI?"}, [TOLD]),
        ({"facts": ["He fell.", "1. X-ray of the hip: broken."]}, [KNOWN]),
        ({"initial": "MRI of the hip was taken."}, []),
        ({"facts": ["X-ray", "of the hip"]}, []),  # in two facts
        ({"facts": ["X-ray of the hippocampus"]}, []),  # another word
        ({"facts": ["X-ray of the hips"]}, [KNOWN]),
        ({"options": {"A": "Oral Ulcer", "B": "Gout"}, "initial": "Oral ulcers"}, [TOLD]),
        ({"options": {"A": "5", "B": "6"}, "initial": "A 5-year-old limps."}, []),  # no word
        ({"options": {"A": "5 mg", "B": "6 mg"}, "facts": ["5 mg (daily)"]}, [KNOWN]),
        ({"options": {"A": "C++", "B": "C"}, "facts": ["He codes C++."]}, [KNOWN]),
    ],
)
def test_an_answer_that_stands_word_for_word_elsewhere_is_noted(tmp_path, changes, notes):
    assert leaking(tmp_path, **changes) == notes


def test_leaks_and_equal_prompts_stand_in_the_card_and_are_said(tmp_path, capsys):
    same = {"initial": " he\u00a0limps.", "facts": ["X-ray of the hip: broken."]}
    rows = [CASE, CASE | {"case_id": "a-1", **same}, CASE | {"case_id": "a-2", "initial": "No."}]
    raw, to = write(tmp_path / "raw.jsonl", *rows), tmp_path / "cases.jsonl"
    lines = printed(capsys, "data", "convert", raw, "--to", to)
    assert f"  note: {REPEATED} (2)" in lines
    assert f"  note: {KNOWN} (1)" in lines
    assert read_json(tmp_path / "cases.card.json")["notes"] == {
        KNOWN: ["a-1"],
        REPEATED: ["a-0", "a-1"],
    }
    assert set(lines[1:]) <= set(printed(capsys, "data", "check", raw))


def stands(answer, texts):
    """The same by a search of its own: the answer between characters that are no part of a word."""
    answer = " ".join(answer.lower().split())
    for number, text in enumerate(texts, start=1):
        text = f" {' '.join(text.lower().split()).removeprefix(f'{number}. ')} "
        parts = text.split(answer)
        if any(not (a[-1:].isalnum() or b[:1].isalnum()) for a, b in pairwise(parts)):
            return not answer.isdigit()
    return False


# File -> cases, answers told, answers in a fact, cases that share what is told.
COUNTED = {
    "atpo/medqa_test_dataset.jsonl": (1268, 0, 7, 0),
    "atpo/aie_test_dataset.jsonl": (150, 0, 1, 0),
    "atpo/mcqa_test_dataset.jsonl": (536, 1, 0, 0),
    "mediq/all_craft_md.jsonl": (139, 0, 0, 0),
    "mediq/medqa_dev_convo.jsonl": (1272, 0, 8, 0),
    "agentclinic/agentclinic_medqa.jsonl": (107, 0, 15, 0),
    "symptomcheck/avey_vignettes.jsonl": (400, 0, 15, 24),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_leaks_of_the_published_files_are_those_that_the_page_tells(published, tmp_path, name):
    conversion = convert_file(published(name), tmp_path / "cases.jsonl")
    counts = [len(conversion.notes.get(note, [])) for note in (TOLD, KNOWN, REPEATED)]
    assert (len(conversion.records), *counts) == COUNTED[name]
    for note, texts in ((TOLD, lambda c: [c.initial, c.question]), (KNOWN, lambda c: c.facts)):
        named = [c.case_id for c in conversion.records if stands(c.options[c.answer], texts(c))]
        assert named == conversion.notes.get(note, [])
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert [cell.strip().replace(",", "") for cell in row.split("|")[2:6]] == [
        str(number) for number in COUNTED[name]
    ]
