"""`pcqc init`: from cases or a table to a study; broken rows are named, and nothing is written."""

import csv
import json

import pytest
import yaml

from data_prep import new_study
from pcqc.system.files import read_jsonl
from pcqc_study.cli import main
from pcqc_study.settings import load_study

FIELDS = ("case_id", "source", "initial", "question", "A", "B", "facts", "answer")
ROW = (
    "mine",
    "mine",
    "He has pain.",
    "What is it?",
    "Angina",
    "Pericarditis",
    "Worse | A cold",
    "B",
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout with no study of one's own."""
    monkeypatch.setattr(new_study, "ROOT", tmp_path)
    monkeypatch.delenv("PCQC_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, *changed, rows=10):
    """Ten cases as a spreadsheet saves them; of the second some cells are changed."""
    cells = [dict(zip(FIELDS, (f"mine-{n}", *ROW[1:]), strict=True)) for n in range(rows)]
    cells[1] |= dict(changed)
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(cells)
    return path


def test_a_table_becomes_a_study_with_two_fifths_to_train(place, capsys):
    table(place / "cases.csv")
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "cases.csv: format 'cases', 10 rows, 10 usable"
    assert printed[-1] == "make results STUDY=my-study"
    train, test = (
        [row for _, row in read_jsonl(place / f"data/raw/my-study/{part}.jsonl")]
        for part in ("train", "test")
    )
    assert [row["case_id"] for row in train] == ["mine-0", "mine-1", "mine-2", "mine-3"]
    assert [row["case_id"] for row in test] == [f"mine-{n}" for n in range(4, 10)]
    assert train[0]["facts"] == ["Worse", "A cold"]
    assert train[0]["options"] == {"A": "Angina", "B": "Pericarditis"}
    study = load_study(place / "config/studies/my-study.yaml")
    assert study.data.training[0].file == "my-study/train.jsonl"
    assert study.benchmarks["own"].raw.path.exists()


def test_an_option_of_any_letter_is_kept(place):
    path = table(place / "cases.csv")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    path.write_text("\n".join(f"{line},{'Reflux' if n else 'I'}" for n, line in enumerate(lines)))
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    _, row = next(read_jsonl(place / "data/raw/my-study/train.jsonl"))
    assert row["options"] == {"A": "Angina", "B": "Pericarditis", "I": "Reflux"}


def test_the_lines_that_the_study_has_in_reserve_are_settings(place):
    table(place / "cases.csv")
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    path = place / "config/studies/my-study.yaml"
    reserve = [line[2:] for line in path.read_text().splitlines() if line.startswith(("# ", "#  "))]
    settings = "\n".join(line for line in reserve if line.startswith(("  ", *SETTINGS)))
    assert sorted(yaml.safe_load(settings)) == sorted(name.rstrip(":") for name in SETTINGS)
    path.write_text(path.read_text() + settings)
    study = load_study(path)
    assert (study.path_test, study.method("pcqc").updates) == (False, 50)
    assert study.servers.scorer.url == "http://127.0.0.1:8001"


SETTINGS = ("models:", "servers:", "path_test:", "rl:", "methods:")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("answer", ""), "line 3: the field 'answer' is missing"),
        (("case_id", "mine-0"), "line 3: an earlier row has the id 'mine-0' too"),
        (("B", "angina "), "line 3: options 'A' and 'B' have the same text"),
        (("facts", "Worse | | A cold"), "line 3: "),
        (("source", "a\nb"), "line 4: "),
    ],
)
def test_a_broken_row_is_named_and_nothing_is_written(place, capsys, changed, words):
    table(place / "cases.csv", changed)
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 2
    out, err = capsys.readouterr()
    assert f"  {words}" in out
    assert err.startswith(f"pcqc: error: cases.csv, {words}")
    assert err.endswith(" (1 of 10 rows must be fixed or removed; see above)\n")
    assert len(err.splitlines()) == 1
    assert [path.name for path in place.iterdir()] == ["cases.csv"]


MOVED = "its cells are not as many as the columns; put a text with a comma between double quotes"
COLUMNS = "name the columns as docs/own-cases.md does, with commas between them"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mine-1,mine,He has pain.", "mine-1,mine,He has pain, and fever.", f"3: {MOVED}"),
        ("mine-1,mine,He has pain.", "mine-1,mine", f"3: {MOVED}"),
        ("initial,", "Complaint,", f"1: no column 'initial'; {COLUMNS}"),
        ("B,facts", "A,facts", f"1: no column 'B'; {COLUMNS}"),
        ("facts,answer", "facts,answer,answer", f"1: more than one column 'answer'; {COLUMNS}"),
    ],
)
def test_a_table_whose_cells_have_moved_is_refused(place, capsys, old, new, words):
    text = table(place / "cases.csv").read_text(encoding="utf-8")
    assert old in text
    (place / "cases.csv").write_text(text.replace(old, new, 1), encoding="utf-8")
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 2
    assert capsys.readouterr().err == f"pcqc: error: cases.csv, line {words}\n"
    assert [path.name for path in place.iterdir()] == ["cases.csv"]


def test_what_is_there_stays_and_too_few_cases_are_refused(place, capsys):
    table(place / "cases.csv", rows=9)
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 2
    assert "cases.csv: has 9 cases; a study needs 10: add some" in capsys.readouterr().err
    assert main(["init", "my study", "--cases", "cases.csv"]) == 2
    rows = [json.dumps({"x": 1})]
    (place / "cases.jsonl").write_text("\n".join(rows))
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 2
    table(place / "cases.csv")
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    before = (place / "config/studies/my-study.yaml").read_text()
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 2
    assert "is there already; choose another name" in capsys.readouterr().err
    assert (place / "config/studies/my-study.yaml").read_text() == before
