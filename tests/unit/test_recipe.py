"""Recipes follow what settings, source and inputs mean; manifests vouch for every file."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hand_made import finish_job
from small_runs import small_study

from pcqc.errors import UserError
from pcqc.jobs.explain import accept, why
from pcqc.jobs.run import perform
from pcqc.results import recipe
from pcqc.results.graph import Jobs
from pcqc.results.job_inputs import rollouts
from pcqc.results.manifest import checked, read_manifest, verify
from pcqc.results.recipe import Job, Recipe, module_digests
from pcqc.study import load_study
from pcqc.study.method import method_module

PLAIN = """import os
from a import b
from a import c


def f(x):
    for i in range(3):
        x += i
    return x
"""
SAME = {
    "a comment": PLAIN.replace("    return x", "    # done\n    return x  # here"),
    "docstrings": PLAIN.replace("import os", '"""Module."""\nimport os').replace(
        "    for", '    """What it does."""\n    for'
    ),
    "formatting": PLAIN.replace("range(3)", "range(\n        3,\n    )").replace("x += i", "x+=i"),
    "the order of imports": PLAIN.replace("import os\n", "").replace("def", "import os\n\n\ndef"),
    "imports in one line": PLAIN.replace("from a import b\nfrom a import c", "from a import c, b"),
    "an import for types": PLAIN.replace(
        "\n\n\ndef", "\nif TYPE_CHECKING:\n    from toy.b import g\n\n\ndef"
    ),
}
OTHER = {
    "a constant": PLAIN.replace("range(3)", "range(4)"),
    "a string": PLAIN.replace("return x", "return 'x'"),
    "an import": PLAIN.replace("import b", "import d"),
    "a statement": PLAIN.replace("    return x", "    x -= 1\n    return x"),
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `toy`: a imports b inside a function; c stands alone."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("def f():\n    from toy.b import g\n    return g\n")
    (folder / "b.py").write_text("def g(): pass\n")
    (folder / "c.py").write_text(PLAIN)
    monkeypatch.setattr(recipe, "_PACKAGES", {"toy": folder})

    def digests():
        forget_source()
        return {name: module_digests(f"toy.{name}") for name in "abc"}

    yield folder, digests
    forget_source()


def forget_source():
    recipe._file.cache_clear()
    recipe._read.cache_clear()
    recipe._others.cache_clear()
    recipe._only_lists.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changed"), [("a", "a"), ("b", "ab"), ("c", "c"), ("__init__", "abc")]
)
def test_an_edit_changes_what_reaches_the_module(package, edited, changed):
    folder, digests = package
    before, path = digests(), folder / f"{edited}.py"
    text = path.read_text()
    path.write_text(text + "EDITED = 1\n")
    after = digests()
    assert {name for name in "abc" if before[name] != after[name]} == set(changed)
    path.write_text(text)
    assert digests() == before


@pytest.mark.parametrize("kind", SAME)
def test_what_means_the_same_has_the_same_digest(package, kind):
    folder, digests = package
    before = digests()
    assert SAME[kind] != PLAIN
    (folder / "c.py").write_text(SAME[kind])
    assert digests() == before


@pytest.mark.parametrize("kind", OTHER)
def test_what_means_something_else_has_another_digest(package, kind):
    folder, digests = package
    before = digests()
    assert OTHER[kind] != PLAIN
    (folder / "c.py").write_text(OTHER[kind])
    assert digests()["c"] != before["c"]


def test_changes_are_named_by_setting_module_and_input():
    before = Recipe("job", {"rl": {"rate": 0.1, "old": 1}}, {"m": "1", "gone": "2"}, {"x": "3"})
    after = Recipe("job", {"rl": {"rate": 0.2, "old": 1}}, {"m": "0", "new": "2"}, {"x": "4"})
    assert before.changes(before) == []
    assert before.changes(after) == [
        "setting rl.rate: 0.1 -> 0.2",
        "module gone is no longer read",
        "module m changed",
        "module new is new",
        "input x changed",
    ]


def recipes(study) -> dict[str, str]:
    return {job.name: job.recipe.short for job in Jobs(study).all()}


def changed(study, other) -> set[str]:
    """Jobs of `study` whose recipe is another one in `other`."""
    before, after = recipes(study), recipes(other)
    return {name for name in before if before[name] != after[name]}


def of(method: str, runs: str, *kinds: str) -> set[str]:
    return {f"{kind} {method} {run}" for run in runs for kind in kinds}


END = {"collect", "report", "publish"}
RUN = ("train", "select", "evaluate")


@pytest.fixture(scope="module")
def clinic():
    return load_study("clinic")


def with_method(study, name, **changes):
    methods = {**study.methods, name: replace(study.methods[name], **changes)}
    return replace(study, methods=methods)


def test_a_setting_changes_just_the_jobs_that_are_told_it_and_those_after(clinic):
    grpo = "".join(clinic.method("grpo").runs)
    mine = of("grpo", grpo, *RUN) | {"mirror grpo"} | END
    assert changed(clinic, with_method(clinic, "grpo", kl_coefficient=0.5)) == mine
    assert changed(clinic, with_method(clinic, "grpo", title="G")) == {"mirror grpo"} | END
    run = with_method(clinic, "grpo", runs=(*clinic.method("grpo").runs, "Z"))
    assert changed(clinic, replace(run, runs={**clinic.runs, "Z": 99})) == {"mirror grpo"} | END
    every = recipes(clinic).keys()
    rate = replace(clinic, rl=replace(clinic.rl, learning_rate=0.1))
    assert changed(clinic, rate) == every - {"clinic", "base", "sft"} - of(
        "shared_sft", "A", "select", "evaluate", "continuation", "grounding"
    ) - {"mirror shared_sft"}
    sampling = replace(clinic, patient_decoding=replace(clinic.patient_decoding, top_p=0.5))
    assert not changed(clinic, sampling) & {"clinic", "base", "sft"}
    assert changed(clinic, sampling) >= of("shared_sft", "A", "evaluate")
    assert changed(clinic, replace(clinic, title="Another")) == {"report", "publish"}
    assert changed(clinic, replace(clinic, name="another")) <= END | {
        f"mirror {name}" for name in clinic.methods
    }


def test_jobs_that_are_told_the_same_have_recipes_of_their_own(clinic):
    """Else a folder that was exchanged with the other's would be taken for it."""
    names = list(recipes(clinic).values())
    assert len(set(names)) == len(names)


def test_where_a_job_runs_changes_none(clinic):
    placed = load_study("clinic-mini-engines")
    assert placed.placement
    unplaced = replace(placed, placement=None)
    assert changed(placed, unplaced) <= {"report", "publish"}


@pytest.fixture
def edit(monkeypatch):
    """Pretends that a module was edited."""

    def edited(module):
        original = recipe.module_digests

        def digests(*modules, unused=()):
            known = original(*modules, unused=unused)
            return {**known, module: "0"} if module in known else known

        monkeypatch.setattr(recipe, "module_digests", digests)

    return edited


ENTERED = {
    "grpo": set(),
    "atpo": {"turn_credit.tree"},
    "pcqc": {"pcqc.methods.pcqc"},
    "gigpo": {"pcqc.methods.turn_credit", "turn_credit.turns", "turn_credit.tree"},
    "c3": {"pcqc.methods.pcqc"},
    "expected_answer": {"pcqc.methods.pcqc", "pcqc.clinic.expected"},
}


@pytest.mark.parametrize("method", ENTERED)
def test_a_run_depends_on_the_modules_that_it_enters(clinic, method):
    modules = Jobs(clinic).job("train", method, "A").recipe.modules
    assert {"pcqc.jobs.rl_loop", "pcqc.methods.base", "pcqc.methods.sequences"} <= modules.keys()
    assert set().union(*ENTERED.values()) & modules.keys() == ENTERED[method]
    # An edited table or mirror must not retrain anything.
    outside = ("analysis.", "data_prep.", "pcqc.cli.", "pcqc.tracking.mirror_runs", "pcqc.study.")
    assert not any(f"{module}.".startswith(outside) for module in modules)


def test_an_edit_changes_the_jobs_that_reach_it_and_those_after(clinic, edit):
    before = recipes(clinic)
    edit("pcqc.methods.pcqc")
    after = recipes(clinic)
    runs = {name for name in before if name.startswith("train ") and before[name] != after[name]}
    with_questions = [
        n
        for n, m in clinic.methods.items()
        if "pcqc.methods.pcqc" in module_digests(method_module(m.method))
    ]
    assert {name.split()[1] for name in runs} == {
        n for n in with_questions if f"train {n} A" in before
    }
    assert before["base"] == after["base"]
    assert before["evaluate shared_sft A"] == after["evaluate shared_sft A"]


def test_the_number_format_of_a_frozen_role_is_told_to_the_jobs_that_ask_it():
    study = load_study("real")
    scorer = replace(study.models.scorer or study.models.actor, dtype="float32")
    other = replace(study, models=replace(study.models, scorer=scorer))
    told, told_other = (Jobs(each).job("sft").settings for each in (study, other))
    assert told == told_other
    told, told_other = (rollouts(each) for each in (study, other))
    assert told != told_other


def test_inputs_are_told_apart_by_content(tmp_path):
    path = tmp_path / "a"
    names = []
    for text in ("x", "y", "x"):
        path.write_text(text)
        names.append(make_job(tmp_path, raw=path).recipe.short)
    assert names[0] == names[2] != names[1]


@dataclass(frozen=True)
class Told:
    number: int = 1


def make_job(root: Path, kind: str = "first", number: int = 1, **inputs) -> Job:
    return Job(kind, (), root / kind, Told(number), ("pcqc.jobs.clinic",), inputs)


def made(job: Job, **texts: str) -> Job:
    """The job, done: files with their texts."""

    def work():
        for name, text in texts.items():
            path = job.path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return {"count": len(texts)}

    perform(job, work)
    return job


def test_a_finished_result_has_a_manifest_and_is_never_written_again(tmp_path):
    job = made(make_job(tmp_path), a="1", sub__b="2")
    manifest = read_manifest(job.path)
    assert set(manifest["files"]) == {"a", "sub/b"}
    assert (manifest["count"], manifest["recipe"]["job"]) == (2, "first")
    assert manifest["machine"]["torch"]
    assert (job.folder / "latest").resolve() == job.path
    assert sorted(path.name for path in job.path.iterdir()) == ["a", "manifest.json", "sub"]
    perform(job, lambda: pytest.fail("it is made"))
    other = made(make_job(tmp_path, number=2), a="3")
    assert other.path != job.path
    assert (job.folder / "latest").resolve() == other.path
    # Back to the first settings: what is there is taken, and `latest` names it.
    perform(make_job(tmp_path), lambda: pytest.fail("it is there"))
    assert (job.folder / "latest").resolve() == job.path
    assert (job.path / "a").read_text() == "1"


def test_an_unfinished_result_is_not_read_and_goes_on(tmp_path):
    job = make_job(tmp_path)

    def stopped():
        (job.path / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(job, stopped)
    with pytest.raises(UserError, match="is not finished"):
        checked(job.path / "half")
    begun = (job.path / "state" / "begun.json").read_text()
    made(job, rest="y")
    manifest = read_manifest(job.path)
    assert set(manifest["files"]) == {"half", "rest"}
    assert manifest["begun"] == json.loads(begun)["begun"]
    assert not (job.path / "state").exists()


def test_a_job_that_is_refused_leaves_nothing(tmp_path):
    job = make_job(tmp_path)

    def refused():
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


def test_what_a_workflow_did_not_plan_is_refused(tmp_path):
    with pytest.raises(UserError, match="settings or source changed since the workflow began"):
        perform(make_job(tmp_path), lambda: pytest.fail("not planned"), recipe="00000000")


DAMAGES = {
    "a byte": lambda path: path.write_bytes(b"\0" + path.read_bytes()[1:]),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "swapped": lambda path: (
        path.rename(path.with_name("aside")),
        path.with_name("b").rename(path),
        path.with_name("aside").rename(path.with_name("b")),
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("check", [checked, lambda path: checked(path.parent), None])
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
    "{}": (lambda job, _: job.manifest.write_text("{}"), "field required"),
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
def small(tmp_path, monkeypatch):
    """A study whose every job is made by hand."""
    monkeypatch.chdir(tmp_path)
    study = small_study(tmp_path, continuation=None)
    for job in Jobs(study).all():
        finish_job(study, job.kind, *job.whose)
    return study


def to_do(study) -> dict[str, list[str]]:
    return {job.name: why(job) for job in Jobs(study).all() if not job.manifest.exists()}


def test_an_accepted_edit_keeps_the_paths_of_a_run_and_of_all_after_it(small, edit):
    def paths():
        return {job.name: job.path for job in Jobs(small).run("pcqc", "A")}

    before = paths()
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
    # Another edit is another matter, and another setting is never accepted.
    edit("pcqc.evaluation.predictions")
    assert "evaluate pcqc A" in to_do(small)
    other = replace(small, rl=replace(small.rl, learning_rate=0.1))
    with pytest.raises(UserError, match=r"setting rl.learning_rate: 0.001 -> 0.1.*run it again"):
        accept(other, "pcqc", "A", "a message")


def test_an_altered_result_is_not_accepted(small, edit):
    path = Jobs(small).job("train", "pcqc", "A").path / "events.jsonl"
    path.write_text("{}\n")
    finish_job(small, "train", "pcqc", "A")
    edit("pcqc.methods.grpo")
    path.write_text("[]\n")
    with pytest.raises(UserError, match=r"events\.jsonl: altered"):
        accept(small, "pcqc", "A", "a message")


HOLD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_recipe import make_job
from pcqc.results.manifest import hold_folder
with hold_folder(make_job(Path({root!r}))):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_never_write_one_folder(tmp_path):
    code = HOLD.format(folder=str(Path(__file__).parent), root=str(tmp_path))
    support = str(Path(__file__).parents[1] / "support")
    path = os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code]
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="`pcqc first` is already under way"):
            made(make_job(tmp_path), a="1")
        made(make_job(tmp_path, number=2), a="1")  # another folder
    finally:
        first.kill()
        first.wait()
    made(make_job(tmp_path), a="1")
