"""`pcqc init`: a study of one's own cases, from a file of them (docs/own-cases.md)."""

import csv
import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

from data_prep import own_cases
from data_prep.check import check_file
from data_prep.rows import read_rows
from pcqc.errors import UserError
from pcqc.settings.data import data_folder
from pcqc.system.checkout import ROOT
from pcqc.system.files import describe, write_atomic

FEWEST = 10  # cases: four train, six evaluate
TRAINED = 0.4  # share of the cases that train

STUDY = """# A study of your own cases, written by `pcqc init`; the rest is as in own-cases.yaml.
# `pcqc check {name}` prints every setting, and names one that is wrong.
like: own-cases
title: Own cases ({name})

# Below data/raw: the first {train} cases train, the other {test} evaluate.
data:
  training: [{{file: {name}/train.jsonl}}]

benchmarks:
  own: {{title: Own cases, role: development, raw: {{file: {name}/test.jsonl}}}}

# For results, not for a test of the path, take a larger model (docs/real-study.md), ...
# models:
#   actor: {{source: Qwen/Qwen3-1.7B, revision: COMMIT, gguf: null}}

# ... patient and scorer on servers (docs/engines.md#servers), ...
# servers:
#   patient: {{url: "http://127.0.0.1:8000"}}
#   scorer: {{url: "http://127.0.0.1:8001"}}

# ... and more updates, on more cases each. Then it is a test no more.
# path_test: false
# rl:
#   cases_per_update: 16
# methods:
#   grpo: {{terminal_group: 16, updates: 50}}
#   pcqc: {{updates: 50}}
"""


def init(name: str, cases: Path) -> Path:
    """Check a file of cases, split it between training and evaluation, and write the study.

    Args:
        name: of the study.
        cases: JSON lines or one array of a known format or, ending in `.csv`, a table with a column
            for each field and each option; facts stand in one column, separated by `|`.

    Returns:
        The study's file.

    Raises:
        UserError: the name is taken or none, the file cannot be read or has broken rows, named
            line by line, or too few; nothing was written.
    """
    study, folder = ROOT / "config" / "studies" / f"{name}.yaml", data_folder() / name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        raise UserError(f"{name}: a study's name is made of letters, digits, '_' and '-'")
    for path in (study, folder):
        if path.exists():
            raise UserError(f"{path}: is there already; choose another name, or edit the study")
    lines = _sound(cases)
    if len(lines) < FEWEST:
        raise UserError(f"{cases}: has {len(lines)} cases; a study needs {FEWEST}: add some")
    train = round(TRAINED * len(lines))
    parts = {"train": lines[:train], "test": lines[train:]}
    for part, rows in parts.items():
        write_atomic(folder / f"{part}.jsonl", b"".join(row + b"\n" for row in rows))
    write_atomic(study, STUDY.format(name=name, train=train, test=len(lines) - train))
    return study


def _sound(cases: Path) -> list[bytes]:
    """The rows of a file as JSON, once none of them is broken."""
    if cases.suffix.lower() != ".csv":
        check_file(cases)
        return [line for _, line in read_rows(cases)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{cases.name}.jsonl"
        path.write_bytes(_json_lines(cases))
        check_file(path, "cases", name=str(cases))
        return [line for _, line in read_rows(path)]


def _json_lines(table: Path) -> bytes:
    """A CSV file as JSON lines; each row keeps the number of its last line."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            _check_columns(table, rows.fieldnames or [])
            numbered = {}
            for row in rows:
                if None in row or None in row.values():
                    raise UserError(
                        f"{table}, line {rows.line_num}: its cells are not as many as the columns; "
                        "put a text with a comma between double quotes"
                    )
                numbered[rows.line_num] = _case(row)
    except OSError as problem:
        raise UserError(f"cannot read {table}: {describe(problem)}") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise UserError(f"{table}: {problem}; save the sheet as CSV in UTF-8") from None
    last = max(numbered, default=0)
    cases = (numbered.get(line) for line in range(1, last + 1))
    texts = (json.dumps(case, ensure_ascii=False) if case else "" for case in cases)
    return "".join(f"{text}\n" for text in texts).encode()


def _check_columns(table: Path, names: Sequence[str]) -> None:
    """UserError unless a table has each column once."""
    wanted = [*(own_cases.FIELDS - {"options"}), *ascii_uppercase[:2]]
    lacking = [f"'{name}'" for name in sorted(wanted) if name not in names]
    twice = sorted(f"'{name}'" for name, count in Counter(names).items() if count > 1 and name)
    if lacking or twice:
        what = f"no column {', '.join(lacking)}" if lacking else f"more than one column {twice[0]}"
        raise UserError(
            f"{table}, line 1: {what}; name the columns as docs/own-cases.md does, with commas "
            "between them"
        )


def _case(row: dict) -> dict:
    """A row of a table as a case; an empty cell of an option is none, of another field missing."""
    cells = {name: cell for name, cell in row.items() if name and cell}
    options = {label: cells.pop(label) for label in ascii_uppercase if label in cells}
    if "facts" in cells:
        cells["facts"] = [fact.strip() for fact in cells["facts"].split("|")]
    return cells | {"options": options}
