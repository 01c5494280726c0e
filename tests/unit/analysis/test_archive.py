"""What a study collected is packed for git, and unpacked to the same tables."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import simulated
from hand_made import evaluated, finish_job, folder_of, make_cases

from analysis import archive, bundle, figures, paper, report, tables, transcripts
from analysis.copied_tables import asked_for, copy_tables
from analysis.formats import render
from analysis.load import load, peers_folder
from analysis.tables import peers
from analysis.tables_and_figures import FORMS
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_jsonl
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import run_job
from pcqc_study.settings import load_study
from pcqc_study.settings.replicates import replicates

# A page's excerpt of a table, and the numbers in either.
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
EXCERPT = re.compile(r"<!-- from ([\w-]+): (\w+) -->\n\n(?:\|.*\n){2}((?:\|.*\n)+)")
NUMBER = re.compile(r"[+−]?\d[\d,.]*\d")


@pytest.fixture
def packed(collected, tmp_path):
    """The simulated study's archive."""
    (path,) = archive.write(collected.study, tmp_path / "archive")
    return path


@pytest.fixture
def elsewhere(packed, study_folder, tmp_path, monkeypatch):
    """The study in another folder, which has its cases and nothing else of it."""
    data = "results/simulated/data"
    shutil.copytree(study_folder / data, tmp_path / "elsewhere" / data, symlinks=True)
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
    (restored,) = archive.restore(study, packed.parent)
    assert restored == latest(study, "collect").resolve().relative_to(Path.cwd())
    assert drawn(study) == before
    dialogues = {path.stem for path in latest(study, "collect").rglob("*.jsonl")}
    assert dialogues == {study.development}


def test_a_restored_study_has_its_consultations_on_the_development_benchmark(packed, elsewhere):
    archive.restore(elsewhere, packed.parent)
    listed = transcripts.write(elsewhere, elsewhere.results).parent / "data" / "list.js"
    listed = json.loads(listed.read_text(encoding="utf-8").removeprefix('arrived("list",')[:-3])
    held_at = {listed["places"][place][0] for place in listed["rows"]["place"]}
    assert held_at == {elsewhere.development}
    runs = load(elsewhere)
    known = [(name, run) for name in runs.methods() for run in runs.runs(name)]
    assert sorted((name, run) for name, _, run in listed["runs"]) == sorted(known)
    cases = runs.number_of_cases(elsewhere.development)
    assert len(listed["rows"]["case"]) == cases * len(known)


def evaluate(study, name, like):
    """A peer's runs, evaluated on this machine with the outcomes of a collected method."""
    runs = load(study)
    for run in study.method(name).runs:
        record = runs.record(like, run)
        rows, events = (
            frame[(frame["method"] == like) & (frame["run"] == run)]
            for frame in (runs.predictions, runs.updates)
        )
        evaluated(study, name, run, rows.to_dict("records"), update=record["evaluation"]["update"])
        events = json.loads(events.drop(columns=["method", "run"]).to_json(orient="records"))
        write_jsonl(folder_of(study, "train", name, run) / "events.jsonl", events)
        finish_job(study, "train", name, run, entries=record["training"])


def test_peers_are_kept_and_compared_with_what_was_collected(
    collected, tmp_path, study_folder, monkeypatch
):
    first = tmp_path / "first"
    shutil.copytree(study_folder, first, symlinks=True)
    monkeypatch.chdir(first)
    study = collected.study
    evaluate(study, "c3", like="pcqc")
    before = render("md", [peers.build(study)])
    assert before.count("C3") == 1
    (path,) = archive.write(study, tmp_path / "archive")
    data = f"results/{study.name}/data"
    shutil.copytree(first / data, tmp_path / "elsewhere" / data, symlinks=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert archive.restore(study, path.parent)[1:] == [peers_folder(study)]
    assert render("md", [peers.build(study)]) == before
    again = path.read_bytes()
    assert archive.write(study, path.parent) == [path]
    assert path.read_bytes() == again
    other = replace(study.method("c3"), beta=0.5)
    shutil.rmtree(study.results)
    with pytest.raises(UserError, match=r"other settings \(train c3 A: method"):
        archive.restore(replace(study, methods={**study.methods, "c3": other}), path.parent)


def test_what_is_there_is_not_overwritten(collected, packed):
    with pytest.raises(UserError, match="holds runs of this machine; move it away to restore"):
        archive.restore(collected.study, packed.parent)


def test_other_settings_are_named(packed, elsewhere):
    study = elsewhere
    methods = {**study.methods, "pcqc": replace(study.method("pcqc"), beta=0.125)}
    changed = replace(study, methods=methods, sft=replace(study.sft, seed=99))
    text = r"sft: sft.seed, train pcqc A: method.beta, train pcqc B: method.beta, .*\); run"
    with pytest.raises(UserError, match=text):
        archive.restore(changed, packed.parent)
    assert not latest(study, "collect").exists()


def test_a_run_that_the_study_has_got_since_may_be_added(packed, elsewhere):
    study = elsewhere
    more = replace(study.method("pcqc"), runs=(*study.method("pcqc").runs, "D"))
    archive.restore(replace(study, methods={**study.methods, "pcqc": more}), packed.parent)
    fewer = replace(study.method("pcqc"), runs=("A",))
    shutil.rmtree(study.results / "collected")
    with pytest.raises(UserError, match=r"other settings \(.*train pcqc B, train pcqc C\); run"):
        archive.restore(replace(study, methods={**study.methods, "pcqc": fewer}), packed.parent)


def holding(name):
    return b"".join(archive.packed({name: b"", archive.SETTINGS: b"{}"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "no archive of 'simulated'; `pcqc restore simulated --from"),
        (lambda path: path.write_bytes(path.read_bytes()[:-999]), "damaged"),
        (lambda path: path.write_bytes(b"nothing"), "damaged"),
        (lambda path: path.write_bytes(holding("../a")), "holds files that lie elsewhere"),
    ],
)
def test_a_damaged_archive_is_refused(packed, elsewhere, change, message):
    change(packed)
    with pytest.raises(UserError, match=re.escape(message)):
        archive.restore(elsewhere, packed.parent)
    assert not latest(elsewhere, "collect").exists()


def test_a_folder_without_the_archive_leads_to_the_option_that_names_another(packed, elsewhere):
    with pytest.raises(UserError, match="`pcqc restore simulated --from FOLDER` reads another"):
        bundle.restore(elsewhere, Path("nowhere"))
    assert bundle.restore(elsewhere, packed.parent)
    assert latest(elsewhere, "collect").exists()


def test_variations_of_a_bundle_are_recorded_unless_there_are_others(
    packed, elsewhere, tmp_path, monkeypatch
):
    monkeypatch.setattr(bundle, "ROOT", tmp_path / "clone")
    released = packed.with_name("simulated.variations.yaml")
    released.write_text("weak: {like: pcqc, beta: 0.5}\n")
    bundle.restore(elsewhere, packed.parent)
    recorded = tmp_path / "clone/config/studies/variations/simulated.yaml"
    assert recorded.read_bytes() == released.read_bytes()
    recorded.write_text("other: {like: pcqc, beta: 0.25}\n")
    with pytest.raises(UserError, match="records other variations; move it away to restore"):
        bundle.restore(elsewhere, packed.parent)


@pytest.mark.slow  # the tables of this study are drawn below
def test_a_study_in_which_nothing_is_trained_has_a_report_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-expert")
    archive.restore(study)
    run_job(study, "base")
    make_cases(study)
    monkeypatch.setitem(FORMS, "figure", ("svg",))  # the one that the report shows
    collected, folder = load(study), tmp_path / "drawn"
    written = [*tables.write(collected, folder), *figures.write(collected, folder)]
    assert not any("curves" in path.name for path in written)
    assert "Shared SFT" in report.write(collected, folder).read_text()
    assert all(path.exists() for path in paper.write(collected, folder))


LARGE = "clinic-full.tar.xz"
ARCHIVED = [
    pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name == LARGE else [])
    for p in sorted(archive.ARCHIVES.glob("*.tar.xz"))
]


@pytest.mark.parametrize("path", ARCHIVED)
def test_the_pages_tables_are_drawn_again_from_their_archive(
    path, tmp_path, monkeypatch, draw_clinic
):
    """README and docs show what today's code makes of the archived runs, to the last digit."""
    monkeypatch.chdir(tmp_path)
    study = load_study(path.name.removesuffix(".tar.xz"))
    archive.restore(study)
    shown, excerpts = asked_for(study), list(EXCERPT.findall(PAGES))
    excerpts = [(name, rows) for of, name, rows in excerpts if of == study.name]
    if not shown:  # of a replicate, whose runs stand in the tables of the study that names it
        return
    draw_clinic(study)
    for other in replicates(study):
        for mine, theirs in zip(Jobs(study).shared(), Jobs(other).shared(), strict=True):
            if mine.kind == "clinic":
                assert mine.fingerprint == theirs.fingerprint  # so the cases are the same
            if mine.kind in ("clinic", "prepare"):
                shutil.copytree(mine.path, theirs.path)
                theirs.latest.symlink_to(theirs.path.name)
    names = {name for names in shown.values() for name in names} | {name for name, _ in excerpts}
    tables.write(load(study), tmp_path, sorted(names - {"peers"}))
    if "peers" in names:
        tables.write_forms(tmp_path / "tables", "peers", [peers.build(study)])
    for page in shown:
        copied = tmp_path / page.relative_to(ROOT)
        copied.parent.mkdir(exist_ok=True)
        shutil.copy(page, copied)
    copy_tables(study, tmp_path, tmp_path)
    for page in shown:
        assert (tmp_path / page.relative_to(ROOT)).read_text() == page.read_text()
    for name, rows in excerpts:
        whole = set(NUMBER.findall((tmp_path / "tables" / f"{name}.md").read_text()))
        assert set(NUMBER.findall(rows)) <= whole, name
