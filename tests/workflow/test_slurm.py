"""The workflow on a real Slurm of one node, which dies while a run is trained on it."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cluster
import pytest
from test_kill import essence
from workplace import CORES, STUDY, Workplace

PROFILE = "workflow/profiles/slurm"
# What a cluster without accounting needs; then what shortens the test.
HERE = ["--slurm-no-account", "--slurm-status-command", "squeue"]
SOON = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5"]
RUN = "terminal_only"
MEMORY, LONG, SHORT = "4G", "1-00:00:00", "2:00:00"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(cluster.obstacle() is not None, reason=f"no Slurm: {cluster.obstacle()}"),
]


@pytest.fixture
def slurm(tmp_path):
    with cluster.OneNodeSlurm(tmp_path / "slurm", CORES) as running:
        yield running


@pytest.fixture
def whole(tmp_path) -> Workplace:
    """One method of the miniature study, made on this machine without Slurm."""
    whole = Workplace(tmp_path / "whole")
    whole.make(RUN)
    return whole


@pytest.fixture
def place(whole, tmp_path) -> Workplace:
    """The same before any run of the method."""
    place = whole.copied(tmp_path / "place")
    for folder in ("runs", "evaluation", "logs"):
        shutil.rmtree(place.results / folder)
    (place.results / "tracking" / f"{RUN}.json").unlink()
    return place


def submit(place: Workplace, said: Path) -> subprocess.Popen:
    """The workflow under way, every job of it sent to Slurm."""
    start = [sys.executable, "-m", "snakemake", "--workflow-profile", PROFILE, "--jobs", "2"]
    command = [*start, *HERE, *SOON, "--config", f"study={STUDY}", "--", RUN]
    with open(said, "w") as log:
        return subprocess.Popen(
            command, cwd=place.folder, env=place.environment(), stdout=log, stderr=log
        )


def wait_until(holds, process: subprocess.Popen, seconds: float = 300) -> None:
    """Return when a condition holds; fails where the process ends before or time runs out."""
    until = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, "the workflow has ended"
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_a_run_whose_node_dies_goes_on_from_its_state(whole, place, slurm, tmp_path):
    """Slurm starts the job again when the node is back; its bytes are those of the unkilled run."""
    run, said = place.results / "runs" / RUN / "A", tmp_path / "said"
    workflow = submit(place, said)
    try:
        wait_until(lambda: [*run.glob("state/*/step-*")], workflow)
        slurm.kill_node()
        assert not (run / "manifest.json").exists(), "the run had ended before the node"
        slurm.wait_for("mix*", "alloc*", "down", "down*")
        slurm.start_node()
        assert workflow.wait(500) == 0, said.read_text()[-3000:]
    finally:
        workflow.kill()
        workflow.wait()
    log = (place.results / "logs" / "train" / f"{RUN}-A.log").read_text()
    assert re.search(rf"{RUN} A: from [1-3] of 4 updates", log)
    assert essence(place.results) == essence(whole.results)
    asked = {tuple(job) for job in slurm.jobs("%k %T %l %m")}
    assert asked == {
        (f"rule_train_wildcards_{RUN}_A", "COMPLETED", LONG, MEMORY),
        (f"rule_select_wildcards_{RUN}_A", "COMPLETED", SHORT, "4000M"),
        (f"rule_evaluate_wildcards_{RUN}_A", "COMPLETED", LONG, MEMORY),
        (f"rule_track_wildcards_{RUN}", "COMPLETED", SHORT, "4000M"),
    }
