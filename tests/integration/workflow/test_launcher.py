"""How jobs are started, and what they ask of a scheduler."""

import os
import re
import shutil

import pytest
from digests import digests
from workplace import SETTINGS, STUDY, Workplace

PLACEMENT = """
placement:
  device: CPU
  devices_per_node: 2
  learner: {devices: [0, 1], zero: 1}
  actor: {devices: [0, 1]}
"""


TWO_NODES = """
placement:
  device: CPU
  nodes: 2
  devices_per_node: 2
  learner: {devices: [0, 1, 2, 3]}
"""


def test_a_launcher_starts_what_processes_share_and_nothing_else(tmp_path):
    place = Workplace(tmp_path / "place")
    command = place.workflow("--dry-run", "--printshellcmds", "terminal_only")
    done = place.run([*command, "launcher=my-launcher $(hostname):29500 -m"])
    assert started(done, "my-launcher $(hostname):29500 -m") == ["sft", "train", "evaluate"]
    # Two nodes with two devices each, of which the learner has all: Slurm starts torch's launcher.
    place.edit(SETTINGS, "\nruns: {A", f"{TWO_NODES}\nruns: {{A")
    (place.folder / "srun").touch(0o755)
    done = place.run(command, PATH=f"{place.folder}:{os.environ['PATH']}")
    srun = (
        "srun --nodes 2 --ntasks-per-node 1 --cpus-per-task 16 torchrun --nnodes 2 "
        "--nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint $(hostname):29500 -m"
    )
    assert started(done, srun) == ["sft", "train", "evaluate"]


def started(done, launcher: str) -> list[str]:
    """The jobs that a dry run would start by a launcher; it would start others without."""
    assert done.returncode == 0, done.stderr[-3000:]
    jobs = re.findall(r"^Shell command: \((.*?) pcqc_study\.cli (\S+)", done.stdout, re.MULTILINE)
    assert {"clinic", "base", "select"} < {name for start, name in jobs if start != launcher}
    return [name for start, name in jobs if start == launcher]


@pytest.mark.slow
def test_the_clone_may_lie_in_a_folder_of_any_name(tmp_path):
    place = Workplace(tmp_path / "a b'$(c)")
    done = place.run(place.workflow("--until", "clinic"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (place.results / "data/clinic/train/latest/manifest.json").is_file()


@pytest.mark.long  # starts four processes cold; the unit tests share work among threads
def test_two_processes_evaluate_and_continue_in_the_bytes_of_one(copy):
    def outcome() -> dict[str, str]:
        made = {
            kind: copy.results / kind / "pcqc/A/latest" for kind in ("evaluation", "continuation")
        }
        return {
            f"{kind}/{name}": digest
            for kind, folder in made.items()
            for name, digest in digests(folder.resolve()).items()
            # Without times, the workflow's marker, and what a next job removes.
            if name not in ("manifest.json", ".made") and not name.startswith("state/")
        }

    expected = outcome()
    # Four benchmarks at three checkpoints, each predictions and dialogues; two tables.
    assert len(expected) == 4 * 3 * 2 + 2
    copy.edit(SETTINGS, "\nruns: {A", f"{PLACEMENT}\nruns: {{A")
    # The placement names another backend for trainings; this one's checkpoints are evaluated.
    because = ("--because", "two processes look at what one has trained")
    done = copy.run(copy.command("accept", STUDY, "pcqc", "A", *because))
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in ("evaluation", "continuation"):
        shutil.rmtree(copy.results / kind / "pcqc/A")
    for kind in ("evaluate", "continuation"):
        done = copy.run(copy.command(kind, STUDY, "pcqc", "A"))
        assert done.returncode == 0, done.stderr[-3000:]
    assert outcome() == expected
