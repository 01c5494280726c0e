"""The command line: an error is one line and status 2, and nothing heavy is imported to say so."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from pcqc.cli import main
from pcqc.study import ROOT

COMMANDS = [
    ["check", "clinc"],
    ["train", "clinic", "gropo", "A"],
    ["train", "clinic", "grpo", "Z"],
    ["select", "clinic", "grpo", "A"],
    ["evaluate", "clinic", "pcqc", "A"],
    ["explain", "clinic", "grpo", "A"],
    ["explain", "clinic", "grpo", "Z"],
    ["sft", "clinic"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_error_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pcqc: error: ")
    assert captured.err.count("\n") == 1
    # Nothing is left but, at most, an empty lock file.
    assert not any(p.is_file() and p.stat().st_size for p in tmp_path.rglob("*"))


def test_check_prints_the_settings(capsys):
    assert main(["check", "clinic"]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert settings["methods"]["pcqc"]["beta"] == 1.0


def test_a_command_without_arguments_explains_itself(capsys):
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "usage: pcqc" in capsys.readouterr().err


def test_the_version_is_that_of_the_citation(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert capsys.readouterr().out == f"pcqc {cited['version']}\n"


def test_settings_are_checked_without_loading_what_is_slow_to_load():
    heavy = ("torch", "transformers", "mlflow", "scipy", "pandas", "matplotlib")
    code = (
        "import sys; from pcqc.cli import main; main(['check', 'clinic']); "
        f"sys.exit(any(m in sys.modules for m in {heavy}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_reader_that_leaves_ends_a_command_without_a_word():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pcqc.cli", "check", "clinic"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_pipe_of_something_else_that_breaks_is_not_hidden(monkeypatch):
    def broken(_):
        raise BrokenPipeError("a worker's")

    monkeypatch.setattr("pcqc.cli._check", broken)
    monkeypatch.setattr("pcqc.cli._reader_left", lambda: False)
    with pytest.raises(BrokenPipeError, match="a worker's"):
        main(["check", "clinic"])
