"""What a study collected is packed for git, and unpacked to the same tables."""

import re
import shutil
from dataclasses import replace

import pytest
import simulated

from analysis import archive, tables
from analysis.collected import load
from analysis.copied_tables import asked_for, copy_tables
from analysis.render import render
from pcqc.clinic.build import build_clinic
from pcqc.config import ROOT, load_study
from pcqc.config.replicates import replicates
from pcqc.errors import UserError
from pcqc.paths import Paths


@pytest.fixture
def packed(collected, tmp_path):
    """The simulated study's archive."""
    (path,) = archive.write(collected.study, tmp_path / "archive")
    return path


@pytest.fixture
def elsewhere(packed, study_folder, tmp_path, monkeypatch):
    """The study in another folder, which has its cases and nothing else of it."""
    data = "results/simulated/data"
    shutil.copytree(study_folder / data, tmp_path / "elsewhere" / data)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return simulated.load_study(simulated.STUDY)


def drawn(study, names=("claims", "main_accuracy", "question_quality", "continuation")):
    collected = load(study)
    return [render("md", [tables.build(name, collected)]) for name in names]


def test_a_restored_study_has_the_same_tables(collected, packed, study_folder, request):
    study, before = collected.study, drawn(collected.study)
    again = packed.read_bytes()
    assert archive.write(study, packed.parent) == [packed]
    assert packed.read_bytes() == again
    request.getfixturevalue("elsewhere")
    assert archive.restore(study, packed.parent) == [Paths.of(study).collected]
    assert drawn(study) == before
    dialogues = {path.stem for path in Paths.of(study).collected.rglob("*.jsonl")}
    assert dialogues == {study.development}


def test_what_is_there_is_not_overwritten(collected, packed):
    with pytest.raises(UserError, match="collected: is there already; move it away"):
        archive.restore(collected.study, packed.parent)


def test_other_settings_are_named(packed, elsewhere):
    study = elsewhere
    methods = {**study.methods, "pcqc": replace(study.method("pcqc"), beta=0.125)}
    changed = replace(study, methods=methods, sft=replace(study.sft, seed=99))
    said = r"sft: sft, train pcqc A: method, train pcqc B: method, train pcqc C: method\); run"
    with pytest.raises(UserError, match=said):
        archive.restore(changed, packed.parent)
    assert not Paths.of(study).collected.exists()


def holding(name):
    return archive._packed({name: b"", archive.SETTINGS: b"{}"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "no archive of 'simulated'; `pcqc archive` writes one"),
        (lambda path: path.write_bytes(path.read_bytes()[:-999]), "damaged"),
        (lambda path: path.write_bytes(b"nothing"), "damaged"),
        (lambda path: path.write_bytes(holding("../a")), "holds files that lie elsewhere"),
    ],
)
def test_a_damaged_archive_is_refused(packed, elsewhere, change, said):
    change(packed)
    with pytest.raises(UserError, match=re.escape(said)):
        archive.restore(elsewhere, packed.parent)
    assert not Paths.of(elsewhere).collected.exists()


@pytest.mark.parametrize("path", sorted(archive.ARCHIVES.glob("*.tar.xz")), ids=lambda p: p.name)
def test_the_pages_tables_are_drawn_again_from_their_archive(path, tmp_path, monkeypatch):
    """README and docs show what today's code makes of the archived runs, to the last digit."""
    monkeypatch.chdir(tmp_path)
    study = load_study(path.name.removesuffix(".tar.xz"))
    archive.restore(study)
    shown = asked_for(study)
    if not shown:  # of a replicate, whose runs stand in the tables of the study that names it
        return
    for one in (study, *replicates(study)):
        build_clinic(one)
    tables.write(load(study), sorted({name for names in shown.values() for name in names}))
    for page in shown:
        copied = tmp_path / page.relative_to(ROOT)
        copied.parent.mkdir(exist_ok=True)
        shutil.copy(page, copied)
    copy_tables(study, tmp_path)
    for page in shown:
        assert (tmp_path / page.relative_to(ROOT)).read_text() == page.read_text()
