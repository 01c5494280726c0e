"""Bad input of fifteen kinds: one clear line, a non-zero exit, and nothing lost.

Each goes through the real command line in a process of its own. The working directory holds a copy
of the finished miniature study; nothing in it may change but what the test itself broke.
"""

import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from damage import follow
from workplace import STUDY, Workplace, complaint, digests

from pcqc.system.files import read_json

TRAIN = ("train", STUDY, "terminal_only", "A")
EVALUATE = ("evaluate", STUDY, "terminal_only", "A")


@pytest.fixture
def untrained(copy):
    """The copy without the run that is trained: a finished run needs none of its inputs."""
    shutil.rmtree(copy.results / "runs" / "terminal_only")
    return copy


@pytest.fixture
def unevaluated(copy):
    """The copy without that run's evaluation, but with the choice of its checkpoint."""
    shutil.rmtree(copy.results / "evaluation" / "terminal_only")
    return copy


@pytest.fixture
def refuse(mini, copy):
    """Run a command that must fail: its error line, after a check that no file changed."""

    def run(*arguments: str, **environment: str) -> str:
        before = digests(copy.folder / "results")
        line = complaint(copy.run(copy.command(*arguments), **environment))
        after = digests(copy.folder / "results")
        assert after == before
        return line

    return run


def test_broken_cases(copy, untrained, refuse):
    path = copy.results / "data/clinic/latest/train.jsonl"
    path.write_text(path.read_text()[:-40])
    line = refuse(*TRAIN)
    assert "/train.jsonl: altered since it was written; move " in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "weight_decay",
            "wait_decay",
            "rl.wait_decay: unknown setting; did you mean 'weight_decay'",
        ),
        ("checkpoint_every: 2", "checkpoint_every: two", "rl.checkpoint_every"),
    ],
    ids=["unknown setting", "wrong type"],
)
def test_a_bad_setting(copy, refuse, old, new, said):
    path = copy.folder / "config" / "studies" / f"{STUDY}.yaml"
    text = path.read_text().replace("checkpoint_every: 2", "checkpoint_every: 2\n  weight_decay: 0")
    path.write_text(text.replace(old, new))
    line = refuse(*TRAIN)
    assert re.match(rf"pcqc: error: config/studies/{STUDY}.yaml:\d+: {said}", line)


def test_an_unsound_base_model(copy):
    copy.edit(
        f"config/studies/{STUDY}.yaml", "least_patient_accuracy: 0.0", "least_patient_accuracy: 1.0"
    )
    line = complaint(copy.run(copy.command("base", STUDY)))
    assert "the base model is not sound after 100 steps: scorer_accuracy " in line
    assert "raise scratch_model.most_steps, or change scratch_model.seed" in line


def test_missing_weights(copy, untrained, refuse):
    (copy.results / "models/sft/latest/actor/model.safetensors").unlink()
    line = refuse(*TRAIN)
    assert "/actor/model.safetensors: missing" in line
    assert "away and run the workflow again" in line


def test_a_corrupted_checkpoint(copy, unevaluated, refuse):
    choice = read_json(copy.results / "selection/terminal_only/A/latest/selection.json")
    update = choice["selected"]["update"]
    run = (copy.results / "runs/terminal_only/A/latest").resolve()
    path = run / "checkpoints" / f"{update:06d}" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    line = refuse(*EVALUATE)
    assert f"checkpoints/{update:06d}/model.safetensors: corrupted" in line
    # What the line says must really fix it.
    follow(line, copy.folder, copy.folder / "aside")
    assert copy.run(copy.command(*EVALUATE)).returncode == 2
    done = copy.run(copy.workflow("--dry-run"))
    said = done.stdout + done.stderr
    if done.returncode:  # the checkpoint alone was moved: the run is the next to go
        (line,) = [x for x in said.splitlines() if x.startswith("pcqc: error: ")]
        follow(line, copy.folder, copy.folder / "aside")
    assert "Train terminal_only, run A" in copy.planned()


def test_a_truncated_parquet(copy, refuse):
    predictions = copy.results / "evaluation/grpo/A/latest/clinic_dev.parquet"
    collected = copy.results / "collected/latest/predictions.parquet"
    for path in (predictions, collected):
        path.write_bytes(path.read_bytes()[:-200])
    other = str(copy.results / "evaluation/grpo/B/latest/clinic_dev.parquet")
    assert "clinic_dev.parquet" in refuse("compare", str(predictions), other)
    assert "predictions.parquet: altered" in refuse("tables", STUDY)
    shutil.rmtree(copy.results / "tracking" / "grpo")
    assert "clinic_dev.parquet" in refuse("mirror", STUDY, "grpo")


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


@pytest.mark.skipif(not may_mount(), reason="no small disk can be mounted here")
@pytest.mark.parametrize("command", [("clinic", STUDY), TRAIN], ids=lambda c: c[0])
def test_a_full_disk(copy, tmp_path, command):
    """A disk of 32 MiB in memory, filled to the last block, in a name space of its own."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    shutil.rmtree(copy.results / ("runs/terminal_only" if command == TRAIN else "data"))
    before = digests(copy.folder / "results")
    start = ["unshare", "--map-root-user", "--mount", "bash", "-c", FULL_DISK, "bash"]
    done = copy.run(
        [*start, str(disk), str(copy.folder / "results"), *copy.cold().command(*command)],
        KEPT=str(kept),
    )
    line = complaint(done)
    assert "No space left on device; free some space on that disk and run again" in line
    after = digests(kept)
    assert {path: after.get(path) for path in before} == before


def test_a_file_cut_short_by_a_limit(mini, tmp_path):
    """Where nothing can be mounted: the system refuses to let a file grow beyond 4 KiB."""
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    limited += "from pcqc.cli import main; sys.exit(main(sys.argv[1:]))"
    done = mini.run([sys.executable, "-c", limited, "clinic", STUDY], cwd=tmp_path)
    line = complaint(done)
    assert "File too large" in line
    assert not list(tmp_path.rglob("manifest.json"))


def test_mlflow_not_there(copy, refuse):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{closed.getsockname()[1]}"
    line = refuse("collect", STUDY, MLFLOW_TRACKING_URI=uri)
    assert f"MLflow at {uri} did not answer: " in line


def test_mlflow_silent(copy, refuse):
    copy.edit(
        f"config/studies/{STUDY}.yaml",
        "evaluation_seed: 0",
        "evaluation_seed: 0\ntracking: {timeout_seconds: 3}",
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=swallow, args=(server,), daemon=True).start()
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        line = refuse("mirror", STUDY, "grpo", MLFLOW_TRACKING_URI=uri)
    assert "did not answer" in line
    assert "run the workflow again" in line


def swallow(server: socket.socket) -> None:
    """Take connections and never answer."""
    taken = []
    while True:
        try:
            taken.append(server.accept())
        except OSError:
            return


def test_a_method_without_its_patient(copy, unevaluated, refuse):
    shutil.rmtree(copy.results / "models/sft/latest/patient")
    shutil.rmtree(copy.results / "runs/terminal_only")
    line = refuse(*TRAIN)
    assert "/patient/manifest.json: missing; move " in line


def test_the_workflow_stops_with_the_line_and_loses_nothing(copy):
    """What no job would read again is compared too, before any job starts."""
    before = digests(copy.results / "runs")
    path = copy.results / "data/clinic/latest/train.jsonl"
    text = path.read_text()
    path.write_text(text.replace('"case_id"', '"case"', 1))
    done = copy.run(copy.workflow("terminal_only"))
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert said.count("pcqc: error: ") == 1
    assert "/train.jsonl: altered since it was written; move " in said
    assert "Traceback" not in said
    path.write_text(text)
    copy.make("terminal_only")
    after = digests(copy.results / "runs")
    assert after == before


def test_what_went_wrong_in_a_job_is_said_last(tmp_path, monkeypatch):
    monkeypatch.delenv("PCQC_DATA", raising=False)
    place = Workplace(tmp_path / "fresh")
    raw = place.folder / "data" / "raw" / "own"
    raw.mkdir(parents=True)
    for name in ("train", "test"):
        (raw / f"{name}.jsonl").write_text("{}\n")
    done = place.run(place.workflow("--until", "convert", study="own-cases"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.match(r"pcqc: error: data/raw/own/(train|test)\.jsonl, line 1: no known format", last)
