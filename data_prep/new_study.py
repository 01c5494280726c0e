"""`pcqc init`: a study of one's own cases, from a file of them (docs/own-cases.md)."""

import re
import tempfile
from pathlib import Path

from data_prep import atpo_sft
from data_prep.check import check_file
from data_prep.convert import Conversion
from data_prep.own_table import json_lines
from data_prep.parts import REPEATED
from data_prep.recognise import recognise
from data_prep.rows import parse, read_rows
from data_prep.split import SEED, shares, split
from pcqc.cases.case import Case
from pcqc_base.errors import UserError
from pcqc_base.settings.data import data_folder
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic

FEWEST = 10  # cases: four train, six evaluate
FEWEST_TRAINED = 4

STUDY = """# A study of your own cases, written by `pcqc init`; the rest is as in own-cases.yaml.
# `pcqc check {name}` prints every setting, and names one that is wrong.
like: own-cases
title: Own cases ({name})

# Below data/raw: {train} cases, drawn with seed {seed}, train; the other {test} evaluate.
data:
  training: [{{file: {name}/train.jsonl}}]

benchmarks:
  own: {{title: Own cases, role: development, raw: {{file: {name}/test.jsonl}}}}

# For results, not for a test of the path, take a larger model (docs/real-study.md), ...
# models:
#   actor: {{source: Qwen/Qwen3-1.7B, revision: COMMIT, gguf: null}}

# ... patient and scorer on servers (docs/engines.md#servers; any others: docs/own-cases.md), ...
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
        name: the study's.
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
    lines, conversion = _sound(cases)
    usable = [c for c in conversion.records if isinstance(c, Case) and c.consultable]
    if len(usable) < FEWEST:
        raise UserError(f"{cases}: has {len(usable)} cases; a study needs {FEWEST}: add some")
    trains = split([conversion.prompts[case.case_id] for case in usable])
    if (train := sum(trains)) < FEWEST_TRAINED:
        raise UserError(
            f"{cases}: {len(conversion.notes[REPEATED])} of {len(usable)} cases have the prompt of "
            f"another, so only {train} could train that do not evaluate too; have their prompts "
            "differ, or add other cases"
        )
    rows = [lines[int(case.origin["row"])] for case in usable]
    for part, side in (("train", True), ("test", False)):
        chosen = (row + b"\n" for row, trained in zip(rows, trains, strict=True) if trained == side)
        write_atomic(folder / f"{part}.jsonl", b"".join(chosen))
    test = len(usable) - train
    write_atomic(study, STUDY.format(name=name, train=train, test=test, seed=SEED))
    print(f"{train} cases train, {test} evaluate, drawn with seed {SEED}")
    for line in shares(list(map(parse, rows)), conversion.ignored, trains):
        print(f"  {line}")
    return study


def _sound(cases: Path) -> tuple[dict[int, bytes], Conversion]:
    """The rows of a file as JSON, by line, and its cases, once no row is broken."""
    if cases.suffix.lower() == ".csv":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{cases.name}.jsonl"
            path.write_bytes(json_lines(cases))
            return dict(read_rows(path)), check_file(path, "cases", name=str(cases))
    if recognise(cases) is atpo_sft:
        raise UserError(f"{cases}: holds SFT rows, not cases; name a file of cases")
    return dict(read_rows(cases)), check_file(cases)
