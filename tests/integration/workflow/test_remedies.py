"""What an error says to do is done, and mends it."""

import re

import pytest
from workplace import SETTINGS, STUDY, started

from pcqc_study.cli import main
from pcqc_study.graph import latest
from pcqc_study.settings import load_study


def test_a_run_that_a_method_lacks_is_added_and_made_as_the_errors_say(copy):
    copy.edit(SETTINGS, "runs: [A]\n    tree", "runs: [A, B]\n    tree")
    complaints = copy.run(copy.command("consult", STUDY, "atpo", "B")).stderr
    (remedy,) = re.findall(r"make it with `(.+)`", complaints)
    planned = started(copy.typed(f"{remedy} --dry-run").stdout)
    assert "Train atpo, run B" in planned
    assert not any("run A" in job for job in planned)


@pytest.mark.long  # it draws a whole report
def test_what_was_restored_is_answered_drawn_and_reported_as_the_message_says(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["restore", "clinic-expert"]) == 0
    named = re.findall(r"`pcqc (\w+ clinic-expert)`", capsys.readouterr().out)
    assert named == [f"{name} clinic-expert" for name in ("answer", "tables", "figures", "report")]
    for command in (named[0], named[1], named[3]):  # figures are in the report
        assert main(command.split()) == 0
    assert "The report: not made yet; `pcqc report clinic-expert`" in capsys.readouterr().out
    assert (latest(load_study("clinic-expert"), "report") / "report.html").exists()
