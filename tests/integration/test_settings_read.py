"""What a job reads of the settings is what its results are made from: nothing is forgotten."""

import sys
from pathlib import Path

import pytest
from small_runs import small_study

from credit_lab.quality.job import run_credit_quality
from pcqc.clinic import pretrain
from pcqc.jobs.clinic import clinic_judge, run_clinic
from pcqc.jobs.continuation import run_continuation
from pcqc.jobs.evaluate import run_evaluation
from pcqc.jobs.grounding import run_grounding
from pcqc.jobs.pretrain import run_pretrain
from pcqc.jobs.rl_loop import run_training
from pcqc.jobs.select import run_selection
from pcqc.jobs.sft import run_sft
from pcqc.study.job_outputs import job_output
from pcqc.study.provenance import SETTINGS_READ

CONTINUATION = {"states": 1, "candidates": 2, "continuations": 1}
CREDIT_QUALITY = {"cases": 2, "turns": [1], "candidates": 2, "continuations": 2}
# Where a job runs, what it is called, and what it says; nothing of it is in a result. What a method
# and a run are is read through `method` and `seed`, which `run_settings` adds.
NO_PART_OF_A_RESULT = {"name", "results", "require", "placement", "servers", "synthetic", "methods"}
NO_PART_OF_A_RESULT |= {"to_dict"}  # what a manifest shows
# They name input files, whose names and contents count.
INPUTS = {"benchmarks", "development", "starts_from", "pretrained"}


class Recording:
    """A study, or a group of its settings, that notes what is read of it."""

    def __init__(self, real, parts, seen, prefix=""):
        self.real, self.parts, self.seen, self.prefix = real, parts, seen, prefix

    def __getattr__(self, name):
        value = getattr(self.real, name)
        readers = [frame.f_globals["__name__"] for frame in (sys._getframe(1), sys._getframe(2))]
        if {"pcqc.study.provenance", "pcqc.study.job_outputs"} & set(readers):
            return value
        if name == "dtype" and not self.prefix:
            return lambda role: self.seen.add(f"dtypes.{role}") or value(role)
        if name in self.parts and value is not None:
            return Recording(value, (), self.seen, f"{name}.")
        self.seen.add(self.prefix + name)
        return value


def reads(study, job, run, *arguments):
    """Names of settings that a job read."""
    parts = {name.partition(".")[0] for name in SETTINGS_READ[job] if "." in name}
    seen: set[str] = set()
    run(Recording(study, parts, seen), *arguments)
    return {name for name in seen if name not in NO_PART_OF_A_RESULT}


@pytest.fixture(scope="module")
def seen(tmp_path_factory, prepared):
    """Job -> settings that it read, of a study of which every job runs."""
    folder, patch = tmp_path_factory.mktemp("read"), pytest.MonkeyPatch()
    patch.chdir(folder)
    small = {"epochs": 1, "patient_epochs": 1, "batch_size": 8, "learning_rate": 0.01}
    study = small_study(
        folder,
        sft=small,
        continuation=CONTINUATION,
        credit_quality=CREDIT_QUALITY,
        methods={"pcqc": {"updates": 1}},
    )
    method, run = study.continued[0]
    found = {"clinic": reads(study, "clinic", run_clinic)}
    patch.setattr(pretrain, "train_supervised", lambda *_: ())
    patch.setattr(pretrain, "is_finished", lambda *_: True)
    patch.setattr(pretrain, "validate", lambda *_: {})
    found["pretrain"] = reads(study, "pretrain", run_pretrain)
    assert job_output(study, "pretrain").path.is_dir()
    found["sft"] = reads(study, "sft", run_sft)
    for job, do in (
        ("train", run_training),
        ("select", run_selection),
        ("evaluate", run_evaluation),
        ("continuation", run_continuation),
        ("credit_quality", run_credit_quality),
    ):
        found[job] = reads(study, job, do, method, run)
    judged = reads(
        study, "grounding", lambda s: run_grounding(s, method, run, {"rules": clinic_judge(s)})
    )
    found["grounding"] = judged
    assert Path("results/small/continuation/pcqc/A/grounding.csv").exists()
    yield found
    patch.undo()


# `run_settings` adds these; a review is an input; which policies are studied is no part of one.
ADDED = {
    "train": {"method", "seed", "rl_of"},
    "select": {"method"},
    "evaluate": {"method", "seed", "also_evaluate"},
    "continuation": {"method", "seed", "continuation.method"},
    "credit_quality": {"method", "seed"},
    "grounding": {"continuation", "continuation.review"},
}


@pytest.mark.parametrize("job", [job for job in SETTINGS_READ if job != "models"])
def test_every_setting_that_a_job_reads_is_one_that_it_is_made_from(seen, job):
    listed = set(SETTINGS_READ[job]) | ADDED.get(job, set())
    assert seen[job] - listed - INPUTS == set()
    # The clinic's judge knows its world and asks no model.
    assert seen[job] & set(SETTINGS_READ[job]) or job == "grounding"
