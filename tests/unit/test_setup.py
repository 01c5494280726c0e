"""Which engine a role gets, as the study has it."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

import pcqc.engines.vllm
from pcqc.jobs import make_roles as setup
from pcqc.jobs.make_roles import Weights, make_engine
from pcqc.results.tasks import Where
from pcqc.study import load_study
from pcqc.study.placement import EnginePlacement


@pytest.fixture
def started(monkeypatch):
    """The arguments of every vLLM engine that is made, in place of the engines."""
    made = []
    monkeypatch.setattr(setup, "check_folder", lambda *arguments: {})
    monkeypatch.setattr(
        pcqc.engines.vllm, "VllmEngine", lambda folder, **sizes: made.append(sizes) or sizes
    )
    return made


def make(study, role: str):
    task = SimpleNamespace(settings=study, where=Where.of(study))
    return make_engine(task, role, Weights(Path(role), study.dtype(role)))


def test_vllm_is_placed_as_the_study_says(started):
    study = load_study("clinic-mini-engines")
    actor = EnginePlacement((0, 1), tensor_parallel=2, sleeps=True)
    placed = dataclasses.replace(
        study, placement=dataclasses.replace(study.placement, actor=actor, patient=None)
    )
    for role in ("actor", "patient"):
        make(placed, role)
    assert [(s["tensor_parallel"], s["sleeps"]) for s in started] == [(2, True), (1, False)]
    assert all(s["own_process"] for s in started)


def test_without_a_placement_an_engine_has_a_device_of_the_learner(started):
    study = dataclasses.replace(load_study("clinic-mini-engines"), placement=None)
    make(study, "scorer")
    assert [(s["tensor_parallel"], s["sleeps"]) for s in started] == [(1, True)]
