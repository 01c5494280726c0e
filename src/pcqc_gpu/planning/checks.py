"""Whether a placement can work, from the settings alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from pcqc_base.errors import UserError
from pcqc_base.settings import EnginePlacement
from pcqc_gpu.planning.architecture import architecture
from pcqc_gpu.planning.devices import device_gib
from pcqc_gpu.planning.memory import (
    RoleMemory,
    at_work,
    cache_tokens,
    engine_memory,
    engines,
    longest,
    role_memories,
    room,
    served,
)
from pcqc_gpu.planning.storage import storage
from pcqc_study.study_file import Study

LONGEST = "the longest consultation (protocol.prompt_tokens + protocol.response_tokens)"
OR_SERVED = {role: f"; or name a server under servers.{role}" for role in ("patient", "scorer")}
LESS_MEMORY = (
    "a higher placement.learner.zero, gradient_checkpointing: true, tensor_parallel and sleeps of "
    "engines, a smaller engine.cache_tokens, or more devices take less"
)
PHASES = {"rollout": "in rollouts", "update": "in the update"}


@dataclass(frozen=True)
class Load:
    """GiB that equal devices need in each phase of SFT or of some methods, and have available.

    Attributes:
        cache: tokens of the actor's keys and values, if it is on these devices.
    """

    methods: tuple[str, ...]
    devices: tuple[int, ...]
    roles: tuple[str, ...]
    rollout: float
    update: float
    available: float
    cache: int | None = None

    @property
    def excess(self) -> float:
        """GiB that are missing, negative where some are left."""
        return max(self.rollout, self.update) - self.available


def require_fit(study: Study) -> None:
    """Refuse a placement that cannot work; a study without a placement always passes.

    Raises:
        UserError: what does not fit, and what to change.
    """
    if problems := misfits(study):
        raise UserError(f"study '{study.name}' cannot run: {'; '.join(problems)}")


def misfits(study: Study) -> list[str]:
    """What is wrong with a study's placement; nothing if it can work.

    Raises:
        UserError: an unknown kind of device.
    """
    if study.placement is None:
        return []
    return list(contradictions(study)) or [*_overloads(study), *_too_small(study)]


def loads(study: Study, roles: list[RoleMemory]) -> list[Load]:
    """Memory in SFT and in every method, for each group of devices with the same roles."""
    available = room(study)
    result = []
    for used, methods in at_work(study).items():
        groups: dict[tuple[str, ...], list[int]] = {}
        for index in range(study.placement.devices):
            names = tuple(r.role for r in roles if r.role in used and index in r.devices)
            groups.setdefault(names, []).append(index)
        for names, indices in groups.items():
            here, cache = [r for r in roles if r.role in names and r.role != "actor"], None
            if "actor" in names:
                cache = cache_tokens(study, used)
                here.append(engine_memory(study, "actor", cache))
            rollout, update = (sum(r.during(phase) for r in here) for phase in PHASES)
            load = Load(tuple(methods), tuple(indices), names, rollout, update, available, cache)
            result.append(load)
    return result


def contradictions(study: Study) -> Iterator[str]:
    """Yield settings of the placement that no device could satisfy, each with its remedy.

    Raises:
        UserError: an unknown kind of device.
    """
    place = study.placement
    device_gib(place.device)
    learner, needed = place.learner, longest(study, "actor")
    places = {role: engine.devices for role, engine in engines(study).items()}
    for role, devices in {"learner": learner.devices, **places}.items():
        where = f"placement.{role}.devices"
        if not devices or len(set(devices)) < len(devices):
            yield f"{where} must name at least one device, and each once"
        elif max(devices) >= place.devices:
            yield (
                f"{where} names device {max(devices)}, but {place.nodes} x "
                f"{place.devices_per_node} are allocated; keep to 0 to {place.devices - 1}, or "
                "raise placement.nodes"
            )
    for role, engine in engines(study).items():
        yield from _splits(study, role, engine)
        if role != "actor" and engine.cache == "free":
            yield f"placement.{role}.cache: free is for the actor alone; take it out"
        if not served(study, role) and (engine.devices, engine.tensor_parallel) != (
            learner.devices,
            1,
        ):
            yield (
                f"placement.{role} must have the learner's devices and tensor_parallel: 1, since "
                f"its engine runs in the learner's processes{OR_SERVED.get(role, '')}"
            )
    if study.rl.tokens_per_micro_batch < needed:
        yield (
            f"rl.tokens_per_micro_batch is below the {needed} tokens of {LONGEST}; raise it to "
            f"{needed}"
        )
    if study.engine.kind == "vllm" and study.engine.cache_tokens < needed:
        yield f"engine.cache_tokens is below the {needed} tokens of {LONGEST}; raise it to {needed}"


def _splits(study: Study, role: str, engine: EnginePlacement) -> Iterator[str]:
    split = engine.tensor_parallel
    where = f"placement.{role}.tensor_parallel: {split}"
    shape = architecture(study, role)[1]
    if len(engine.devices) % split:
        yield f"{where} does not divide its {len(engine.devices)} devices"
    elif shape.heads % split or (shape.kv_heads % split and split % shape.kv_heads):
        yield f"{where} does not divide {shape.heads} heads and {shape.kv_heads} key-value heads"
    elif split > 1:
        node = [index // study.placement.devices_per_node for index in engine.devices]
        copies = [node[i : i + split] for i in range(0, len(node), split)]
        if any(len(set(copy)) > 1 for copy in copies):
            yield f"{where} puts a copy on two nodes; keep each on one"


def _overloads(study: Study) -> Iterator[str]:
    """The group of devices that lacks most memory."""
    roles = role_memories(study)
    worst = max(loads(study, roles), key=lambda load: load.excess, default=None)
    if worst is None or worst.excess <= 0:
        return
    phase = max(PHASES, key=lambda phase: getattr(worst, phase))
    parts = ", ".join(f"{r.role} {r.during(phase):.1f}" for r in roles if r.role in worst.roles)
    yield (
        f"{', '.join(worst.methods)}: {span(worst.devices)} need {getattr(worst, phase):.1f} GiB "
        f"each {PHASES[phase]} ({parts}), and {study.placement.device} has "
        f"{worst.available:.1f} available ({study.assumptions.reserve_gib:g} kept free); "
        f"{LESS_MEMORY}"
    )


def _too_small(study: Study) -> Iterator[str]:
    """The host's memory of a node, and the disk."""
    place, roles = study.placement, role_memories(study)
    for node in range(place.nodes if place.host_memory_gib is not None else 0):
        first = node * place.devices_per_node
        on_node = range(first, first + place.devices_per_node)
        needed = max(
            sum(r.host * sum(d in on_node for d in r.devices) for r in roles if r.role in used)
            for used in at_work(study)
        )
        if needed > place.host_memory_gib:
            yield (
                f"node {node} needs {needed:.0f} GiB of host memory for what is offloaded, saved "
                f"and asleep, and placement.host_memory_gib is {place.host_memory_gib:g}; let "
                "fewer engines sleep, or set placement.learner.offload: none"
            )
    needed = storage(study)["total_gib"]
    if place.disk_gib is not None and needed > place.disk_gib:
        yield (
            f"results take {needed:.0f} GiB, and placement.disk_gib is {place.disk_gib:g}; raise "
            "rl.checkpoint_every, or drop runs or methods"
        )


def span(devices: tuple[int, ...]) -> str:
    """`devices 0-3, 6`."""
    parts: list[list[int]] = []
    for index in devices:
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    texts = [str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts]
    return ("device " if len(devices) == 1 else "devices ") + ", ".join(texts)
