"""What is finished outlives an edit, is explained and accepted; what was altered is refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from damage import DAMAGES, follow, swap
from helpers import SECRETS
from small_runs import Killed, digests, small_study

from pcqc.errors import UserError
from pcqc.jobs import rl_loop
from pcqc.jobs.evaluate import run_evaluation
from pcqc.jobs.explain import accept, explain
from pcqc.jobs.select import run_selection
from pcqc.study import provenance
from pcqc.study.superseded import chosen, listing, remove, superseded
from pcqc.system.files import read_json

METHOD, RUN = "pcqc", "A"


def make_study(folder):
    return small_study(folder, continuation=None)


ROOT = Path("results/small")
FOLDER = ROOT / "runs" / METHOD / RUN
EVALUATION = ROOT / "evaluation" / METHOD / RUN
KEPT = ("validation/*", "candidate_groups.jsonl", "checkpoints/*/*")


@pytest.fixture
def done(study, finished):
    """The study with its finished run."""
    shutil.rmtree("results")
    shutil.copytree(finished, ROOT)
    return study


def with_rate(study, rate):
    return dataclasses.replace(study, rl=dataclasses.replace(study.rl, learning_rate=rate))


@pytest.fixture
def edit(monkeypatch):
    """Pretends that a module was edited."""

    def edited(module):
        found = provenance.module_digests

        def digests(*modules, unused=()):
            known = found(*modules, unused=unused)
            return {**known, module: "0"} if module in known else known

        monkeypatch.setattr(provenance, "module_digests", digests)

    return edited


def make(study):
    rl_loop.run_training(study, METHOD, RUN)
    run_selection(study, METHOD, RUN)
    run_evaluation(study, METHOD, RUN)


def test_a_finished_run_is_not_made_again_and_its_manifest_comes_back(done, monkeypatch):
    before = digests(ROOT, "runs/**/*", "evaluation/**/*.json*")
    monkeypatch.setattr(rl_loop, "Run", None)  # nothing is trained
    for manifest in (FOLDER / "manifest.json", EVALUATION / "manifest.json"):
        manifest.unlink()
    (EVALUATION / "selection.json").unlink()
    make(done)
    assert digests(ROOT, "runs/**/*", "evaluation/**/*.json*") == before


def test_no_manifest_and_no_record_holds_the_password_of_mlflow(finished):
    """The run was made with one in the address."""
    files = [path for path in finished.rglob("*") if path.is_file()]
    assert finished / "runs/pcqc/A/manifest.json" in files
    for path in files:
        assert not [secret for secret in SECRETS if secret in path.read_bytes()], path


def test_what_other_settings_made_is_set_aside_and_comes_back_with_them(done):
    before = digests(FOLDER, "*", *KEPT)
    other = with_rate(done, 0.002)
    (FOLDER / "manifest.json").unlink()  # as Snakemake does before a rerun
    rl_loop.run_training(other, METHOD, RUN)
    assert digests(FOLDER, *KEPT) != {
        k: v for k, v in before.items() if k in digests(FOLDER, *KEPT)
    }
    (entry,) = superseded(ROOT)
    assert entry.path.name.endswith("-runs-pcqc-A-setting-rl.learning_rate")
    assert (entry.what, entry.job) == ("runs/pcqc/A", "train pcqc A")
    assert entry.why == ["setting rl.learning_rate: 0.001 -> 0.002"]
    assert entry.finished
    assert digests(entry.path / "runs/pcqc/A", "*", *KEPT) == before
    rl_loop.run_training(done, METHOD, RUN)
    assert digests(FOLDER, "*", *KEPT) == before
    (entry,) = superseded(ROOT)
    assert entry.why == ["setting rl.learning_rate: 0.002 -> 0.001"]


def test_superseded_results_are_listed_and_removed_by_name(done):
    other = with_rate(done, 0.002)
    run_evaluation(dataclasses.replace(done, evaluation_seed=7), METHOD, RUN)
    (entry,) = superseded(ROOT)
    assert entry.what == "evaluation/pcqc/A"
    assert (entry.path / "evaluation/pcqc/A/selection.json").exists()
    assert (EVALUATION / "selection.json").exists()
    text = listing([entry])
    assert "setting evaluation_seed: 0 -> 7" in text
    assert text.endswith("KiB")
    with pytest.raises(UserError, match="no superseded result 'x'"):
        chosen([entry], ["x"])
    remove(chosen([entry], [entry.path.name]))
    assert superseded(ROOT) == []
    assert other != done


def test_another_choice_of_checkpoint_sets_the_evaluation_aside(done, monkeypatch):
    manifest = read_json(FOLDER / "manifest.json")
    best = read_json(EVALUATION / "selection.json")["selected"]["update"]
    assert best in [one["update"] for one in manifest["checkpoints"]]
    monkeypatch.setattr("pcqc.evaluation.selection.CRITERION", "another")
    monkeypatch.setitem(provenance.SETTINGS_READ, "select", ("benchmarks", "title"))
    run_selection(done, METHOD, RUN)
    (entry,) = superseded(ROOT)
    assert entry.why == ["another choice of checkpoint"]
    assert (entry.path / "evaluation/pcqc/A/clinic_dev.parquet").exists()
    assert sorted(p.name for p in EVALUATION.iterdir()) == [
        "selection.json",
        "selection.receipt.json",
    ]


def test_explain_names_settings_modules_and_inputs(done, edit):
    assert explain(done, METHOD, RUN).endswith("nothing would run again")
    said = explain(with_rate(done, 0.002), METHOD, RUN)
    assert "training would run again: setting rl.learning_rate: 0.001 -> 0.002" in said
    assert "evaluation would run again: " in said
    edit("pcqc.jobs.evaluate")
    said = explain(done, METHOD, RUN)
    assert "training" not in said
    assert "evaluation would run again: module pcqc.jobs.evaluate changed" in said
    with pytest.raises(UserError, match="has no grpo run A yet"):
        explain(done, "grpo", "A")


def test_an_accepted_run_stands_and_says_why(done, edit, monkeypatch):
    edit("pcqc.errors")
    assert "training would run again: module pcqc.errors changed" in explain(done, METHOD, RUN)
    age = (FOLDER / "manifest.json").stat().st_mtime_ns
    accept(done, METHOD, RUN, "a message")
    said = explain(done, METHOD, RUN)
    assert said.endswith("nothing would run again")
    assert ": a message" in said
    (entry,) = read_json(FOLDER / "manifest.json")["accepted"]
    assert (entry["because"], entry["changes"]) == ("a message", ["module pcqc.errors changed"])
    assert (FOLDER / "manifest.json").stat().st_mtime_ns == age
    (entry,) = read_json(EVALUATION / "manifest.json")["accepted"]
    assert entry["because"] == "a message"
    assert "training accepted: module pcqc.errors changed" in entry["changes"]
    before = digests(ROOT, "runs/**/*", "evaluation/**/*")
    monkeypatch.setattr(rl_loop, "Run", None)
    make(done)
    assert digests(ROOT, "runs/**/*", "evaluation/**/*") == before
    assert superseded(ROOT) == []
    # Another edit is another matter.
    edit("pcqc.system.files")
    assert "training would run again" in explain(done, METHOD, RUN)
    with pytest.raises(UserError, match="say why"):
        accept(done, METHOD, RUN, " ")
    # All or nothing: the run's training is not accepted where its evaluation is missing.
    (EVALUATION / "manifest.json").rename(EVALUATION / "aside")
    before = digests(ROOT, "runs/**/*", "models/*.json")
    with pytest.raises(UserError, match="missing; only what is made can be accepted"):
        accept(done, METHOD, RUN, "another message")
    assert digests(ROOT, "runs/**/*", "models/*.json") == before


def delete_line(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 8] ^= 1  # before what a killed run had not saved
    path.write_bytes(content)


# File that is altered -> who reads it, and what is removed to have it read.
READERS = {
    "runs/pcqc/A/manifest.json": (run_selection, "evaluation/pcqc/A/selection.receipt.json"),
    "evaluation/pcqc/A/selection.json": (run_evaluation, "evaluation/pcqc/A/receipt.json"),
    "data/clinic_dev.jsonl": (run_evaluation, "evaluation/pcqc/A/receipt.json"),
    "data/train.jsonl": (rl_loop.run_training, "runs/pcqc/A/receipt.json"),
    "data/manifest.json": (run_evaluation, "evaluation/pcqc/A/receipt.json"),
    "models/patient/manifest.json": (run_evaluation, "evaluation/pcqc/A/receipt.json"),
}


@pytest.mark.parametrize("how", ["{}", "[]", "a line", "a byte", "missing"])
@pytest.mark.parametrize("name", READERS)
def test_an_altered_file_is_refused_by_whoever_reads_it(done, name, how):
    job, removed = READERS[name]
    (ROOT / removed).unlink()
    path = ROOT / name
    if how == "missing":
        path.unlink()
    elif how in ("{}", "[]"):
        path.write_text(how)
    else:
        (delete_line if how == "a line" else flip)(path)
    before = digests(ROOT, "**/*")
    with pytest.raises(UserError, match=str(path.parent)) as refused:
        job(done, METHOD, RUN)
    assert "\n" not in str(refused.value)
    assert digests(ROOT, "**/*") == before


@pytest.fixture(scope="module")
def killed(prepared, tmp_path_factory):
    """Results in which the run was killed after its third update; its state is of the second."""
    folder, keep = tmp_path_factory.mktemp("killed"), rl_loop.Run._record

    def killing(self, update, *arguments):
        keep(self, update, *arguments)
        if update == 3:
            raise Killed

    shutil.copytree(prepared / "results", folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(rl_loop.Run, "_record", killing)
        with pytest.raises(Killed):
            rl_loop.run_training(make_study(folder), METHOD, RUN)
    return folder / "results" / "small"


@pytest.fixture
def half(study, killed):
    """The study with the run that was killed."""
    shutil.rmtree("results")
    shutil.copytree(killed, ROOT)
    return study


@pytest.mark.parametrize(
    "name",
    [
        "events.jsonl",
        "candidate_groups.jsonl",
        "consultations.jsonl",
        "validation/000002.json",
        "validation/000002.parquet",
        "checkpoints/000002/manifest.json",
    ],
)
@pytest.mark.parametrize("how", ["{}", "a line", "a byte", "missing", "doubled"])
def test_a_run_does_not_go_on_from_an_altered_record(half, name, how):
    path = FOLDER / name
    if how == "{}":
        path.write_text(how)
    elif how == "missing":
        path.unlink()
    elif how == "doubled":
        first, *rest = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([first, first, *rest]))
    else:
        (delete_line if how == "a line" else flip)(path)
    with pytest.raises(UserError, match=rf"{name}: (altered|missing).* move {FOLDER} away"):
        rl_loop.run_training(half, METHOD, RUN)


def trained(study):
    """Train the run on; the error line, empty where it ends well."""
    try:
        rl_loop.run_training(study, METHOD, RUN)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("how", [*DAMAGES, "swapped"])
def test_any_damaged_file_of_a_killed_run_is_refused_or_changes_nothing(half, finished, how):
    """What the line says, done to the letter, leads to the run that was never killed.

    Each file meets two of the six damages: all would take minutes.
    """
    files = [p for p in sorted(FOLDER.rglob("*")) if p.is_file()]
    expected, refused = digests(finished / "runs" / METHOD / RUN, *KEPT), 0
    mine = files[[*DAMAGES, "swapped"].index(how) % 3 :: 3]
    for path in mine:
        other = next((p for p in files if p.suffix == path.suffix and p != path), None)
        if how == "swapped" and other is None:
            continue
        shutil.copytree(ROOT, "kept")
        swap(path, other) if how == "swapped" else DAMAGES[how](path)
        line = trained(half)
        assert "\n" not in line
        if line:
            refused += 1
            assert list(follow(line, Path(), Path("aside"))), line
        if not line or refused % 4 == 1:  # the remedies are few
            assert (line and trained(half)) == ""
            assert digests(FOLDER, *KEPT) == expected, (path, line)
        shutil.rmtree(ROOT)
        shutil.move("kept", ROOT)
    assert refused > len(mine) / 2


def test_foreign_files_beside_a_runs_own_change_nothing(half, finished):
    for name in ("validation/notes.json", "validation/000004.json", "state/.DS_Store"):
        (FOLDER / name).write_text("{}")
    (state,) = (p for p in (FOLDER / "state").iterdir() if p.is_dir())
    (state / "step-backup").mkdir()
    rl_loop.run_training(half, METHOD, RUN)
    (FOLDER / "validation" / "notes.json").unlink()
    assert digests(FOLDER, *KEPT) == digests(finished / "runs" / METHOD / RUN, *KEPT)


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": []}', "null", "{"])
@pytest.mark.parametrize("name", ["manifest.json", "cursor.json"])
def test_a_damaged_state_is_one_line(half, name, content):
    (path,) = (FOLDER / "state").glob(f"*/step-*/{name}")
    path.write_text(content)
    with pytest.raises(UserError, match=f"{name}.*; move .* away and run the workflow again"):
        rl_loop.run_training(half, METHOD, RUN)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"digest": 1}'])
def test_a_damaged_receipt_is_one_line_whose_remedy_loses_nothing(done, finished, content):
    receipt = FOLDER / "receipt.json"
    receipt.write_text(content)
    (EVALUATION / "selection.receipt.json").unlink()
    with pytest.raises(UserError, match=r"receipt\.json.* remove .* and run the workflow again"):
        run_selection(done, METHOD, RUN)
    before = digests(finished / "runs" / METHOD / RUN, *KEPT, "events.jsonl")
    receipt.unlink()
    (FOLDER / "manifest.json").unlink()
    make(done)
    assert digests(FOLDER, *KEPT, "events.jsonl") == before
    assert json.loads(receipt.read_text())["outputs"]
