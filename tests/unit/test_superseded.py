"""What a kill or a second job leaves among superseded results stops nobody and loses nothing."""

import os

import pytest

from pcqc.errors import UserError
from pcqc.study.superseded import DESCRIPTION, bring_back, remove, set_aside, superseded


@pytest.fixture
def run(tmp_path):
    """Makes a finished run and sets it aside; the run's folder and the entry's."""

    def make(fingerprint="f"):
        folder = tmp_path / "runs" / "pcqc" / "A"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(fingerprint)
        entry = set_aside(
            tmp_path, folder, [folder], job="train pcqc A", why=["setting x: 1 -> 2"],
            fingerprint=fingerprint, finished=True,
        )  # fmt: skip
        return folder, entry

    return make


def test_an_entry_that_is_being_made_or_removed_is_not_listed(run, tmp_path, monkeypatch):
    _, entry = run()
    (entry.parent / ".20261124-another").mkdir()
    assert [one.path for one in superseded(tmp_path)] == [entry]
    # A removal that is stopped half way: the next one takes the rest along.
    with monkeypatch.context() as patch:
        patch.setattr(
            "pcqc.study.superseded.shutil.rmtree", lambda path: os.unlink(path / DESCRIPTION)
        )
        remove(superseded(tmp_path))
    assert superseded(tmp_path) == []
    run("g")
    remove(superseded(tmp_path))
    assert [path.name for path in entry.parent.iterdir()] == [".20261124-another"]


def test_a_full_disk_leaves_no_entry_without_a_description(run, tmp_path, monkeypatch):
    def full(path, value):
        path.parent.mkdir(parents=True)
        raise UserError(f"cannot write {path}: no space left on device")

    monkeypatch.setattr("pcqc.study.superseded.write_json", full)
    with pytest.raises(UserError, match="no space left"):
        run()
    assert superseded(tmp_path) == []
    assert (tmp_path / "runs/pcqc/A/manifest.json").exists()


def test_an_entry_without_files_is_passed_over(run, tmp_path):
    """As a kill between its description and its files leaves one."""
    folder, entry = run()
    (entry / "runs").rename(tmp_path / "elsewhere")
    assert not bring_back(tmp_path, folder, "f")
    (tmp_path / "elsewhere").rename(entry / "runs")
    assert bring_back(tmp_path, folder, "f")
    assert (folder / "manifest.json").read_text() == "f"
    assert superseded(tmp_path) == []
