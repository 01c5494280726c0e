"""Refusal of a placement that cannot work, with changes that would make it work."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pcqc.errors import UserError
from pcqc.planning.checks import contradictions, misfits
from pcqc.planning.devices import DEVICES
from pcqc.planning.memory import engines, longest
from pcqc.study import Study


def require_fit(study: Study) -> None:
    """Refuse a placement that cannot work; a study without a placement always passes.

    Raises:
        UserError: what does not fit, and what to change.
    """
    if problems := misfits(study):
        raise UserError(
            f"study '{study.name}' cannot run: {'; '.join([*problems, *advice(study)])}"
        )


def advice(study: Study) -> list[str]:
    """Settings with which a study fits; none if its settings contradict each other.

    Changes are added until the study fits; then each that is not needed is dropped again.
    """
    if contradictions(study):
        return []
    for role, engine in engines(study).items():
        study = changed(study, f"placement.{role}", engine)
    changes: dict[str, Any] = {}
    for path, value in _changes(study):
        if not contradictions(_with(study, {**changes, path: value})):
            changes[path] = value
        if not misfits(_with(study, changes)):
            break
    else:
        return ["no change of settings suffices: place the roles on more devices"]
    for path in list(changes):
        fewer = {other: value for other, value in changes.items() if other != path}
        if not misfits(_with(study, fewer)):
            changes = fewer
    texts = (f"{path}: {'true' if v is True else v}" for path, v in changes.items())
    return [f"this would do: {', '.join(texts)}"]


def changed(settings: Any, path: str, value: Any) -> Any:
    """A copy of settings in which the setting at the dotted `path` has another value."""
    name, _, rest = path.partition(".")
    inner = changed(getattr(settings, name), rest, value) if rest else value
    return dataclasses.replace(settings, **{name: inner})


def _with(study: Study, changes: dict[str, Any]) -> Study:
    for path, value in changes.items():
        study = changed(study, path, value)
    return study


def _changes(study: Study) -> Iterator[tuple[str, Any]]:
    """Changes that save memory: those that cost least speed first, other devices last."""
    least = longest(study, "actor")
    for stage in range(study.placement.learner.zero + 1, 4):
        yield "placement.learner.zero", stage
    yield "placement.learner.gradient_checkpointing", True
    yield "rl.tokens_per_micro_batch", least
    for role, engine in engines(study).items():
        yield f"placement.{role}.sleeps", True
        yield f"placement.{role}.tensor_parallel", 2 * engine.tensor_parallel
    for part in (2, 4, 8):
        yield "engine.cache_tokens", max(least, study.engine.cache_tokens // part)
    yield "placement.learner.offload", "optimizer"
    memory = {kind: device.memory_gib for kind, device in DEVICES.items()}
    for kind in sorted(memory, key=lambda kind: memory[kind]):
        if memory[kind] > memory[study.placement.device]:
            yield "placement.device", kind
