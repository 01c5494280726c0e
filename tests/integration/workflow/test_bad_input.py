"""Bad input: one clear line, a non-zero exit, and nothing lost.

Each goes through the real command line in a process of its own. The working directory holds a copy
of the finished miniature study; nothing in it may change but what the test itself broke.
"""

import re
import shutil
import subprocess

import pytest
from workplace import STUDY, Workplace, complaint, digests

TRAIN = ("train", STUDY, "terminal_only", "A")


@pytest.mark.slow  # it pretrains; `test_base_model.py` has what a sound model is
def test_an_unsound_base_model(copy):
    copy.edit(
        f"config/studies/{STUDY}.yaml", "least_patient_accuracy: 0.0", "least_patient_accuracy: 1.0"
    )
    line = complaint(copy.run(copy.command("base", STUDY)))
    assert "the base model is not sound after 100 steps: scorer_accuracy " in line
    assert "raise scratch_model.most_steps, or change scratch_model.seed" in line


def test_a_truncated_parquet(copy):
    path = copy.results / "evaluation/grpo/A/latest/clinic_dev.parquet"
    path.write_bytes(path.read_bytes()[:-200])
    shutil.rmtree(copy.results / "tracking" / "grpo")
    before = digests(copy.folder / "results")
    line = complaint(copy.run(copy.command("mirror", STUDY, "grpo")))
    assert "clinic_dev.parquet" in line
    assert digests(copy.folder / "results") == before


def test_an_unwritable_results_folder(mini, tmp_path):
    """A superuser may write anywhere, so a file stands where the folder belongs."""
    (tmp_path / "results").write_text("mine")
    line = complaint(mini.run(mini.command("clinic", STUDY), cwd=tmp_path))
    assert "a file stands where a folder is needed: move it away" in line
    assert (tmp_path / "results").read_text() == "mine"


FULL_DISK = """
set -e
mount -t tmpfs -o size=32m tmpfs "$1"
cp -r "$2" "$1/results"
cd "$1"
dd if=/dev/zero of=filler bs=4k 2> /dev/null || true
shift 2
status=0
"$@" || status=$?
rm filler
cp -r results "$KEPT"
exit $status
"""


def may_mount() -> bool:
    probe = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode == 0


@pytest.mark.long  # starts Python cold; the unit tests fill the disk under each writer
@pytest.mark.skipif(not may_mount(), reason="no small disk can be mounted here")
def test_a_full_disk(copy, tmp_path):
    """A disk of 32 MiB in memory, filled to the last block, in a name space of its own."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    shutil.rmtree(copy.results / "runs/terminal_only")
    before = digests(copy.folder / "results")
    start = ["unshare", "--map-root-user", "--mount", "bash", "-c", FULL_DISK, "bash"]
    done = copy.run(
        [*start, str(disk), str(copy.folder / "results"), *copy.cold().command(*TRAIN)],
        KEPT=str(kept),
    )
    line = complaint(done)
    assert "No space left on device; free some space on that disk and run again" in line
    after = digests(kept)
    assert {path: after.get(path) for path in before} == before


def test_the_workflow_stops_with_the_line_and_loses_nothing(copy):
    """What no job would read again is compared too, before any job starts."""
    before = digests(copy.results / "runs")
    path = copy.results / "data/clinic/latest/train.jsonl"
    path.write_text(path.read_text().replace('"case_id"', '"case"', 1))
    done = copy.run(copy.workflow("terminal_only"))
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert output.count("pcqc: error: ") == 1
    assert "/train.jsonl: altered since it was written; move " in output
    assert "Traceback" not in output
    assert digests(copy.results / "runs") == before


def test_a_missing_file_or_what_went_wrong_in_a_job_is_said_last(tmp_path, monkeypatch):
    monkeypatch.delenv("PCQC_DATA", raising=False)
    place = Workplace(tmp_path / "fresh")
    done = place.run(place.workflow("--dry-run", study="own-cases"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.match(
        r"pcqc: error: data/raw/own/test.jsonl, data/raw/own/train.jsonl: missing", last
    )
    assert "download with `pcqc data fetch`, or name the folder that holds your files" in last
    raw = place.folder / "data" / "raw" / "own"
    raw.mkdir(parents=True)
    for name in ("train", "test"):
        (raw / f"{name}.jsonl").write_text("{}\n")
    done = place.run(place.workflow("--until", "convert", study="own-cases"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.match(r"pcqc: error: data/raw/own/(train|test)\.jsonl, line 1: no known format", last)
