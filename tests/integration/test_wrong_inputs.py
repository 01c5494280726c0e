"""Forty wrong inputs: each ends in one clear last line and a status that is not 0.

What is wrong with the files of a finished study is in `workflow/test_bad_input.py`.
"""

import json
import socket
import subprocess
from pathlib import Path

import pytest

from pcqc.cli import main
from pcqc.study import ROOT

CLINIC = (ROOT / "config" / "studies" / "clinic.yaml").read_text(encoding="utf-8")
CASE = json.loads((ROOT / "docs" / "own-cases.md").read_text().split("```json\n")[1].split("\n")[0])

# What is changed in the clinic's file, and what the last line says.
SETTINGS = {
    "an unknown setting": (
        ("  learning_rate: 0.0006", "  lerning_rate: 0.0006"),
        "rl.lerning_rate: unknown setting; did you mean 'learning_rate'?",
    ),
    "a wrong type": (("checkpoint_every: 6", "checkpoint_every: often"), "rl.checkpoint_every"),
    "out of range": (("save_every: 6", "save_every: 6\n  clip: -1.0"), "greater than 0"),
    "a number that YAML takes for a word": (
        ("  learning_rate: 0.0006", "  learning_rate: 3e-4"),
        "write 3.0e-4",
    ),
    "a misspelt method": (("  pcqc: {", "  pqcq: {"), "did you mean 'pcqc'?"),
    "cases of one's own in a synthetic study": (
        ("    cases: 150\n", "    cases: 150\n    raw: {file: mine.jsonl}\n"),
        "a synthetic study invents its cases; remove 'raw' and 'optional'",
    ),
    "two methods of one title": (
        ("  pcqc: {kl_coefficient: 0.05,", "  pcqc: {title: GRPO, kl_coefficient: 0.05,"),
        "methods.pcqc.title: the title of 'grpo' too; give each its own",
    ),
    "two benchmarks of one title": (
        ("title: Clinic-Wide", "title: Clinic-Dev"),
        "the title of 'clinic_dev' too",
    ),
    "a reserved name": (("clinic_wide:", "train:"), "benchmarks.train: the name of another"),
    "a title of two lines": (("title: Clinic-Wide", 'title: "a\\nb"'), "must be one line of text"),
    "nothing to select on": (
        ("role: development", "role: held_out"),
        "exactly one must have the role 'development'",
    ),
    "a key twice": (("save_every: 6", "save_every: 6\n  save_every: 1"), "duplicate key"),
    "no YAML": (("synthetic: true", "synthetic: [true"), "fix the file"),
    "a tag": (("seed: 0", "seed: !!python/name:os.system ''"), "is not for settings; remove it"),
    "an unknown run": (("updates: 6, runs: [A]}", "updates: 6, runs: [A, Q]}"), "no run 'Q'"),
    "a seed twice": (("B: 2,", "B: 1,"), "runs.B: the same seed as run 'A'; give each its own"),
    "a weight of nothing": (
        ("terminal_only: {", "terminal_only: {beta: 1.0, "),
        "methods.terminal_only.beta: unknown setting",
    ),
    "an update without checkpoint": (
        ("evaluation_seed: 0", "evaluation_seed: 0\nalso_evaluate: {pcqc: [7]}"),
        "no checkpoint at update 7",
    ),
    "a continuation of no method": (("method: pcqc", "method: pcq"), "no method 'pcq'"),
}

# What is typed in an empty folder, and what the last line says.
COMMANDS = {
    "check none.yaml": "none.yaml: cannot be read (No such file or directory)",
    "check clinc": "did you mean 'clinic'?",
    "trian clinic grpo A": "invalid choice: 'trian'",
    "train clinic gropo A": "no method 'gropo' in study 'clinic'; did you mean 'grpo'?",
    "train clinic grpo Z": "no run 'Z' in study 'clinic'",
    "train clinic grpo A": "is not finished (no manifest.json); run the workflow again",
    "evaluate clinic pcqc A": "is not finished",
    "tables clinic": "missing, or its result is not finished; run the workflow again",
    "answer clinic grpo": "grpo of study 'clinic' is not evaluated yet; run `snakemake",
    "explain clinic grpo A": "clinic has no grpo run A yet; make it with `snakemake",
    "consult clinic pcqc Q": "no run 'Q' in study 'clinic'",
    "vary pcqc --set rl.lerning_rate=1": "rl.lerning_rate: unknown setting",
    "select clinic grpo A --recipe 01234567": "settings or source changed since the workflow began",
    "compare a.parquet b.parquet": "a.parquet",
    "data check none.jsonl": "none.jsonl",
}

# What a file of cases holds, its name, and what the last line says of it.
FILES = {
    "a table": ("case_id,initial\nx,y\n", "mine.csv", "this is a CSV file, not JSON lines"),
    "one array": ("[{}]", "mine.json", "this is one JSON array, not JSON lines"),
    "nothing": ("", "mine.jsonl", "holds no rows"),
    "a misspelt field": (
        json.dumps({"fact" if k == "facts" else k: v for k, v in CASE.items()}),
        "mine.jsonl",
        "rename 'fact' to 'facts'",
    ),
    "an answer that is no option": (
        json.dumps({**CASE, "answer": "Z"}),
        "mine.jsonl",
        "1 of 1 rows must be fixed or removed; see above",
    ),
    "a name twice": (json.dumps(CASE)[:-1] + ', "answer": "A"}', "mine.jsonl", "mine.jsonl"),
}


def last_line(capsys, *arguments: str) -> str:
    """Run a command that must fail; the last line that it says."""
    try:
        status = main(list(arguments))
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    line = said.splitlines()[-1]
    assert "error: " in line
    return line


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_study(capsys, name):
    (old, new), said = SETTINGS[name]
    assert old in CLINIC
    Path("mine.yaml").write_text(CLINIC.replace(old, new, 1), encoding="utf-8")
    line = last_line(capsys, "check", "mine.yaml")
    assert said in line
    assert line.startswith("pcqc: error: mine.yaml:")


def test_a_study_in_utf_16(capsys):
    Path("mine.yaml").write_text(CLINIC, encoding="utf-16")
    assert "mine.yaml:1: not UTF-8; save the file in UTF-8" in last_line(
        capsys, "check", "mine.yaml"
    )


@pytest.mark.parametrize("name", ["all", "mirror"])
def test_a_method_named_as_a_rule_of_the_workflow(capsys, name):
    Path("mine.yaml").write_text(CLINIC, encoding="utf-8")
    Path("variations").mkdir()
    Path("variations/mine.yaml").write_text(f"{name}: {{like: pcqc, title: Mine, role: ablation}}")
    line = last_line(capsys, "check", "mine.yaml")
    assert f"variations/mine.yaml:1: {name}: the name of a rule of the workflow" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_command(capsys, command):
    assert COMMANDS[command] in last_line(capsys, *command.split())


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_of_cases(capsys, name):
    text, file, said = FILES[name]
    Path(file).write_text(text, encoding="utf-8")
    assert said in last_line(capsys, "data", "check", file)


def test_the_ui_on_a_port_that_another_program_has():
    Path("mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        store = f"MLFLOW_TRACKING_URI=sqlite:///{Path('mlflow.db').resolve()}"
        command = ["make", "-C", str(ROOT), "-o", "env", "ui", f"PORT={port}", store]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} cannot be used: another program has it" in done.stderr
    assert "Open http" not in done.stdout
