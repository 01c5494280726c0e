"""What is finished outlives an edit; what was altered is refused by whoever reads it."""

import itertools
import shutil
from pathlib import Path

import pytest
from damage import DAMAGES, follow
from digests import digests
from hand_made import folder_of
from helpers import SECRETS, changed
from small_runs import killed_at, small_study

from pcqc.jobs import rl_loop
from pcqc_base.errors import UserError
from pcqc_base.system.manifest import hold_folder
from pcqc_study import fingerprint as fingerprint
from pcqc_study.clean import outdated
from pcqc_study.explain import explain, explained
from pcqc_study.graph import Jobs
from pcqc_study.run_job import run_job

METHOD, RUN = "pcqc", "A"
ROOT = Path("results/small")
FOLDER = ROOT / "runs" / METHOD / RUN
KEPT = ("validation/*", "events.jsonl", "candidate_groups.jsonl", "checkpoints/*/*")


@pytest.fixture
def done(finished, use_results, tmp_path):
    """The study with its finished run."""
    use_results(finished)
    return small_study(tmp_path, continuation=None)


def train(study):
    return run_job(study, "train", METHOD, RUN).path


def test_no_manifest_and_no_record_holds_the_password_of_mlflow(finished):
    """The run was made with one in the address."""
    files = [path for path in finished.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not [secret for secret in SECRETS if secret in path.read_bytes()], path


def listed(study) -> list[str]:
    return [f"{result.path.relative_to(ROOT)} {result.about[:10]}" for result in outdated(study)]


def test_what_no_job_names_is_listed_unless_it_is_under_way(done):
    (FOLDER / "0123abcd").mkdir()
    assert listed(done) == ["runs/pcqc/A/0123abcd unfinished"]
    later = Jobs(changed(done, "rl.learning_rate", 0.002)).job("select", METHOD, RUN)
    later.path.mkdir(parents=True)
    with hold_folder(later):
        assert len(listed(done)) == 1
    assert len(listed(done)) == 2


def test_explain_names_settings_modules_and_inputs(done, monkeypatch):
    assert explained(explain(done, METHOD, RUN)).endswith("nothing would run again")
    text = explained(explain(changed(done, "rl.learning_rate", 0.002), METHOD, RUN))
    assert "train pcqc A would run: setting rl.learning_rate: 0.001 -> 0.002" in text
    assert "evaluate pcqc A would run: input " in text
    original = fingerprint.module_digests
    monkeypatch.setattr(
        fingerprint,
        "module_digests",
        lambda *modules, **which: {
            name: "0" if name == "pcqc.jobs.evaluate" else digest
            for name, digest in original(*modules, **which).items()
        },
    )
    text = explained(explain(done, METHOD, RUN))
    assert "train pcqc A" not in text
    assert "evaluate pcqc A would run: module pcqc.jobs.evaluate changed" in text
    with pytest.raises(UserError, match="has no grpo run A yet"):
        explain(done, "grpo", "A")


# File that is altered -> job that reads it.
READERS = {
    "runs/pcqc/A/latest/manifest.json": "select",
    "selection/pcqc/A/latest/selection.json": "evaluate",
    "data/clinic_dev/latest/clinic_dev.jsonl": "evaluate",
    "data/train/latest/train.jsonl": "train",
    "data/clinic/world/latest/world.json": "train",
    "models/sft/latest/patient/manifest.json": "evaluate",
    "models/sft/latest/actor/model.safetensors": "train",
    "models/sft/latest/manifest.json": "evaluate",
}


@pytest.mark.parametrize("name", READERS)
def test_an_altered_file_is_refused_by_whoever_reads_it(done, name):
    kind, path = READERS[name], ROOT / name
    shutil.rmtree(folder_of(done, kind, METHOD, RUN))
    DAMAGES["a byte flipped"](path)
    before = digests(ROOT, "**/*.jsonl", "**/*.json", "**/*.safetensors")
    with pytest.raises(UserError) as refused:
        run_job(done, kind, METHOD, RUN)
    line, folder = str(refused.value), path.parent.resolve()
    assert "\n" not in line
    assert path.name in line or str(path.parent.name) in line
    assert any(str(p) in line for p in (folder.relative_to(Path.cwd()), *folder.parents[:1])), line
    after = digests(ROOT, "**/*.jsonl", "**/*.json", "**/*.safetensors")
    assert {n: d for n, d in after.items() if "/state/" not in n} == before


@pytest.fixture
def half(done):
    """The study with a run that was killed after its third update; its state is of the second."""
    shutil.rmtree(ROOT / "runs")
    with killed_at(rl_loop.Run, "_record", lambda _, update, *__: update == 3, after=True):
        train(done)
    return done


def trained(study):
    """Train the run on; the error line, empty where it ends well."""
    try:
        train(study)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_any_damaged_file_of_a_killed_run_is_refused_or_changes_nothing(half, finished):
    """What the line says, done to the letter, leads to the run that was never killed.

    Each file meets one of the damages: all would take minutes.
    """
    folder = folder_of(half, "train", METHOD, RUN)
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    expected, refused = digests(finished / "runs/pcqc/A/latest", *KEPT), 0
    for path, how in zip(files, itertools.cycle(DAMAGES)):
        shutil.copytree(ROOT, "kept", symlinks=True)
        DAMAGES[how](path)
        line = trained(half)
        assert "\n" not in line
        if line:
            refused += 1
            follow(line, Path(), Path("aside"))
        if not line or refused == 1:  # the remedies are few
            assert (line and trained(half)) == ""
            assert digests(folder, *KEPT) == expected, (path, how, line)
        shutil.rmtree(ROOT)
        shutil.move("kept", ROOT)
    assert refused > len(files) / 2
