"""How long a workflow may still take, by the events of Snakemake's log."""

import logging
import re
import subprocess
import sys

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from pcqc_base.system.progress import TimeLeft

SNAKEFILE = """
import logging
from pcqc_base.system.progress import TimeLeft
if workflow.is_main_process:
    took = {"known": [3600.0], "new": []}
    logging.getLogger("snakemake.logging").addHandler(TimeLeft(took))
rule all:
    input: "a.new"
rule known:
    output: "{n}.known"
    shell: "touch {output}"
rule new:
    input: expand("{name}.known", name=["a", "b", "c"])
    output: "{n}.new"
    shell: "touch {output}"
"""


def test_snakemake_itself_is_heard(tmp_path):
    """Its log's names and fields are an interface of another project."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(?:about|1 job).*$", done.stderr, re.MULTILINE)
    # The mean of an hour and of moments: 2 of 30 min, 1 of 20 min, none; then all is done.
    assert lines == [
        "about 60 min left, without 1 job of a kind that has not run yet",
        "about 20 min left, without 1 job of a kind that has not run yet",
        "1 job of a kind that has not run yet",
    ]


@pytest.fixture
def told(monkeypatch, capsys):
    """Tells the handler of events at their times, and returns what it printed."""
    handler, clock = TimeLeft({"train": [100.0, 200.0], "score": []}), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def tell(second, event, **more):
        clock[0] = float(second)
        record = logging.LogRecord("snakemake.logging", logging.INFO, "", 0, None, (), None)
        vars(record).update(more, event=event)
        handler.handle(record)
        return capsys.readouterr().err

    return tell


def test_jobs_that_run_side_by_side_share_the_time(told):
    told(0, LogEvent.RUN_INFO, stats={"train": 4, "score": 1, "all": 1, "total": 6})
    for job in (1, 2):
        told(0, LogEvent.JOB_INFO, jobid=job, rule_name="train")
    told(60, LogEvent.JOB_FINISHED, job_id=1)
    # The mean of 100, 200 and 60 is 120: 3 jobs less the minute of one, two at once.
    line = "about 2 min left, without 1 job of a kind that has not run yet\n"
    assert told(60, LogEvent.PROGRESS, done=1, total=6) == line


def test_a_failed_job_runs_no_more_and_the_end_is_silent(told):
    told(0, LogEvent.RUN_INFO, stats={"train": 1, "total": 1})
    told(0, LogEvent.JOB_INFO, jobid=1, rule_name="train")
    told(30, LogEvent.JOB_ERROR, jobid=1)
    assert told(30, LogEvent.PROGRESS, done=0, total=1) == "about 2 min left\n"
    told(30, LogEvent.JOB_INFO, jobid=2, rule_name="train")
    told(90, LogEvent.JOB_FINISHED, job_id=2)
    assert told(90, LogEvent.PROGRESS, done=1, total=1) == ""
