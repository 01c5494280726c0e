"""Results on disk: manifests vouch for every file, and what an edit leaves to do."""

import errno
import importlib.metadata
import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import damage
import numpy as np
import pytest
from digests import digests
from hand_made import finish_all, finish_job
from small_runs import small_study

from pcqc_base.errors import UserError
from pcqc_base.system.manifest import (
    LEFT_OUT,
    MANIFEST,
    begin,
    checked,
    finish,
    hold_folder,
    make_latest,
    mark,
    read_manifest,
    verify,
)
from pcqc_study import fingerprint as fingerprint
from pcqc_study.clean import listing, outdated, remove
from pcqc_study.explain import accept, why
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs
from pcqc_study.run_job import perform


@dataclass(frozen=True)
class Told:
    number: int = 1


def make_job(root: Path, kind: str = "first", number: int = 1, **inputs) -> Job:
    return Job(kind, (), root / kind, Told(number), ("pcqc_clinic.jobs.clinic",), inputs)


def test_inputs_are_told_apart_by_content(tmp_path):
    path = tmp_path / "a"
    names = []
    for text in ("x", "y", "x"):
        path.write_text(text)
        names.append(make_job(tmp_path, raw=path).fingerprint.short)
    assert names[0] == names[2] != names[1]


def made(job: Job, **texts: str) -> Job:
    """The job, done: files with their texts."""

    def work(job):
        for name, text in texts.items():
            path = job.path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return {"count": len(texts)}

    perform(job, work)
    return job


def test_a_manifest_has_the_versions_that_were_imported(tmp_path, monkeypatch):
    """Where another installation stands earlier on the path, that is not what computed."""
    other = tmp_path / "path" / "numpy-0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(other.parent)
    assert importlib.metadata.version("numpy") == "0.1"
    job = made(make_job(tmp_path), a="1")
    assert read_manifest(job.path)["machine"]["numpy"] == np.__version__


def test_a_finished_result_has_a_manifest_and_is_never_written_again(tmp_path):
    job = made(make_job(tmp_path), a="1", sub__b="2")
    manifest = read_manifest(job.path)
    assert set(manifest["files"]) == {"a", "sub/b"}
    assert (manifest["count"], manifest["fingerprint"]["job"]) == (2, "first")
    assert manifest["machine"]["torch"]
    assert (job.folder / "latest").resolve() == job.path
    own = [".made", "a", "manifest.json", "sub"]
    assert sorted(path.name for path in job.path.iterdir()) == own
    perform(job, lambda job: pytest.fail("it is made"))
    other = made(make_job(tmp_path, number=2), a="3")
    assert other.path != job.path
    assert (job.folder / "latest").resolve() == other.path
    # Back to the first settings: what is there is taken, and `latest` names it.
    perform(make_job(tmp_path), lambda job: pytest.fail("it is there"))
    assert (job.folder / "latest").resolve() == job.path
    assert (job.path / "a").read_text() == "1"


def test_what_an_archive_left_out_is_named_made_again_and_compared(tmp_path):
    job = made(make_job(tmp_path), a="1", sub__b="2")
    manifest = (job.path / MANIFEST).read_bytes()

    def leave_out():
        (job.path / "sub" / "b").unlink()
        (job.path / LEFT_OUT).write_text('["sub/b"]')

    leave_out()
    verify(job.path)
    for path in (job.path / "sub" / "b", job.path / "sub", job.path):
        with pytest.raises(UserError, match=r"b: is not in the archive .*; `pcqc first STUDY`"):
            checked(path)
    made(make_job(tmp_path), a="1", sub__b="2")
    assert (job.path / "sub" / "b").read_text() == "2"
    assert (job.path / MANIFEST).read_bytes() == manifest
    assert {p.name for p in job.folder.iterdir() if not p.name.endswith(".lock")} <= {
        *(job.path.name, "latest")
    }
    assert not (job.path / LEFT_OUT).exists()
    perform(job, lambda job: pytest.fail("it is whole"))
    leave_out()
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"b: made again it has other bytes .*, or move .* away"
        ):
            made(make_job(tmp_path), a="1", sub__b="3")
        assert not (job.path / "sub" / "b").exists()
    made(make_job(tmp_path), a="1", sub__b="2")  # as on the machine where it was archived
    verify(job.path)
    assert (job.path / "sub" / "b").read_text() == "2"


def test_the_remedy_is_the_command_that_makes_what_is_missing():
    for folder, command in {
        "runs/pcqc/A": "`make results STUDY=mine`",
        "peers": "`snakemake --cores all peers --config study=mine`",
        "lost_points/grpo/A": "`snakemake --cores all lost_points --config study=mine`",
    }.items():
        with pytest.raises(UserError, match=re.escape(command)):
            read_manifest(Path("results/mine") / folder / "3f9c1a2b")


def test_a_kill_while_what_was_left_out_is_moved_loses_nothing(tmp_path, monkeypatch):
    job = made(make_job(tmp_path), a="1", sub__b="2", sub__c="3")
    before = digests(job.path)
    for name in "bc":
        (job.path / "sub" / name).unlink()
    (job.path / LEFT_OUT).write_text('["sub/b", "sub/c"]')
    moved = os.replace

    def killed_at_c(source, target):
        if Path(target) == job.path / "sub" / "c":
            raise KeyboardInterrupt
        moved(source, target)

    monkeypatch.setattr(os, "replace", killed_at_c)
    with pytest.raises(KeyboardInterrupt):
        made(make_job(tmp_path), a="1", sub__b="2", sub__c="3")
    monkeypatch.undo()
    assert (job.path / "sub" / "b").exists()
    perform(make_job(tmp_path), lambda job: pytest.fail("it was made again already"))
    assert digests(job.path) == before
    assert not list(job.folder.glob(".again*"))


def test_an_unfinished_result_is_not_read_and_goes_on(tmp_path):
    job = make_job(tmp_path)

    def stopped(job):
        (job.path / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(job, stopped)
    with pytest.raises(UserError, match="is not finished"):
        checked(job.path / "half")
    begun = (job.path / "state" / "begun.json").read_text()
    (job.path / "state" / "step").write_text("z")
    made(job, rest="y")
    manifest = read_manifest(job.path)
    assert set(manifest["files"]) == {"half", "rest"}
    assert manifest["begun"] == json.loads(begun)["begun"]
    # What it could go on from stays until a later start has seen the result accepted.
    assert (job.path / "state" / "step").exists()
    perform(job, lambda job: pytest.fail("it is made"))
    assert not (job.path / "state").exists()


def test_a_job_that_is_refused_leaves_nothing(tmp_path):
    job = make_job(tmp_path)

    def refused(job):
        raise UserError("no input")

    with pytest.raises(UserError, match="no input"):
        perform(job, refused)
    assert not job.path.exists()


def test_folders_of_other_names_are_nobodys_result(tmp_path):
    """A backup, or what a version of another layout left."""
    job = made(make_job(tmp_path), a="1")
    for name in ("aside", "checkpoints", f"{job.path.name}.old"):
        shutil.copytree(job.path, job.folder / name)
        (job.folder / name / "manifest.json").write_text("{}")
    (job.folder / "manifest.json").write_text("{}")
    made(make_job(tmp_path, number=2), a="2")


DAMAGES = damage.DAMAGES | {
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "swapped": lambda path: (
        path.rename(path.with_name("aside")),
        path.with_name("b").rename(path),
        path.with_name("aside").rename(path.with_name("b")),
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(
    "check",
    [
        checked,
        lambda path: checked(path.parent),
        lambda path: checked(path.parents[1] / "latest" / path.name),
        lambda path: read_manifest(path.parents[1] / "latest") and checked(path),
        None,
    ],
)
def test_a_damaged_file_is_refused_by_whoever_reads_it_and_by_the_workflow(tmp_path, how, check):
    job = made(make_job(tmp_path), a="12", b="34")
    DAMAGES[how](job.path / "a")
    with pytest.raises(UserError, match=rf"/a: (altered|missing).*; move {job.path} away and"):
        check(job.path / "a") if check else verify(job.path)
    shutil.move(job.path, tmp_path / "aside")
    made(make_job(tmp_path), a="12", b="34")
    checked(job.path)


def test_a_file_that_no_job_wrote_is_not_read(tmp_path):
    job = made(make_job(tmp_path), a="1")
    (job.path / "mine").write_text("2")
    with pytest.raises(UserError, match="mine: altered since it was written"):
        checked(job.path / "mine")
    verify(job.path)  # it stands in nobody's way


def exchange(job: Job, other: Job) -> None:
    """Exchange the manifests of two results."""
    texts = [each.manifest.read_text() for each in (job, other)]
    for each, text in zip((other, job), texts, strict=True):
        each.manifest.write_text(text)


def set_number(job: Job, other: Job) -> None:
    job.manifest.write_text(job.manifest.read_text().replace('"count": 1', '"count": 2'))


MANIFESTS = {
    "altered": (set_number, "altered since it was written"),
    "of a sibling": (exchange, "is of another result"),
    "cut": (lambda job, _: job.manifest.write_text(job.manifest.read_text()[:99]), "not JSON"),
    "{}": (lambda job, _: job.manifest.write_text("{}"), "altered since it was written"),
    "a list": (lambda job, _: job.manifest.write_text("[]"), "dictionary"),
}


@pytest.mark.parametrize("how", MANIFESTS)
def test_a_damaged_manifest_is_one_line(tmp_path, how):
    job, other = made(make_job(tmp_path), a="1"), made(make_job(tmp_path, number=2), a="1")
    damage, words = MANIFESTS[how]
    damage(job, other)
    for read in (lambda: checked(job.path / "a"), lambda: verify(job.path)):
        with pytest.raises(UserError, match=words) as refused:
            read()
        assert "\n" not in str(refused.value)
        assert f"move {job.path} away and run the workflow again" in str(refused.value)


@pytest.fixture
def edit(monkeypatch):
    """Pretends that a module was edited."""

    def edited(module):
        original = fingerprint.module_digests

        def digests(*modules, **which):
            known = original(*modules, **which)
            return {**known, module: "0"} if module in known else known

        monkeypatch.setattr(fingerprint, "module_digests", digests)

    return edited


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A study whose every job is made by hand."""
    monkeypatch.chdir(tmp_path)
    study = small_study(tmp_path, continuation=None)
    finish_all(study)
    return study


def to_do(study) -> dict[str, list[str]]:
    return {job.name: why(job) for job in Jobs(study).all() if not job.manifest.exists()}


def test_an_accepted_edit_keeps_the_paths_of_a_run_and_of_all_after_it(small, edit, monkeypatch):
    def paths():
        return {job.name: job.path for job in Jobs(small).run("pcqc", "A")}

    before, unedited = paths(), fingerprint.module_digests
    edit("pcqc.jobs.select")
    again = to_do(small)
    assert again["select pcqc A"] == ["module pcqc.jobs.select changed"]
    assert {"select shared_sft A", "evaluate pcqc A", "mirror pcqc", "report"} <= again.keys()
    assert "train pcqc A" not in again
    accept(small, "pcqc", "A", "a message")
    assert paths() == before
    assert "evaluate pcqc A" not in to_do(small)
    (note,) = read_manifest(before["select pcqc A"])["also_for"].values()
    assert "a message (module pcqc.jobs.select changed)" in note
    # What the run stands on is accepted with it.
    edit("pcqc.jobs.sft")
    assert {"sft", "train pcqc A"} <= to_do(small).keys()
    accept(small, "pcqc", "A", "a message")
    assert not {"sft", "train pcqc A", "evaluate pcqc A"} & to_do(small).keys()
    # Another edit is another matter, and another setting is never accepted.
    edit("pcqc.evaluation.predictions")
    assert "evaluate pcqc A" in to_do(small)
    other = replace(small, rl=replace(small.rl, learning_rate=0.1))
    with pytest.raises(UserError, match=r"setting rl.learning_rate: 0.001 -> 0.1.*run it again"):
        accept(other, "pcqc", "A", "a message")
    # The edits taken back, every path is the old one.
    monkeypatch.setattr(fingerprint, "module_digests", unedited)
    assert paths() == before
    assert to_do(small) == {}


def test_a_setting_that_came_later_had_its_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = small_study(tmp_path, continuation=None)
    finish_all(study)
    assert "level_after" not in Jobs(study).job("train", "pcqc", "A").fingerprint.settings["rl"]
    changed = replace(study, rl=replace(study.rl, level_after=2))
    with pytest.raises(UserError, match=r"setting rl.level_after: 0 -> 2.*run it again"):
        accept(changed, "pcqc", "A", "a message")
    assert to_do(study) == {}


def test_an_edit_leaves_the_old_results_and_what_it_made_is_cleaned_away_alone(small):
    old = {job.path for job in Jobs(small).all()}
    other = replace(small, rl=replace(small.rl, learning_rate=0.1))
    made = [job for job in Jobs(other).all() if not job.manifest.exists()]
    for job in made:
        begin(job)
        finish(job, {})
    assert {"train pcqc A", "evaluate pcqc A", "report"} <= {job.name for job in made}
    assert to_do(small) == {}
    dated = small.results / "runs" / "20240101"  # a method's name, with two results
    for name in ("3f9c1a2b", "77aa01cd"):
        (dated / "A" / name).mkdir(parents=True)
    assert [r.path.name for r in outdated(small) if dated in [r.path, *r.path.parents]] == [
        "3f9c1a2b",
        "77aa01cd",
    ]
    shutil.rmtree(dated)
    earlier = outdated(small)
    assert [result.path for result in earlier] == sorted(job.path for job in made)
    assert f"{len(made)} results of earlier fingerprints" in listing(earlier)
    # Before the user has agreed, a job goes on with one of them.
    begun = next(job for job in made if job.path == earlier[0].path)
    with hold_folder(begun), pytest.raises(UserError, match="is already under way"):
        remove(earlier)
    assert begun.manifest.exists()
    remove(earlier)
    assert outdated(small) == []
    assert all(path.is_dir() for path in old)


def test_an_altered_result_is_not_accepted(small, edit):
    path = Jobs(small).job("train", "pcqc", "A").path / "events.jsonl"
    path.write_text("{}\n")
    finish_job(small, "train", "pcqc", "A")
    edit("pcqc.methods.grpo")
    path.write_text("[]\n")
    with pytest.raises(UserError, match=r"events\.jsonl: altered"):
        accept(small, "pcqc", "A", "a message")


def test_two_processes_never_write_one_folder(tmp_path):
    """The lock is of an open file, so that one process stands for two."""
    with hold_folder(make_job(tmp_path)):
        with pytest.raises(UserError, match="`pcqc first` is already under way"):
            made(make_job(tmp_path), a="1")
        made(make_job(tmp_path, number=2), a="1")  # another folder
    made(make_job(tmp_path), a="1")


@pytest.mark.parametrize(("call", "path"), [("touch", ".made"), ("symlink_to", "latest")])
def test_a_disk_that_takes_no_marker_or_link_is_told(small, monkeypatch, call, path):
    job = Jobs(small).job("train", "pcqc", "A")
    (job.folder / "latest").unlink()

    def refused(*given, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, call, refused)
    with pytest.raises(UserError, match=f"cannot write .*{path}: .*read-only: choose another"):
        mark(job) if call == "touch" else make_latest(job)


def test_nothing_is_accepted_without_a_reason(small):
    with pytest.raises(UserError, match="--because: empty"):
        accept(small, "pcqc", "A", " ")
