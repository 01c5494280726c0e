"""The command line: an error is one line and status 2, and nothing heavy is imported to say so.

What is wrong with settings is in `tests/unit/test_settings.py`, with files of cases in
`tests/unit/data/test_malformed_rows.py`, with the files of a finished study in
`workflow/test_bad_input.py`.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pcqc_base.system.checkout import ROOT
from pcqc_study.cli import main, program
from pcqc_study.job_kinds import KINDS

# What is typed in an empty folder, and what the only line says.
COMMANDS = {
    "check none.yaml": "none.yaml: cannot be read (No such file or directory)",
    "check clinc": "did you mean 'clinic'?",
    "check broken.yaml": "broken.yaml:1: ",
    "check wide.yaml": "wide.yaml:1: not UTF-8; save the file in UTF-8",
    "train clinic gropo A": "no method 'gropo' in study 'clinic'; did you mean 'grpo'?",
    "train clinic grpo Z": "no run 'Z' in study 'clinic'",
    "train clinic shared_sft A": "'shared_sft' has no reinforcement learning",
    "train clinic grpo A": "is not finished (no manifest.json); run the workflow again",
    "sft clinic": "is not finished",
    "prepare clinic train": "is not finished",
    "evaluate clinic pcqc A": "is not finished",
    "tables clinic": "missing, or its result is not finished; run the workflow again",
    "archive clinic --bundle": "world` has not finished; `make results STUDY=clinic` makes it",
    "restore clinic-mini --from nowhere": "`pcqc restore clinic-mini --from FOLDER` reads another",
    "answer clinic grpo": "grpo of study 'clinic' is not evaluated yet; run `snakemake",
    "explain clinic grpo A": "clinic has no grpo run A yet; make it with `snakemake",
    "consult clinic pcqc Q": "pcqc has no run 'Q' in study 'clinic'; known are A, B, C",
    "consult clinic pcqc A": "clinic has no pcqc run A yet; make it with `snakemake",
    "explain clinic atpo_u1 B": "atpo_u1 has no run 'B' in study 'clinic'; known are A; add 'B' to",
    "vary pcqc --set rl.lerning_rate=1": "rl.lerning_rate: unknown setting",
    "clinic paper train": "study 'paper' has no job 'clinic': its cases are real",
    "convert real-smoke medqaa": "'real-smoke' has no file 'medqaa'; did you mean 'medqa'?",
    "mirror real-smoke atpo": "atpo has no runs in study 'real-smoke'; name a method that has some",
    "select clinic grpo A --fingerprint 01234567": "settings or source changed since the",
    "diff a.parquet b.parquet": "a.parquet: no such file; name a Parquet file of predictions",
    "diff clinic/pcqc/A clinic/grpo/A": "study 'clinic' has no results here yet; `make results",
    "diff pcqc grpo": "'pcqc': write STUDY/METHOD/RUN, such as clinic/pcqc/A",
    "status": "no study has results here; `make results` makes the clinic's",
    "data check none.jsonl": "none.jsonl",
}


@pytest.mark.parametrize(
    ("where", "status", "told"),
    [
        (">&-", 0, ""),
        ("> /dev/full", 2, "pcqc: error: cannot write: No space left on device"),
    ],
)
@pytest.mark.parametrize("command", ["--version", "check --help", "check clinic"])
def test_output_that_cannot_be_written_is_told_and_a_closed_one_is_none(
    command, where, status, told
):
    line = f"{sys.executable} -m pcqc_study.cli {command} {where}"
    done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (status, int(bool(told)))
    assert told in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text("title: [x")
    Path("wide.yaml").write_text("title: x", encoding="utf-16")
    given = set(tmp_path.iterdir())
    assert main(command.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pcqc: error: ")
    assert captured.err.count("\n") == 1
    assert COMMANDS[command] in captured.err
    # Nothing is left but, at most, an empty lock file.
    made = [path for path in tmp_path.rglob("*") if path.is_file() and path not in given]
    assert not any(path.stat().st_size for path in made)


def test_a_home_that_cannot_be_written_does_not_matter(tmp_path):
    """As in a container of another user: Snakemake kept copies of the rules there, and failed."""
    (tmp_path / "home").write_text("a file, below which nobody can write")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "grpo"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_file_where_the_results_belong_is_left_as_it_is(tmp_path, monkeypatch, capsys):
    """A superuser may write anywhere, so a file stands for a folder that cannot be written."""
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("mine")
    assert main(["clinic", "clinic-mini", "train"]) == 2
    assert "a file stands where a folder is needed: move it away" in capsys.readouterr().err
    assert Path("results").read_text() == "mine"


@pytest.mark.parametrize("name", ["all", "mirror"])
def test_a_method_named_as_a_rule_of_the_workflow(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text((ROOT / "config/studies/clinic.yaml").read_text())
    Path("variations").mkdir()
    Path("variations/mine.yaml").write_text(f"{name}: {{like: pcqc, title: Mine, role: ablation}}")
    assert main(["check", "mine.yaml"]) == 2
    line = f"variations/mine.yaml:1: {name}: the name of a rule of the workflow"
    assert line in capsys.readouterr().err


def test_the_ui_on_a_port_that_another_program_has(tmp_path):
    store = tmp_path / "mlflow.db"
    store.touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["make", "-C", str(ROOT), "-o", "env", "ui", f"PORT={port}"]
        command.append(f"MLFLOW_TRACKING_URI=sqlite:///{store}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} cannot be used: another program has it" in done.stderr
    assert "Open http" not in done.stdout


def test_what_each_command_of_the_makefile_needs_is_there_or_can_be_made():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.* ## ", makefile, re.MULTILINE)
    assert {"results", "test", "site"} <= {*targets}
    command = ["make", "-C", str(ROOT), "--dry-run", *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "pcqc: error: Missing command. (`pcqc --help` has more)"),
        ("staus", "No such command 'staus'. Did you mean 'status'?"),
        ("tables clinic --only clams", "'--only': unknown 'clams'; did you mean 'claims'?"),
        ("consult clinic pcqc A --candidate 4", "'--candidate'. Did you mean '--candidates'?"),
        ("doctor clinic --measure --cases 2", "--cases: not allowed with --measure"),
        ("doctor clinic --cases 0", "Invalid value for '--cases': 0 is not in the range"),
        ("explain clinic pcqc", "Missing argument 'RUN'. (`pcqc explain --help` has more)"),
        ("status clinic now", "unexpected extra argument (now) (`pcqc status --help` has more)"),
        ("data fech", "pcqc data: error: No such command 'fech'. Did you mean 'fetch'?"),
    ],
)
def test_what_is_misspelt_is_one_line_with_the_nearest_that_there_is(capsys, typed, message):
    assert main(typed.split()) == 2
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1


def test_help_has_every_command_once_in_three_groups(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out.split("Look at a study:")[1]
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0].isupper()]
    assert len(titles) == 2
    listed = re.findall(r"^  (\w+)  +\S", text, re.MULTILINE)
    assert sorted(listed) == sorted(program().commands)
    steps = text.split("Steps of the workflow")[1]
    assert all(f"\n  {kind} " in steps for kind in KINDS)


def test_several_files_may_follow_an_option(monkeypatch, capsys):
    monkeypatch.setattr("data_prep.overlap_audit.audit", lambda *given: print(*given) or [])
    assert main(shlex.split("data overlap --training A.jsonl b=B --evaluation C --to out")) == 0
    training, evaluation = capsys.readouterr().out.split(") (")
    assert "'A', " in training
    assert "'b', " in training
    assert "'C', " in evaluation


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ex", "explain"),
        ("consult --cand", "--candidates"),
        ("tables clinic --only main_acc", "main_accuracy"),
    ],
)
def test_bash_completes_commands_and_their_options(tmp_path, capsys, words, completed):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    program = tmp_path / "pcqc"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pcqc_study.cli "$@"\n')
    program.chmod(0o755)
    asked = f"""source {script}
        COMP_WORDS=(pcqc {words}) COMP_CWORD={len(words.split())}
        _pcqc_completion {program}
        echo "${{COMPREPLY[@]}}" """
    made = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
    assert made.stdout.strip() == completed


def test_the_version_is_that_of_the_citation(capsys):
    assert main(["--version"]) == 0
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert capsys.readouterr().out == f"pcqc {cited['version']}\n"


def test_a_typo_is_answered_without_reading_settings():
    """Which takes a second, of pydantic's."""
    code = "import sys; from pcqc_study.cli import main, program; main(['staus']); "
    code += "sys.exit('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "'status'" in done.stderr) == (0, True)


def test_settings_are_checked_without_loading_what_is_slow_to_load():
    heavy = ("torch", "transformers", "mlflow", "scipy", "pandas", "matplotlib")
    code = (
        "import sys; from pcqc_study.cli import main, program; main(['check', 'clinic']); "
        f"sys.exit(any(m in sys.modules for m in {heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert json.loads(done.stdout)["methods"]["pcqc"]["beta"] == 1.0


def test_a_misspelt_run_is_refused_before_a_model_is_thought_of():
    code = "import sys; from pcqc_study.cli import main; main(['consult', 'clinic', 'pqc', 'A']); "
    code += "sys.exit('torch' in sys.modules or 'pcqc_study.consult' not in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "did you mean 'pcqc'" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("typed", "status", "message"),
    [
        ("--help", 0, "Look at a study:"),
        ("check clinic", 0, '"name": "clinic"'),
        ("base clinic", 2, "pcqc: error: Python runs without docstrings, which transformers needs"),
    ],
)
def test_without_docstrings_a_command_works_or_says_what_it_needs(tmp_path, typed, status, message):
    command = [sys.executable, "-OO", "-m", "pcqc_study.cli", *typed.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == status
    assert message in done.stdout + done.stderr
    assert done.stderr.count("\n") <= 1


def test_a_reader_that_leaves_ends_a_command_without_a_word():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pcqc_study.cli", "check", "clinic"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_pipe_of_something_else_that_breaks_is_not_hidden(monkeypatch):
    def broken(_):
        raise BrokenPipeError("a worker's")

    monkeypatch.setattr("pcqc_study.commands.show", broken)
    monkeypatch.setattr("pcqc_study.program._reader_left", lambda: False)
    with pytest.raises(BrokenPipeError, match="a worker's"):
        main(["check", "clinic"])
