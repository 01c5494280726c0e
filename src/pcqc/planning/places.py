"""Other places for patient and scorer: what a study would cost there, and whether it fits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pcqc.planning.checks import misfits
from pcqc.planning.cost import run_cost
from pcqc.planning.memory import engines, role_memories, room, served
from pcqc.planning.work import trained
from pcqc.settings import Study

ROLES = ("patient", "scorer")


def other_places(study: Study) -> list[dict]:
    """Rows for the plan: where, GPU-hours of all runs, and whether each device has the memory.

    A study has rows if servers of its own run both roles on the learner's devices.
    """
    shared = [r for r in ROLES if served(study, r) and getattr(study.placement, r)]
    learner = study.placement.learner.devices
    if len(shared) < 2 or any(engines(study)[r].devices != learner for r in ROLES):
        return []
    return [
        {"patient and scorer": where, "GPU-hours": sum(hours), "": "fits" if fits else "too little"}
        for where, hours, fits in _places(study, learner)
    ]


def _places(study: Study, learner: Sequence[int]) -> Iterator[tuple[str, list[float], bool]]:
    """Where, hours of each method's runs, whether it fits."""
    for split in _halves(len(learner)):
        other = _moved(study, learner, learner, split)
        yield f"a copy on each {split} of the learner's", _hours(other), not misfits(other)
    single = _moved(study, learner, learner, 1)
    yield "a copy on each, woken in turn", _hours(single, waking=True), _fits_in_turn(single)
    for own in (n for n in _halves(len(learner)) if 1 < n < len(learner)):
        other = _moved(study, learner[:-own], learner[-own:], 1)
        yield f"a copy on each of {own} of their own", _hours(other), not misfits(other)


def _halves(count: int) -> list[int]:
    """Powers of two that divide a count, from the largest."""
    return [n for n in (8, 4, 2, 1) if count % n == 0]


def _moved(study: Study, learner: Sequence[int], others: Sequence[int], split: int) -> Study:
    """With the learner and the actor on some devices, the other roles on others."""
    place = study.placement
    roles: dict[str, Any] = {"learner": replace(place.learner, devices=tuple(learner))}
    if place.actor:
        roles["actor"] = replace(place.actor, devices=tuple(learner))
    for role in ROLES:
        own = getattr(place, role)
        roles[role] = replace(own, devices=tuple(others), tensor_parallel=split)
    return replace(study, placement=replace(place, **roles))


def _hours(study: Study, waking: bool = False) -> list[float]:
    """GPU-hours of each method's runs.

    Args:
        study: settings.
        waking: whether the weights of patient and scorer go to the host and back in every update.
    """
    memory = {memory.role: memory for memory in role_memories(study)}
    hours = []
    for method in trained(study).values():
        gpu_hours = run_cost(study, method)["gpu_hours"]
        if waking:
            used = [r for r in ROLES if r == "patient" or r in method.needs]
            moved = 2 * method.updates * sum(memory[role].resident["weights"] for role in used)
            seconds = moved / study.assumptions.pinned_gib_per_second
            gpu_hours += seconds * study.placement.devices / 3600
        hours.append(gpu_hours * len(method.runs))
    return hours


def _fits_in_turn(study: Study) -> bool:
    """Whether a device has room for learner, actor and patient, and then for the scorer."""
    memory = {memory.role: memory for memory in role_memories(study)}
    learners = [role for role in ("learner", "critic") if role in memory]
    turns = [[*learners, "actor", "patient"], [*learners, "scorer"]]
    most = max(sum(memory[r].during("rollout") for r in turn if r in memory) for turn in turns)
    return most <= room(study)
