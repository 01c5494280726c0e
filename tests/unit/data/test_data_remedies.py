"""Files at fault: each is refused in one line, and what the line says to do mends it."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import re
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data_prep import new_study
from data_prep.convert import convert_file
from data_prep.recognise import FORMATS, recognise
from pcqc_base.errors import UserError
from pcqc_study.cli import main

FIXTURES = Path(__file__).parents[2] / "fixtures" / "data"
STEMS = {name: name.replace("-", "_") for name in FORMATS}
ROWS = [
    {"case_id": f"a-{n}", "source": "mine", "initial": f"Patient {n} limps.", "question": "Why?"}
    | {"options": {"A": "Sprain", "B": "Gout"}, "facts": ["He fell.", "No fever."], "answer": "A"}
    for n in range(10)
]
TEXT = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
COLUMNS = "case_id,source,initial,question,A,B,facts,answer"
TABLE = "\n".join(
    [COLUMNS, *(f"a-{n},mine,Patient {n} limps.,Why?,Sprain,Gout,He fell.,A" for n in range(10))]
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout with no study of one's own."""
    monkeypatch.setattr(new_study, "ROOT", tmp_path)
    monkeypatch.delenv("PCQC_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *command):
    """The one line with which a command refuses."""
    assert main(list(map(str, command))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("pcqc: error: ")


def renamed(row, message):
    """A row after what the message says of its fields was done; a field is renamed once."""
    renames = re.findall(r"rename '(\w+)' to '(\w+)'", message)
    assert len({old for old, _ in renames}) == len({new for _, new in renames}) == len(renames)
    row = dict(row)
    for old, new in renames:
        row[new] = row.pop(old)
    return row, re.findall(r"add '(\w+)'", message)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("misspell", ["{}s", "my_{}", "{}_"])
def test_misspelt_fields_are_renamed_as_the_message_says(tmp_path, name, misspell):
    module = FORMATS[name]
    row = json.loads((FIXTURES / f"{STEMS[name]}.jsonl").read_text().splitlines()[0])
    raw = tmp_path / "raw.jsonl"
    for wrong in sorted(module.FIELDS):
        raw.write_text(
            json.dumps({misspell.format(k) if k == wrong else k: v for k, v in row.items()})
        )
        with pytest.raises(UserError) as error:
            recognise(raw)
        if len(module.FIELDS) == 1:  # nothing is left by which the format could be known
            continue
        mended, lacking = renamed(json.loads(raw.read_text()), str(error.value))
        assert (lacking, mended) == ([], row)


def test_one_field_that_resembles_two_is_renamed_once(tmp_path):
    """`answers` is nearer to `answer` than to `answer_idx`, which is added then."""
    row = json.loads((FIXTURES / "mediq.jsonl").read_text().splitlines()[0])
    label, raw = row.pop("answer_idx"), tmp_path / "raw.jsonl"
    row["answers"] = row.pop("answer")
    raw.write_text(json.dumps(row))
    with pytest.raises(UserError) as error:
        recognise(raw)
    mended, lacking = renamed(row, str(error.value))
    assert lacking == ["answer_idx"]
    raw.write_text(json.dumps(mended | {"answer_idx": label}))
    (case,) = convert_file(raw, tmp_path / "cases.jsonl").records
    assert case.options[case.answer] == "Baker's lung"


def arrow(frame, how):
    stream = io.BytesIO()
    getattr(frame, how)(stream)
    return stream.getvalue()


def archive(kind):
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as file:
            file.writestr("cases.jsonl", TEXT)
    else:
        with tarfile.open(fileobj=stream, mode="w") as file:
            file.addfile(tarfile.TarInfo("cases.jsonl"))
    return stream.getvalue()


def database(path):
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE cases (id)")
    return path.read_bytes()


def array():
    stream = io.BytesIO()
    np.save(stream, np.arange(3))
    return stream.getvalue()


FRAME = pd.DataFrame({"case_id": ["a-0"], "answer": ["A"]})
FOREIGN = {
    "cases.jsonl.gz": (lambda: gzip.compress(TEXT.encode()), "a compressed or spreadsheet file"),
    "cases.jsonl.bz2": (lambda: bz2.compress(TEXT.encode()), "a compressed or spreadsheet file"),
    "cases.jsonl.xz": (lambda: lzma.compress(TEXT.encode()), "a compressed or spreadsheet file"),
    "cases.zip": (lambda: archive("zip"), "a compressed or spreadsheet file"),
    "cases.tar": (lambda: archive("tar"), "a binary file"),
    "cases.parquet": (lambda: arrow(FRAME, "to_parquet"), "a compressed or spreadsheet file"),
    "cases.feather": (lambda: arrow(FRAME, "to_feather"), "a binary file"),
    "cases.xls": (
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(64),
        "a compressed or spreads",
    ),
    "cases.sqlite": (lambda: database(Path("x.db")), "a binary file"),
    "cases.pkl": (lambda: pickle.dumps(ROWS), "a binary file"),
    "cases.npy": (array, "a binary file"),
    "cases.pdf": (lambda: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "a file of another format"),
    "cases.xml": (lambda: b'<?xml version="1.0"?>\n<cases/>\n', "a file of another format"),
    "cases.html": (lambda: FRAME.to_html().encode(), "a file of another format"),
    "cases.yaml": (lambda: b"- case_id: a-0\n  answer: A\n", "a file of another format"),
    "cases.toml": (lambda: b'[[cases]]\ncase_id = "a-0"\n', None),
    "cases.md": (lambda: b"# Cases\n\nA patient limps.\n", "a file of another format"),
    "cases.csv": (lambda: FRAME.to_csv().encode(), "a CSV file"),
    "cases.tsv": (lambda: FRAME.to_csv(sep="\t").encode(), "a TSV file"),
    "pretty.json": (lambda: json.dumps(ROWS[0], indent=2).encode(), "JSON over several lines"),
    "packed.json": (lambda: FRAME.to_json(indent=1).encode(), "JSON over several lines"),
    "data.json": (lambda: b'{"data":\n [{"id": 1}],\n "version": 2}\n', "JSON over several lines"),
    "lines.txt": (lambda: b'"a-0"\n"a-1"\n', "a file of another format"),
    "pointer.jsonl": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "a Git LFS pointer",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("command", ["check", "convert", "init"])
def test_a_format_that_is_not_ours_is_called_by_its_name_in_one_line(place, capsys, name, command):
    content, kind = FOREIGN[name]
    path = place / "in" / name
    path.parent.mkdir()
    path.write_bytes(content())
    more = ["--to", "out/cases.jsonl"] if command == "convert" else []
    words = ["init", "mine", "--cases"] if command == "init" else ["data", command]
    line = refused(capsys, *words, path, *more)
    assert line.startswith(f"{path}")
    assert line.isprintable()
    if (command, name) == ("init", "cases.csv"):  # a table, whose columns are at fault
        assert "line 1: no column" in line
    elif kind:
        assert f": this is {kind}" in line
        remedy = "`git lfs pull`" if "pointer" in kind else "docs/own-cases.md shows how to write"
        assert remedy in line
    assert not (place / "out").exists()


@pytest.mark.parametrize("name", ["cases.zip", "cases.xls", "cases.parquet"])
def test_a_sheet_that_only_is_called_csv_is_told_by_what_it_is(place, capsys, name):
    (place / "cases.csv").write_bytes(FOREIGN[name][0]())
    line = refused(capsys, "init", "mine", "--cases", "cases.csv")
    kind = "a compressed or spreadsheet file"
    assert line == f"cases.csv: this is {kind}, not CSV; save the sheet as CSV in UTF-8"
    (place / "cases.csv").write_text(TABLE, encoding="utf-8")
    assert main(["init", "mine", "--cases", "cases.csv"]) == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize(
    ("name", "text"), [("c.jsonl", TEXT), ("c.csv", TABLE), ("c.json", "[\n]")]
)
def test_a_file_in_utf_16_says_so_and_is_read_once_it_is_saved_in_utf_8(
    place, capsys, name, text, encoding
):
    path = place / name
    text = json.dumps(ROWS) if name == "c.json" else text
    path.write_bytes(text.encode(encoding))
    line = refused(capsys, "init", "mine", "--cases", path)
    assert line == f"{path}: this is UTF-16 or UTF-32 text; save it in UTF-8"
    for mark in ("utf-8", "utf-8-sig"):
        path.write_bytes(text.encode(mark))
        assert main(["init", f"mine-{mark}", "--cases", str(path)]) == 0


@pytest.mark.parametrize("content", [TEXT, json.dumps(ROWS)], ids=["lines", "array"])
def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path, content):
    marked, plain = tmp_path / "marked.jsonl", tmp_path / "plain.jsonl"
    plain.write_text(content)
    marked.write_text(content, encoding="utf-8-sig")
    of_both = [
        convert_file(path, tmp_path / "out.jsonl", source="s").records for path in (marked, plain)
    ]
    assert [[c.facts for c in cases] for cases in of_both] == [[c.facts for c in of_both[1]]] * 2
    assert main(
        [
            "data",
            "overlap",
            "--training",
            str(marked),
            "--evaluation",
            f"x={plain}",
            "--to",
            str(tmp_path / "audit"),
        ]
    ) == (0 if content == TEXT else 2)


@pytest.mark.parametrize(("name", "text"), [("c.jsonl", TEXT), ("c.csv", TABLE)])
def test_a_line_in_latin_1_is_named_and_is_read_once_it_is_saved_in_utf_8(
    place, capsys, name, text
):
    path = place / name
    text = text.replace("Patient 3 limps", "Patiënt 3 limps")
    path.write_bytes(text.encode("latin-1"))
    line = refused(capsys, "init", "mine", "--cases", path)
    number = 4 if name == "c.jsonl" else 5
    assert line.startswith(f"{path}, line {number}: not UTF-8 text; save it as UTF-8")
    path.write_bytes(text.encode("utf-8"))
    assert main(["init", "mine", "--cases", str(path)]) == 0


LONG = "He fell. " * 20_000
CELLS = {
    'Patient 3 limps.,Why?,"Sprain': (
        5, "a double quote opens a cell and none closes it; close it, or write it twice if it is "
        "part of the text", ('"Sprain', '"Sprain"'),
    ),
    'Patient 4 limps.,Why?,"A "bad" sprain"': (
        6, "text follows a cell's closing double quote; write a quote that is part of the text "
        "twice", ('"bad"', '""bad""'),
    ),
    f"Patient 5 limps.,Why?,{LONG}": (
        7, "a cell has more than 131,072 characters; close its double quote, or shorten it",
        (LONG, "He fell."),
    ),
    "Patient 6 limps, badly.,Why?,Sprain": (
        8, "its cells are not as many as the columns; put a text with a comma between double "
        "quotes", ("Patient 6 limps, badly.", '"Patient 6 limps, badly."'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=["unclosed", "inside", "long", "comma"])
def test_a_cell_at_fault_is_named_by_its_line_and_mended_as_the_line_says(place, capsys, cell):
    number, words, (wrong, right) = CELLS[cell]
    good = re.sub(
        r",Why\?,.*", ",Why?,Sprain", cell.replace(" limps, badly", " limps"), flags=re.DOTALL
    )
    assert good in TABLE
    text = TABLE.replace(good, cell)
    Path("c.csv").write_text(text)
    line = refused(capsys, "init", "mine", "--cases", "c.csv")
    assert line == f"c.csv, line {number}: {words}"
    Path("c.csv").write_text(text.replace(wrong, right))
    assert main(["init", "mine", "--cases", "c.csv"]) == 0


def test_bad_rows_are_left_out_as_the_line_says(place, capsys):
    Path("c.jsonl").write_text(TEXT.replace('"answer": "A"', '"answer": "C"', 1))
    line = refused(capsys, "data", "convert", "c.jsonl", "--to", "out.jsonl")
    (option,) = re.findall(r"leave such rows out with (--[\w-]+)$", line)
    assert main(["data", "convert", "c.jsonl", "--to", "out.jsonl", option]) == 0
    assert "9 of 10 rows kept" in capsys.readouterr().out


def test_a_file_without_a_known_field_is_read_under_the_format_that_is_named(place, capsys):
    Path("c.jsonl").write_text('{"x": 1}\n' + TEXT)
    line = refused(capsys, "data", "check", "c.jsonl")
    names = re.findall(r"name one with --format: (.+)$", line)[0].split(", ")
    assert names == list(FORMATS)
    line = refused(capsys, "data", "check", "c.jsonl", "--format", "cases")
    assert line.startswith("c.jsonl, line 1: the field 'initial' is missing (1 of 11 rows")
    Path("c.jsonl").write_text(TEXT)  # the row is removed, as it says
    assert main(["data", "check", "c.jsonl"]) == 0
