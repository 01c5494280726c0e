"""A study's runs are packed for git, and unpacked to the same tables."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import simulated
from digests import digests
from hand_made import evaluated, finish_job, folder_of

from analysis import archive, bundle, tables, transcripts
from analysis.copied_tables import EXCERPT, asked_for, copy_tables
from analysis.load import load
from analysis.table_formats import render
from analysis.tables import peers
from analysis.tables_and_figures import FORMS
from analysis.tar_files import packed as tar_of
from analysis.tar_files import unpack
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_jsonl
from pcqc_base.system.manifest import LEFT_OUT, MANIFEST, is_result, read_manifest
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import finish_restored, run_job
from pcqc_study.study_file import load_study
from pcqc_study.study_file.replicates import replicates

PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
NUMBER = re.compile(r"[+−]?\d[\d,.]*\d")


@pytest.fixture
def packed(archived, collected, tmp_path):
    """The simulated study's archive, for one test to spoil."""
    return shutil.copytree(archived.parent, tmp_path / "archive") / archived.name


@pytest.fixture
def elsewhere(packed, study_folder, tmp_path, monkeypatch):
    """The study in another folder, which has its cases and nothing else of it."""
    data = "results/simulated/data"
    shutil.copytree(study_folder / data, tmp_path / "elsewhere" / data, symlinks=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return simulated.load_study(simulated.STUDY)


def test_a_restored_study_has_the_same_files_without_models_and_most_dialogues(
    collected, packed, study_folder, request
):
    study, again = collected.study, packed.read_bytes()
    assert archive.write(study, packed.parent, released=False) == [packed]
    assert packed.read_bytes() == again
    before = digests(study.results)
    request.getfixturevalue("elsewhere")
    restored = bundle.restore(study, packed.parent)
    kinds = {path.parts[2] for path in restored}
    others = {"data", "models", "selection", "continuation", "grounding"}
    assert kinds == {"runs", "evaluation", *others}
    after = {n: sha256 for n, sha256 in digests(study.results).items() if LEFT_OUT not in n}
    assert after == {name: before[name] for name in after}
    held = {path.stem for path in (study.results / "evaluation").rglob("*.jsonl")}
    assert held == {study.development}
    with pytest.raises(UserError, match=r"not in the archive .* make the bundle where"):
        bundle.write(study, packed.parent / "bundle", released=False)


def test_a_restored_study_has_its_consultations_on_the_development_benchmark(
    collected, packed, elsewhere
):
    bundle.restore(elsewhere, packed.parent)
    listed = transcripts.write(elsewhere, elsewhere.results).parent / "data" / "list.js"
    listed = json.loads(listed.read_text(encoding="utf-8").removeprefix('arrived("list",')[:-3])
    held_at = {listed["places"][place][0] for place in listed["rows"]["place"]}
    assert held_at == {elsewhere.development}
    known = [(name, run) for name in collected.methods() for run in collected.runs(name)]
    assert sorted((name, run) for name, _, run in listed["runs"]) == sorted(known)
    cases = collected.number_of_cases(elsewhere.development)
    assert len(listed["rows"]["case"]) == cases * len(known)


@pytest.mark.parametrize(
    ("commit", "words"),
    [
        ("unknown", "which is no commit of this repository"),
        ("0" * 40, "which is no commit of this repository"),
        ("e87196ef+changes", "with changes that no commit has; commit, and make it again"),
    ],
)
def test_runs_of_code_that_no_commit_has_are_not_archived(
    collected, packed, monkeypatch, commit, words
):
    before, read = packed.read_bytes(), archive.read_manifest
    monkeypatch.setattr(archive, "read_manifest", lambda f: read(f) | {"git_commit": commit})
    with pytest.raises(UserError, match=re.escape(f"was made at {commit}, {words}")):
        archive.write(collected.study, packed.parent)
    assert packed.read_bytes() == before


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
        finish_job(study, "select", name, run)


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
    (path,) = archive.write(study, tmp_path / "archive", released=False)
    data = f"results/{study.name}/data"
    shutil.copytree(first / data, tmp_path / "elsewhere" / data, symlinks=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    bundle.restore(study, path.parent)
    assert "C3" in render("md", [peers.build(study)])
    again = path.read_bytes()
    assert archive.write(study, path.parent, released=False) == [path]
    assert path.read_bytes() == again
    other = replace(study.method("c3"), beta=0.5)
    shutil.rmtree(study.results)
    with pytest.raises(UserError, match=r"other settings \(train c3 A: method"):
        bundle.restore(replace(study, methods={**study.methods, "c3": other}), path.parent)


def test_other_settings_are_named(packed, elsewhere):
    study = elsewhere
    methods = {**study.methods, "pcqc": replace(study.method("pcqc"), beta=0.125)}
    changed = replace(study, methods=methods, sft=replace(study.sft, seed=99))
    text = r"sft: sft.seed, train pcqc A: method.beta, train pcqc B: method.beta, .*\); run"
    with pytest.raises(UserError, match=text):
        bundle.restore(changed, packed.parent)
    assert not latest(study, "evaluate", "pcqc", "A").exists()


def test_a_run_that_the_study_has_got_since_may_be_added(packed, elsewhere):
    study = elsewhere
    more = replace(study.method("pcqc"), runs=(*study.method("pcqc").runs, "D"))
    more = replace(study, methods={**study.methods, "pcqc": more})
    bundle.restore(more, packed.parent)
    assert [n for n in "ABCD" if Jobs(more).job("train", "pcqc", n).manifest.exists()] == [*"ABC"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "no archive of 'simulated'; `pcqc restore simulated --from"),
        (lambda path: path.write_bytes(path.read_bytes()[:-999]), "damaged"),
        (lambda path: path.write_bytes(b"nothing"), "damaged"),
        (
            lambda path: path.write_bytes(b"".join(tar_of({"../a": b""}))),
            "holds files that lie elsewhere",
        ),
    ],
)
def test_a_damaged_archive_is_refused(packed, elsewhere, change, message):
    change(packed)
    with pytest.raises(UserError, match=re.escape(message)):
        bundle.restore(elsewhere, packed.parent)
    assert not latest(elsewhere, "evaluate", "pcqc", "A").exists()


def test_a_folder_without_the_archive_leads_to_the_option_that_names_another(packed, elsewhere):
    with pytest.raises(UserError, match="`pcqc restore simulated --from FOLDER` reads another"):
        bundle.restore(elsewhere, Path("nowhere"))
    assert bundle.restore(elsewhere, packed.parent)
    assert latest(elsewhere, "evaluate", "pcqc", "A").exists()


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


@pytest.mark.parametrize("shown", [True, False])
def test_of_a_restored_replicate_no_report_is_drawn(elsewhere, packed, monkeypatch, shown):
    def make(study, kind, *arguments):
        finish_job(study, kind, *arguments)
        return Jobs(study).job(kind, *arguments)

    monkeypatch.setattr("pcqc_study.run_job.run_job", make)
    bundle.restore(elsewhere, packed.parent)
    kinds = [job.kind for job in finish_restored(elsewhere, shown)]
    assert kinds[-1] == ("publish" if shown else "collect")
    assert ("report" in kinds) == shown


@pytest.mark.slow  # the tables of this study are drawn below
def test_a_study_in_which_nothing_is_trained_has_a_report_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-expert")
    bundle.restore(study)
    monkeypatch.setitem(FORMS, "figure", ("svg",))  # the one that the report shows
    assert [job.kind for job in finish_restored(study)][-2:] == ["report", "publish"]
    folder = latest(study, "report")
    assert not list(folder.rglob("*curves*"))
    assert "Shared SFT" in (folder / "report.html").read_text()
    assert (folder / "paper.tex").exists()


LARGE = "clinic-full.tar.xz"
ARCHIVED = [
    pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name == LARGE else [])
    for p in sorted(archive.ARCHIVES.glob("*.tar.xz"))
]


@pytest.mark.parametrize("path", ARCHIVED)
def test_each_archived_run_is_of_a_commit_of_this_repository(path, tmp_path):
    """So its code can be checked out; git is asked."""
    unpack(path, tmp_path)
    manifests = [p for p in tmp_path.rglob(MANIFEST) if is_result(p.parent)]
    commits = {read_manifest(p.parent)["git_commit"] for p in manifests}
    assert commits
    assert {commit: archive.without_commit(commit) for commit in commits} == dict.fromkeys(
        commits, ""
    )


@pytest.mark.parametrize("path", ARCHIVED)
def test_the_pages_tables_are_drawn_again_from_their_archive(path, tmp_path, monkeypatch):
    """README and docs show what today's code makes of the archived runs, to the last digit."""
    monkeypatch.chdir(tmp_path)
    study = load_study(path.name.removesuffix(".tar.xz"))
    bundle.restore(study)
    shown, excerpts = asked_for(study), list(EXCERPT.findall(PAGES))
    excerpts = [(name, rows) for of, name, rows in excerpts if of == study.name]
    if not shown:  # of a replicate, whose runs stand in the tables of the study that names it
        return
    for member in (study, *replicates(study)):
        for job in Jobs(member).shared()[:-1]:  # all before SFT make its cases
            run_job(member, job.kind, *job.arguments)
        for name in Jobs(member).methods:
            run_job(member, "mirror", name)
        run_job(member, "collect")
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
        _, _, body = rows.split("\n", 2)
        assert set(NUMBER.findall(body)) <= whole, name
