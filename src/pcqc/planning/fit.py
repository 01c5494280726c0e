"""Refusal of a placement that cannot work, with changes that would make it work."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pcqc.errors import UserError
from pcqc.planning.checks import contradictions, misfits
from pcqc.planning.devices import DEVICES
from pcqc.planning.memory import engines, longest
from pcqc.study import Study

Change = tuple[str, Any]


def require_fit(study: Study) -> None:
    """Refuse a placement that cannot work; a study without a placement always passes.

    Raises:
        UserError: what does not fit, and what to change.
    """
    if found := misfits(study):
        raise UserError(f"study '{study.name}' cannot run: {'; '.join([*found, *advice(study)])}")


def advice(study: Study) -> list[str]:
    """Changes that make a study fit; none if its settings contradict each other.

    Each change is tried alone first, then all of them one after another.
    """
    if contradictions(study):
        return []
    placed: dict[str, Any] = {**engines(study)}
    place = dataclasses.replace(study.placement, **placed)
    study = dataclasses.replace(study, placement=place)
    tried = list(_changes(study))
    alone = [change for change in tried if not misfits(changed(study, *change))]
    if alone:
        return [f"any one of these would do: {_names(alone)}"]
    together: list[Change] = []
    for change in tried:
        if contradictions(changed(study, *change)):
            continue
        study = changed(study, *change)
        together = [c for c in together if c[0] != change[0]] + [change]
        if not misfits(study):
            return [f"these together would do: {_names(together)}"]
    return ["no change of settings suffices: place the roles on more devices"]


def changed(settings: Any, path: str, value: Any) -> Any:
    """A copy of settings in which the setting at the dotted `path` has another value."""
    name, _, rest = path.partition(".")
    inner = changed(getattr(settings, name), rest, value) if rest else value
    return dataclasses.replace(settings, **{name: inner})


def _changes(study: Study) -> Iterator[Change]:
    """Changes that save memory: those that cost least speed first, other devices last."""
    place, learner = study.placement, study.placement.learner
    if len(learner.devices) > 1:
        for stage in range(learner.zero + 1, 4):
            yield "placement.learner.zero", stage
    if not learner.gradient_checkpointing:
        yield "placement.learner.gradient_checkpointing", True
    least = longest(study, "actor")
    if study.rl.tokens_per_micro_batch > least:
        yield "rl.tokens_per_micro_batch", least
    for role, engine in engines(study).items():
        if not engine.sleeps and set(engine.devices) & set(learner.devices):
            yield f"placement.{role}.sleeps", True
        if len(engine.devices) % (2 * engine.tensor_parallel) == 0:
            yield f"placement.{role}.tensor_parallel", 2 * engine.tensor_parallel
    for part in (2, 4, 8):
        if study.engine.cache_tokens // part >= least:
            yield "engine.cache_tokens", study.engine.cache_tokens // part
    if learner.zero and learner.offload == "none":
        yield "placement.learner.offload", "optimizer"
    here = DEVICES[place.device].memory_gib
    for kind, device in sorted(DEVICES.items(), key=lambda item: item[1].memory_gib):
        if device.memory_gib > here:
            yield "placement.device", kind


def _names(changes: list[Change]) -> str:
    return ", ".join(f"{path}: {'true' if value is True else value}" for path, value in changes)
