"""Learning in several processes: one is killed, then their launcher."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest
from digests import digests
from kills import WAIT, lines, wait_until
from workplace import SETTINGS, STUDY, Workplace, complaint

from pcqc_base.system.files import read_jsonl

PLACEMENT = """
placement:
  device: CPU
  devices_per_node: 2
  learner: {devices: [0, 1], zero: 3}
  actor: {devices: [0, 1]}
"""
EVENTS = "events.jsonl"
KEPT = (".safetensors", ".parquet", "candidate_groups.jsonl", "consultations.jsonl")


@pytest.fixture
def placed(copy) -> Workplace:
    """The miniature study on two devices, its run of PCQC unmade, and long enough to kill.

    Its processes are real ones, since the tests kill them by their ids.
    """
    copy.edit(SETTINGS, "\nruns: {A", f"{PLACEMENT}\nruns: {{A")
    copy.edit(SETTINGS, "pcqc: {updates: 4", "pcqc: {updates: 16")
    shutil.rmtree(copy.results / "runs" / "pcqc" / "A")
    cold = copy.cold()
    tuned = cold.run(cold.command("sft", STUDY))  # SFT has the placement too
    assert tuned.returncode == 0, tuned.stderr[-3000:]
    return cold


def outcome(run: Path) -> dict[str, object]:
    """What must not depend on kills: digests of files, and the metrics.

    Processes share dialogues out as they become free, so other ones make up a batch each time; the
    gap between engine and learner, of some 1e-7, then differs in its last digits.
    """
    files = {
        n: d for n, d in digests(run).items() if n.endswith(KEPT) and "state" not in Path(n).parts
    }
    rows = [row for _, row in read_jsonl(run / EVENTS)]
    metrics = [{k: v for k, v in row.items() if not k.startswith("gap/")} for row in rows]
    return {**files, EVENTS: metrics}


def start_and_wait(place: Workplace, command: list[str], reached) -> subprocess.Popen:
    """A job that has come as far as `reached` says."""
    started = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(reached, started)
    return started


def workers(parent: int) -> dict[int, psutil.Process]:
    """Rank -> process, of those that a launcher started."""
    ranks = [(child.environ().get("RANK"), child) for child in psutil.Process(parent).children()]
    return {int(rank): child for rank, child in ranks if rank}


def all_end(processes: Iterable[psutil.Process]) -> bool:
    """Whether they end within ten seconds."""
    return not psutil.wait_procs(processes, timeout=10)[1]


def test_killed_processes_are_one_error_and_the_rerun_is_exact(placed):
    command, runs = placed.command("train", STUDY, "pcqc", "A"), placed.results / "runs/pcqc/A"
    done = placed.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    run = (runs / "latest").resolve()
    events, expected = run / EVENTS, outcome(run)
    assert len(expected) == 8 + 8 + 3  # checkpoints, validations, three records
    shutil.rmtree(runs)

    training = start_and_wait(placed, command, lambda: lines(events) >= 3)
    ranks = workers(training.pid)
    assert sorted(ranks) == [0, 1]
    ranks[1].kill()
    output = training.communicate(timeout=WAIT)
    ended = subprocess.CompletedProcess(command, training.returncode, *output)
    assert "process 1 of 2 was killed (SIGKILL), and the others were stopped" in complaint(ended)
    assert all_end([ranks[0]])
    assert list(run.glob("state/*/step-*")), "nothing to resume from"

    training = start_and_wait(placed, command, lambda: lines(events) >= 9)
    ranks = workers(training.pid)
    training.kill()
    training.wait()
    assert all_end(ranks.values())
    assert not (run / "manifest.json").exists()

    done = placed.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    assert outcome(run) == expected
