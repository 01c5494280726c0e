"""Which engine a role gets, as the study has it."""

import dataclasses
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import pcqc_gpu.engines.vllm
from pcqc.jobs import make_roles as setup
from pcqc.jobs.make_roles import Weights, make_engine
from pcqc.jobs.rl_loop import Run
from pcqc_base.settings.placement import EnginePlacement
from pcqc_study.run_job import placed, where_of
from pcqc_study.study_file import load_study


@pytest.fixture
def started(monkeypatch):
    """The arguments of every vLLM engine that is made, in place of the engines."""
    made = []
    monkeypatch.setattr(setup, "check_folder", lambda *arguments: {})
    monkeypatch.setattr(
        pcqc_gpu.engines.vllm, "VllmEngine", lambda folder, **sizes: made.append(sizes) or sizes
    )
    return made


def make(study, role: str):
    task = SimpleNamespace(settings=study, where=placed(study))
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


def test_a_run_tells_the_actors_engine_how_large_a_cache_its_method_leaves_room_for(started):
    paper = load_study("paper")
    caches = {}
    for arguments in (("pcqc", "A"), ("atpo", "B"), ("medqa",), ()):
        where = where_of(paper, SimpleNamespace(arguments=arguments))
        task = SimpleNamespace(settings=paper, where=dataclasses.replace(where, placement=None))
        for role in ("actor", "patient"):
            make_engine(task, role, Weights(Path(role), "bfloat16"))
            caches[(*arguments, role)] = started[-1]["cache_tokens"]
    larger = caches.pop(("pcqc", "A", "actor")), caches.pop(("atpo", "B", "actor"))
    assert larger[0] > larger[1] > 40_960
    assert set(caches.values()) == {40_960}


@pytest.mark.parametrize("offload", ["critic", "none"])
def test_a_critics_optimiser_is_away_exactly_while_engines_are_awake(offload):
    events = []

    @contextmanager
    def noted(name, given=None):
        events.append(name)
        yield given
        events.append(f"end of {name}")

    run = Run.__new__(Run)
    learner = SimpleNamespace(offload=offload)
    run.task = SimpleNamespace(where=SimpleNamespace(placement=SimpleNamespace(learner=learner)))
    backend = SimpleNamespace(optimizer_on_host=lambda: noted("moved"))
    run.services = SimpleNamespace(critic=SimpleNamespace(backend=backend))
    run.engines = SimpleNamespace(awake=lambda: noted("awake", {"sync/gap": 0.0}))
    with run._sampling() as health:
        assert health == {"sync/gap": 0.0}
    awake = ["awake", "end of awake"]
    assert events == (["moved", *awake, "end of moved"] if offload == "critic" else awake)
