"""A finished result is kept whatever its process, its log or the clock does afterwards."""

import os
import shutil
import time

import pytest
from digests import digests
from workplace import STUDY

from pcqc_study.graph import Jobs, log_path
from pcqc_study.study_file import load_study

RUN = ("executed_local", "A")
TRAINING = "runs/executed_local/A"
CRASH = """
import atexit, os, sys
if "select" in sys.argv and "executed_local" in sys.argv:
    atexit.register(os._exit, 3)
"""


@pytest.fixture
def place(copy, monkeypatch):
    """The finished study without one choice of a checkpoint; its training must stay."""
    shutil.rmtree(copy.results / "selection/executed_local")
    monkeypatch.chdir(copy.folder)
    return copy


@pytest.fixture
def made(place):
    """Makes what is missing; what was printed, once the training was seen to be untouched."""
    before = digests(place.results / TRAINING)

    def make(**environment):
        done = place.cold().run(place.cold().workflow("--until", "select"), **environment)
        output = done.stdout + done.stderr
        assert done.returncode == 0, output[-3000:]
        assert digests(place.results / TRAINING) == before
        assert list((place.results / "selection/executed_local/A").glob("*/manifest.json"))
        return output

    return make


@pytest.mark.slow
def test_an_input_from_the_future_does_no_harm(place, made):
    """As after a clock was set back: Snakemake takes what is older than its input for an error."""
    later = time.time() + 7200
    for path in (place.results / TRAINING).rglob("*"):
        os.utime(path, (later, later), follow_symlinks=False)
    made()


@pytest.mark.slow
def test_a_process_that_ends_badly_after_its_result_is_whole_loses_nothing(place, made):
    (place.folder / "sitecustomize.py").write_text(CRASH)
    path = os.pathsep.join([str(place.folder), place.environment()["PYTHONPATH"]])
    output = made(PYTHONPATH=path)
    assert "ended with an error after its result was whole; the result is kept" in output


@pytest.mark.slow
def test_a_log_that_cannot_be_written_decides_nothing(place, made):
    job = Jobs(load_study(STUDY)).job("select", *RUN)
    log = log_path(load_study(STUDY), "select", *RUN, job.path.name)
    log.unlink(missing_ok=True)
    log.symlink_to("/dev/full")
    made()


@pytest.mark.slow  # the tests above keep finished results too
def test_a_result_that_the_workflow_is_forced_to_make_again_stays(place, made):
    """Equal inputs give equal results: it is checked and marked anew, not made anew."""
    made()
    before = digests(place.results / "selection")
    done = place.run(place.workflow("--until", "select", "--forcerun", "select"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert digests(place.results / "selection") == before
