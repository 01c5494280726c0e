"""A bundle that is restored into an empty clone is the study: the same bytes are drawn from it."""

import shutil
import subprocess

import pytest
from damage import DAMAGES
from workplace import STUDY, Workplace, complaint, digests

from pcqc.recipes.manifest import MANIFEST
from pcqc.system.files import read_json

PART, SUMS = f"{STUDY}.results-1.tar.xz", f"{STUDY}.SHA256SUMS"


@pytest.fixture(scope="module")
def bundle(mini, tmp_path_factory):
    """The bundle of the miniature study."""
    copy = mini.copied(tmp_path_factory.mktemp("bundled") / "copy")
    done = copy.run(copy.command("archive", STUDY, "--bundle"))
    assert done.returncode == 0, done.stderr
    return copy.folder / "results" / "bundle" / STUDY


@pytest.fixture
def clone(tmp_path):
    """The code alone."""
    return Workplace(tmp_path / "clone")


def restore(place, folder):
    return place.run(place.command("restore", STUDY, "--from", str(folder)))


@pytest.mark.slow  # it draws a report; the next test compares what the report is drawn from
def test_an_empty_clone_draws_the_same_bytes(mini, bundle, clone):
    sums = ["sha256sum", "--check", "--strict", SUMS]
    listed = subprocess.run(sums, cwd=bundle, check=True, capture_output=True, text=True).stdout
    assert {line.split(":")[0] for line in listed.splitlines()} == {
        *(path.name for path in bundle.iterdir() if path.name != SUMS)
    }
    assert restore(clone, bundle).returncode == 0
    report = clone.results / "report/latest"
    released = digests(report)
    assert released == digests(mini.results / "report/latest")
    shutil.rmtree(clone.results / "report")
    assert clone.run(clone.command("report", STUDY)).returncode == 0
    drawn = digests(report)
    assert {**drawn, MANIFEST: ""} == {**released, MANIFEST: ""}
    before = digests(clone.results / "runs")
    assert restore(clone, bundle).returncode == 0
    assert digests(clone.results / "runs") == before


def test_every_run_is_there_with_the_checkpoint_that_was_chosen_alone(mini, bundle, clone):
    assert restore(clone, bundle).returncode == 0
    runs = sorted((mini.results / "runs").glob(f"*/*/latest/{MANIFEST}"))
    assert len(runs) > 6
    for manifest in runs:
        run = manifest.parent.relative_to(mini.results / "runs")
        chosen = mini.results / "selection" / run / "selection.json"
        update = read_json(chosen)["selected"]["update"]
        folder = clone.results / "runs" / run
        assert [p.name for p in (folder / "checkpoints").iterdir()] == [f"{update:06d}"]
        original, restored = digests(manifest.parent), digests(folder)
        assert {name: original[name] for name in restored} == restored
        assert all(name.startswith("checkpoints/") for name in original.keys() - restored.keys())
    for command in ("consult", "explain"):
        done = clone.run(clone.command(command, STUDY, "pcqc", "A"))
        assert done.returncode == 0, done.stderr


flip = DAMAGES["a byte flipped"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: flip(folder / PART), f"{PART}: damaged (see {SUMS}); get the file"),
        (lambda folder: (folder / PART).unlink(), f"{PART}: missing; get the file again"),
        (lambda folder: flip(folder / f"{STUDY}.tar.xz"), f"damaged (see {SUMS})"),
    ],
)
def test_a_damaged_bundle_is_refused(bundle, clone, change, words):
    folder = shutil.copytree(bundle, clone.folder / "download")
    change(folder)
    assert words in complaint(restore(clone, folder))
    assert not clone.results.exists()


def test_runs_of_this_machine_stay(bundle, clone):
    assert restore(clone, bundle).returncode == 0
    folder = clone.results / "runs/pcqc/A"
    latest = (folder / "latest").resolve()
    (folder / "latest").unlink()
    latest.rename(folder / "0123abcd")
    (folder / "latest").symlink_to("0123abcd")
    before = digests(clone.results)
    assert "other runs are here; move them away to restore" in complaint(restore(clone, bundle))
    assert digests(clone.results) == before


def test_a_run_that_was_made_again_is_not_released_with_old_numbers(copy):
    evaluated = copy.results / "evaluation/pcqc"
    (evaluated / "A/latest").unlink()
    line = complaint(copy.run(copy.command("archive", STUDY, "--bundle")))
    assert f"evaluate pcqc A is not what was collected; `make results STUDY={STUDY}`" in line
