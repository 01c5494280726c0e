"""A bundle that is restored into an empty clone is the study: the same bytes are drawn from it."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from damage import DAMAGES, follow
from digests import digests
from kills import essence, unstarted
from workplace import RUNS, STUDY, complaint

from pcqc_base.system.files import digest, read_json
from pcqc_base.system.manifest import LEFT_OUT, MANIFEST, MARKER, write_manifest
from pcqc_study.cli import main

PART, SUMS = f"{STUDY}.results-1.tar.xz", f"{STUDY}.SHA256SUMS"
RESULTS = Path("results") / STUDY


@pytest.fixture(scope="module")
def bundle(mini, tmp_path_factory):
    """The bundle of the miniature study."""
    copy = mini.copied(tmp_path_factory.mktemp("bundled") / "copy")
    done = copy.run(copy.command("archive", STUDY, "--bundle"))
    assert done.returncode == 0, done.stderr[-3000:]
    return copy.folder / "results" / "bundle" / STUDY


@pytest.fixture(autouse=True)
def clone(tmp_path, monkeypatch):
    """A working directory in which nothing was made."""
    monkeypatch.chdir(tmp_path)


def restore(folder) -> int:
    return main(["restore", STUDY, "--from", str(folder)])


@pytest.mark.slow  # it draws a report; the next test compares what the report is drawn from
def test_an_empty_clone_draws_the_same_bytes(mini, bundle):
    sums = ["sha256sum", "--check", "--strict", SUMS]
    listed = subprocess.run(sums, cwd=bundle, check=True, capture_output=True, text=True).stdout
    assert {line.split(":")[0] for line in listed.splitlines()} == {
        *(path.name for path in bundle.iterdir() if path.name != SUMS)
    }
    assert restore(bundle) == 0
    report = RESULTS / "report/latest"
    released = digests(report)
    assert released == digests(mini.results / "report/latest")
    shutil.rmtree(RESULTS / "report")
    assert main(["report", STUDY]) == 0
    drawn = digests(report)
    assert {**drawn, MANIFEST: ""} == {**released, MANIFEST: ""}
    before = digests(RESULTS / "runs")
    assert restore(bundle) == 0
    assert digests(RESULTS / "runs") == before


def compared(results):
    """Digest of each file but MLflow's identities; of the manifest of what a clone collects itself,
    what is no time.
    """
    own = {n: v for n, v in essence(results).items() if n.startswith("collected/")}
    kept = {n: v for n, v in digests(results).items() if "state" not in Path(n).parts}
    kept |= {n: v for n, v in own.items() if Path(n).name == MANIFEST}
    return {n: v for n, v in kept.items() if not n.startswith(("tracking/", "published/"))}


@pytest.mark.long  # it restores twice, and draws two reports
def test_two_clones_are_given_the_same_bytes_and_those_of_the_study(
    mini, bundle, tmp_path, monkeypatch
):
    restored = []
    for name in ("one", "another place"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert restore(bundle) == 0
        restored.append(compared(RESULTS))
    assert restored[0] == restored[1]
    runs = {n: d for n, d in restored[0].items() if n.startswith("runs/")}
    runs = {n: d for n, d in runs.items() if Path(n).name not in (MARKER, LEFT_OUT)}
    assert runs
    assert runs.items() <= digests(mini.results).items()


@pytest.mark.slow
def test_every_run_is_there_with_the_checkpoint_that_was_chosen_alone(mini, bundle):
    assert restore(bundle) == 0
    runs = sorted((mini.results / "runs").glob(f"*/*/latest/{MANIFEST}"))
    assert len(runs) > 6
    for manifest in runs:
        run = manifest.parent.relative_to(mini.results / "runs")
        chosen = mini.results / "selection" / run / "selection.json"
        update = read_json(chosen)["selected"]["update"]
        folder = RESULTS / "runs" / run
        assert [p.name for p in (folder / "checkpoints").iterdir()] == [f"{update:06d}"]
        original, restored = digests(manifest.parent), digests(folder)
        if restored.pop(LEFT_OUT, None):
            assert set(read_json(folder / LEFT_OUT)) <= original.keys() - restored.keys()
        assert {name: original[name] for name in restored} == restored
        lacking = original.keys() - restored.keys() - {MARKER}
        assert all(name.startswith("checkpoints/") for name in lacking)
    for command in ("consult", "explain"):
        assert main([command, STUDY, "pcqc", "A"]) == 0


@pytest.mark.slow  # it restores a whole study; `test_restored_study.py` has those of an archive
def test_a_study_restored_into_an_empty_clone_is_done(mini, bundle, tmp_path):
    """Status, explain and a dry run say so, and MLflow's store there has its runs."""
    place = unstarted(mini, tmp_path / "clone")
    done = place.run(place.command("restore", STUDY, "--from", str(bundle)))
    assert done.returncode == 0, done.stderr[-3000:]
    status = json.loads(place.run(place.command("status", STUDY, "--json")).stdout)
    assert status["unfinished"] == []
    assert status["report_current"]
    assert place.planned() == []
    explained = place.run(place.command("explain", STUDY, "pcqc", "A")).stdout
    assert "nothing would run again" in explained
    with closing(sqlite3.connect(place.folder / "results" / "mlflow.db")) as store:
        letters = store.execute("SELECT count(*) FROM tags WHERE key = 'run'").fetchone()
    assert letters == (sum(map(len, RUNS.values())),)


@pytest.mark.slow  # it trains; `test_kept_results.py` makes results again too
def test_a_run_that_was_moved_away_and_made_again_is_bundled(copy, bundle):
    """The remedy for an altered result once ended in 'not what was collected', for ever."""
    folder = copy.results / "runs/pcqc/A"
    with open(folder / "latest/events.jsonl", "a") as file:
        file.write("{}\n")
    line = complaint(copy.run(copy.command("archive", STUDY, "--bundle")))
    follow(line, copy.folder, copy.folder / "aside")
    copy.make()
    bundled = copy.run(copy.command("archive", STUDY, "--bundle"))
    assert bundled.returncode == 0, bundled.stderr[-3000:]


flip = DAMAGES["a byte flipped"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: flip(folder / PART), f"{PART}: damaged (see {SUMS}); get the file"),
        (lambda folder: (folder / PART).unlink(), f"{PART}: missing; get the file again"),
        (lambda folder: flip(folder / f"{STUDY}.README.md"), f"damaged (see {SUMS})"),
    ],
)
def test_a_damaged_bundle_is_refused(bundle, capsys, change, words):
    folder = shutil.copytree(bundle, "download")
    change(Path(folder))
    assert restore(folder) == 2
    assert words in capsys.readouterr().err
    assert not RESULTS.exists()


@pytest.mark.slow
def test_runs_of_this_machine_stay(bundle, capsys):
    assert restore(bundle) == 0
    folder = RESULTS / "runs/pcqc/A"
    latest = (folder / "latest").resolve()
    (folder / "latest").unlink()
    manifest = json.loads((latest / MANIFEST).read_text())
    manifest["fingerprint"]["settings"]["seed"] = 99
    name = digest(manifest["fingerprint"])[:8]
    write_manifest(latest.rename(folder / name), manifest)
    (folder / "latest").symlink_to(name)
    before = digests(RESULTS)
    assert restore(bundle) == 2
    assert "other runs are here; move them away to restore" in capsys.readouterr().err
    assert digests(RESULTS) == before


def test_a_run_that_is_gone_is_not_released(copy, monkeypatch, capsys):
    monkeypatch.chdir(copy.folder)
    shutil.rmtree(RESULTS / "evaluation/pcqc/A")
    assert main(["archive", STUDY, "--bundle"]) == 2
    line = capsys.readouterr().err
    assert f"`evaluate pcqc A` has not finished; `make results STUDY={STUDY}`" in line
