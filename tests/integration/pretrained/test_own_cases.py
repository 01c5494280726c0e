"""docs/own-cases.md followed as it is written: ten cases from a file to what a study reads."""

import json
import re
import subprocess

import pytest

from data_prep.convert import convert_file
from data_prep.prepare import prepare
from pcqc.cases import read_cases
from pcqc.cli import main
from pcqc.config import ROOT, load_study
from pcqc.paths import Paths

PAGE = (ROOT / "docs" / "own-cases.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language):
    return next(text for name, text in BLOCKS if name == language)


EXAMPLE = json.loads(block("json"))
CHECK, SPLIT, MAKE = block("").splitlines()


@pytest.fixture
def ten(tmp_path, monkeypatch):
    """The page's example, ten times with other ids, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PCQC_DATA", raising=False)
    rows = [EXAMPLE | {"case_id": f"mine-{i:02}"} for i in range(1, 11)]
    path = tmp_path / "my-cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_check_says_form_and_usable_cases(ten, capsys):
    assert main(CHECK.split()[1:]) == 0
    assert capsys.readouterr().out == "my-cases.jsonl: format 'cases', 10 rows, 10 usable\n"


def test_ten_cases_become_those_of_the_study(ten, smollm2_folder):
    subprocess.run(["sh", "-c", SPLIT], check=True)
    (study_name,) = re.findall(r"STUDY=(\S+)", MAKE)
    study = load_study(study_name)
    paths = Paths.of(study)
    for name, raw in study.raw_files.items():
        convert_file(raw.path, paths.converted(name))
    paths.model("base").parent.mkdir(parents=True)
    paths.model("base").symlink_to(smollm2_folder)
    prepare(study)
    assert len(read_cases(paths.train_cases)) == 2
    assert [case.case_id for case in read_cases(paths.cases("own"))] == [
        f"mine-{i:02}" for i in range(5, 11)
    ]


def test_the_page_s_script_makes_the_same_case_of_a_spreadsheet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = {
        **{k: v for k, v in EXAMPLE.items() if isinstance(v, str)},
        **EXAMPLE["options"],
        "facts": " | ".join(EXAMPLE["facts"]),
    }
    lines = [",".join(f'"{cell}"' for cell in row) for row in (cells, cells.values())]
    (tmp_path / "my-cases.csv").write_text("\ufeff" + "\r\n".join(lines))
    exec(compile(block("python"), "own-cases.md", "exec"), {})
    assert json.loads((tmp_path / "my-cases.jsonl").read_text()) == EXAMPLE
