"""What must hold of every placement."""

import dataclasses
import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from pcqc.config import EnginePlacement, LearnerPlacement, load_study
from pcqc.planning.cost import run_cost
from pcqc.planning.fit import changed
from pcqc.planning.memory import engine_memory, learner_memory

paper = functools.cache(lambda: load_study("paper"))
counts = st.integers(1, 64)
learners = st.builds(
    LearnerPlacement,
    devices=counts.map(lambda n: tuple(range(n))),
    zero=st.sampled_from([0, 1, 2, 3]),
    offload=st.sampled_from(["none", "optimizer"]),
    gradient_checkpointing=st.booleans(),
)


def device_gib(role) -> float:
    return max(role.during("update"), role.during("rollout"))


@settings(max_examples=60, deadline=None)
@given(learners, counts, st.sampled_from(["sft", "learner", "critic"]))
def test_more_devices_of_the_learner_never_need_more_memory_on_each(place, more, role):
    wider = dataclasses.replace(place, devices=tuple(range(len(place.devices) + more)))
    one, other = (changed(paper(), "placement.learner", p) for p in (place, wider))
    assert device_gib(learner_memory(other, role)) <= device_gib(learner_memory(one, role))
    assert learner_memory(other, role).host <= learner_memory(one, role).host


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["actor", "patient", "scorer"]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_more_devices_of_an_engine_never_need_more_memory_on_each(role, split, sleeps):
    def needed(devices: int, split: int) -> float:
        place = EnginePlacement(tuple(range(devices)), split, sleeps)
        return device_gib(engine_memory(changed(paper(), f"placement.{role}", place), role))

    assert needed(8, 2 * split) <= needed(8, split)
    assert needed(16, split) == needed(8, split)


@settings(max_examples=60, deadline=None)
@given(learners)
def test_each_saving_saves(place):
    """A further ZeRO stage, checkpointing and offload need no more memory than going without."""
    study = changed(paper(), "placement.learner", place)
    here = device_gib(learner_memory(study, "learner"))
    for name, value in (("gradient_checkpointing", True), ("offload", "optimizer")):
        saving = changed(study, f"placement.learner.{name}", value)
        assert device_gib(learner_memory(saving, "learner")) <= here


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 16), st.floats(0, 9), st.sampled_from(["grpo", "atpo", "pcqc"]))
def test_hours_fall_with_devices_and_rise_with_inquiries(devices, inquiries, name):
    study = changed(paper(), "assumptions.inquiries", inquiries)
    longer = changed(paper(), "assumptions.inquiries", inquiries + 1)
    wider = changed(study, "placement.learner.devices", tuple(range(devices + 8)))
    method = paper().method(name)
    assert run_cost(longer, method).gpu_hours > run_cost(study, method).gpu_hours
    assert run_cost(wider, method).update < run_cost(study, method).update
