"""`pcqc init`: from cases or a table to a study; broken rows are named, and nothing is written."""

import csv
import json

import pytest
import yaml

from data_prep import new_study
from pcqc_base.system.files import read_jsonl
from pcqc_study.cli import main
from pcqc_study.study_file import load_study

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
    for n, row in enumerate(cells):
        row["initial"] = f"He has pain {n}."
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
    ids = [[row["case_id"] for row in part] for part in (train, test)]
    assert [len(part) for part in ids] == [4, 6]
    assert sorted(ids[0] + ids[1]) == [f"mine-{n}" for n in range(10)]
    assert ids == [sorted(part) for part in ids]  # as in the file
    assert "4 cases train, 6 evaluate, drawn with seed 0" in printed
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
        ("mine-1,mine,He has pain 1.", "mine-1,mine,He has pain, and fever.", f"3: {MOVED}"),
        ("mine-1,mine,He has pain 1.", "mine-1,mine", f"3: {MOVED}"),
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


def sorted_by_department(path, sizes):
    """Cases as a benchmark lists them: one department after another."""
    names = [name for name, size in sizes.items() for _ in range(size)]
    rows = [
        {"case_id": f"c-{n}", "source": "b", "initial": f"Complaint {n}.", "question": "Which?"}
        | {"options": {"A": "Flu", "B": "Cold"}, "facts": ["Fever."], "answer": "A"}
        | {"department": name, "about": {"sex": "mf"[n % 2]}, "note": f"Note {n}"}
        for n, name in enumerate(names)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def parts_of(place, name="my-study"):
    folder = place / "data/raw" / name
    return [[row for _, row in read_jsonl(folder / f"{p}.jsonl")] for p in ("train", "test")]


def test_a_file_that_is_sorted_by_group_gives_both_sides_of_every_group(place, capsys):
    rows = sorted_by_department(place / "cases.jsonl", {"Surgery": 60, "Skin": 60, "Eyes": 30})
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 0
    train, test = parts_of(place)
    assert (len(train), len(test)) == (60, 90)
    # Of 60 of 150 cases drawn at random, a hypergeometric share: mean 24 and 12, SD 2.9 and 2.4.
    counts = [
        sum(row["department"] == name for row in train) for name in ("Surgery", "Skin", "Eyes")
    ]
    assert all(abs(count - mean) < 9 for count, mean in zip(counts, (24, 24, 12), strict=True))
    lines = capsys.readouterr().out.splitlines()
    shown = "Surgery {} of 60, Skin {} of 60, Eyes {} of 30".format(*counts)
    assert f"  of each 'department', these train: {shown}" in lines
    assert any(line.startswith("  of each 'about.sex', these train: m ") for line in lines)
    assert not any("'note'" in line or "'source'" in line for line in lines[3:])
    # The same cases in another order are split alike.
    (place / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    assert main(["init", "again", "--cases", "other.jsonl"]) == 0
    assert [part[::-1] for part in parts_of(place, "again")] == [train, test]


def test_cases_of_one_prompt_stay_on_one_side_and_are_warned_of(place, capsys):
    rows = sorted_by_department(place / "cases.jsonl", {"Surgery": 40})
    for n, row in enumerate(rows[:24]):  # eight prompts of three cases each
        row["initial"] = f"complaint\u00a0{n // 3}." if n % 3 else f"Complaint {n // 3}."
    (place / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 0
    train, test = parts_of(place)
    assert (len(train), len(test)) == (16, 24)
    told = [
        {row["initial"].lower().replace("\u00a0", " ") for row in part} for part in (train, test)
    ]
    assert not told[0] & told[1]
    printed = capsys.readouterr().out
    assert "note: another case has the same prompt (24)" in printed


def test_cases_that_all_begin_alike_are_refused_until_they_differ(place, capsys):
    rows = sorted_by_department(place / "cases.jsonl", {"Surgery": 12})
    for row in rows[:10]:
        row["initial"] = "He has pain."
    (place / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 2
    assert capsys.readouterr().err == (
        "pcqc: error: cases.jsonl: 10 of 12 cases have the prompt of another, so only 2 could "
        "train that do not evaluate too; have their prompts differ, or add other cases\n"
    )
    assert [path.name for path in place.iterdir()] == ["cases.jsonl"]
    for n, row in enumerate(rows[:10]):
        row["initial"] = f"He has pain {n}."
    (place / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 0


def test_cases_that_no_study_can_use_are_left_out_of_both_sides(place, capsys):
    rows = sorted_by_department(place / "cases.jsonl", {"Surgery": 12})
    rows[3]["facts"] = []
    (place / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", "my-study", "--cases", "cases.jsonl"]) == 0
    train, test = parts_of(place)
    assert (len(train), len(test)) == (4, 7)
    assert "line 4: no facts or no initial information" in capsys.readouterr().out


def test_rows_that_are_no_cases_are_no_study(place, fixtures, capsys):
    (place / "sft.jsonl").write_bytes((fixtures / "atpo_sft.jsonl").read_bytes() * 4)
    assert main(["init", "my-study", "--cases", "sft.jsonl"]) == 2
    assert "sft.jsonl: holds SFT rows, not cases; name a file of cases" in capsys.readouterr().err


def test_ids_of_a_table_are_texts(place):
    unusual = ["1", "007", "7", "NA", "null", "1e3", "TRUE", "=x", "é", "a b"]
    path = table(place / "cases.csv")
    text = path.read_text(encoding="utf-8-sig")
    for number, name in enumerate(unusual):
        text = text.replace(f"mine-{number},", f"{name},")
    path.write_text(text, encoding="utf-8")
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    train, test = parts_of(place)
    assert sorted(row["case_id"] for row in train + test) == sorted(unusual)


@pytest.mark.parametrize(
    "name", ["agentclinic/agentclinic_medqa.jsonl", "symptomcheck/avey_vignettes.jsonl"]
)
def test_a_published_benchmark_shares_no_prompt_between_the_sides(place, published, name):
    assert main(["init", "my-study", "--cases", str(published(name))]) == 0
    keys = ("demographics", "chief_complaints") if "avey" in name else ("OSCE_Examination",)
    told = [
        {json.dumps([row[k] for k in keys]).lower() for row in part} for part in parts_of(place)
    ]
    assert not told[0] & told[1]
    train, test = parts_of(place)
    assert len(train) == round(0.4 * (len(train) + len(test)))


def test_a_column_that_no_field_has_is_named_and_one_without_a_name_is_refused(place, capsys):
    table(place / "cases.csv")
    lines = (place / "cases.csv").read_text(encoding="utf-8-sig").splitlines()
    more = [f"{line},{'Reflux' if n else 'Option C'},," for n, line in enumerate(lines)]
    (place / "cases.csv").write_text("\n".join(more))
    assert main(["init", "my-study", "--cases", "cases.csv"]) == 0
    assert "  ignored fields: 'Option C' (10)" in capsys.readouterr().out.splitlines()
    more[3] = more[3][:-1] + "Burn,"
    (place / "cases.csv").write_text("\n".join(more))
    assert main(["init", "another", "--cases", "cases.csv"]) == 2
    assert capsys.readouterr().err == (
        "pcqc: error: cases.csv, line 4: column 10 has a cell and no name; name it in line 1, or "
        "empty it\n"
    )
    (place / "cases.csv").write_text("\n".join([f"{lines[0]},Option C,Note,", *more[1:]]))
    assert main(["init", "another", "--cases", "cases.csv"]) == 0
