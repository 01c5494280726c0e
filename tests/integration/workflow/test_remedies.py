"""What an error says to do is done, and mends it."""

import re
from pathlib import Path

import pytest
from workplace import SETTINGS, STUDY, started

from pcqc_study.cli import main


def test_a_run_that_a_method_lacks_is_added_and_made_as_the_errors_say(copy):
    copy.edit(SETTINGS, "runs: [A]\n    tree", "runs: [A, B]\n    tree")
    complaints = copy.run(copy.command("consult", STUDY, "atpo", "B")).stderr
    (remedy,) = re.findall(r"make it with `(.+)`", complaints)
    planned = started(copy.typed(f"{remedy} --dry-run").stdout)
    assert "Train atpo, run B" in planned
    assert not any("run A" in job for job in planned)


@pytest.mark.long  # it draws a whole report
def test_what_was_restored_is_answered_and_shown_as_the_message_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["restore", "clinic-expert"]) == 0
    (named,) = re.findall(r"`pcqc (\w+ clinic-expert)`", capsys.readouterr().out)
    assert main(named.split()) == 0
    (report,) = re.findall("^The report: (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert Path(report).exists()
