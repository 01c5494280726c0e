"""The whole workflow on a real Slurm of one node, which dies while a run is trained on it."""

import collections
import re
import subprocess
import sys
from pathlib import Path

import cluster
import pytest
from kills import essence, unstarted, wait_until
from workplace import CORES, STUDY, Workplace

PROFILE = "slurm"
# What a cluster without accounting needs; then what shortens the test.
HERE = ["--slurm-no-account", "--slurm-status-command", "squeue"]
SOON = ["--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5"]
KILLED = "pcqc"
WAIT = 1800  # seconds, for what takes a quarter of it on an idle machine
# The clinic needs no GPU; `train` asks for one of the node's all the same, and for cores with it.
GPU = ["--set-resources", "train:gpu=1", "train:cpus_per_gpu=1"]
# Time, memory, GPUs and cores for each that jobs of each rule ask for.
MODELS, OTHERS = ("1-00:00:00", "4G", "N/A", "N/A"), ("2:00:00", "4000M", "N/A", "N/A")
COLUMNS = "Comment:80,State,TimeLimit,MinMemory,tres-per-job,cpus-per-tres"
ASKED = {
    "clinic": OTHERS,
    "base": OTHERS,
    "sft": MODELS,
    "train": ("1-00:00:00", "4G", "gres:gpu:1", "gres:gpu:1"),
    "select": OTHERS,
    "evaluate": MODELS,
    "continue_candidates": MODELS,
    "ground_answers": OTHERS,
    "mirror": OTHERS,
    "collect": OTHERS,
    "report": OTHERS,
    "publish": OTHERS,
}

pytestmark = [
    pytest.mark.skipif(cluster.obstacle() is not None, reason=f"no Slurm: {cluster.obstacle()}"),
]


@pytest.fixture
def slurm(tmp_path):
    with cluster.OneNodeSlurm(tmp_path / "slurm", CORES) as running:
        yield running


def submit(place: Workplace, log_file: Path) -> subprocess.Popen:
    """The whole workflow under way, every job of it sent to Slurm."""
    start = [sys.executable, "-m", "snakemake", "--workflow-profile", PROFILE]
    command = [*start, *HERE, *SOON, *GPU, "--config", f"study={STUDY}"]
    with open(log_file, "w") as log:
        return subprocess.Popen(
            command, cwd=place.folder, env=place.environment(), stdout=log, stderr=log
        )


def asked(slurm: cluster.OneNodeSlurm) -> dict[str, tuple[str, ...]]:
    """Rule -> what its jobs asked for (see `ASKED`), all alike; each job was completed."""
    resources_by_rule = collections.defaultdict(set)
    for comment, state, *resources in slurm.jobs(COLUMNS):
        assert state == "COMPLETED", comment
        rule = re.fullmatch(r"rule_(\w+?)(_wildcards_\w+)?", comment)[1]
        resources_by_rule[rule].add(tuple(resources))
    return {rule: only for rule, (only,) in resources_by_rule.items()}


def test_a_study_whose_node_dies_is_made_to_its_end(mini, slurm, tmp_path):
    """Slurm starts the node's jobs again when it is back; all bytes are those of local jobs."""
    place = unstarted(mini, tmp_path / "place")
    jobs = place.planned()
    runs, log_file = place.results / "runs" / KILLED / "A", place.folder / "log_file"
    workflow = submit(place, log_file)
    try:
        wait_until(lambda: [*runs.glob("*/state/*/step-*")], workflow, WAIT)
        slurm.kill_node()
        assert not (runs / "latest").exists(), "the run had ended before the node"
        slurm.wait_for("mix*", "alloc*", "down", "down*")
        slurm.start_node()
        assert workflow.wait(WAIT) == 0, log_file.read_text()[-3000:]
    finally:
        workflow.kill()
        workflow.wait()
    (log,) = (path.read_text() for path in (place.results / "logs/train").glob(f"{KILLED}-A-*.log"))
    assert re.search(rf"{KILLED} A: from [1-3] of 4 updates", log)
    assert essence(place.results) == essence(mini.results)
    # Each was sent once: it was Slurm that started the node's jobs again.
    assert len(slurm.jobs("JobID")) == len(jobs)
    assert asked(slurm) == ASKED
