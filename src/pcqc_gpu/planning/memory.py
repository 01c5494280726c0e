"""Bytes per device and role, from the settings alone.

Model states follow Rajbhandari et al. 2020 (ZeRO, Section 3.1): per parameter 2 bytes of bf16
weights and 12 of AdamW's fp32 weights and two moments; gradients take 4, since they are summed over
micro-batches in fp32. A learner in fp32 has 4 of weights, 4 of gradients and 8 of moments.
"""

from collections.abc import Collection
from dataclasses import dataclass

from pcqc_base.settings import EnginePlacement, Method
from pcqc_base.settings.placement import BUCKET, LOGITS
from pcqc_gpu.planning.architecture import BYTES, Architecture, architecture
from pcqc_gpu.planning.devices import GIB, device_gib
from pcqc_gpu.planning.trainings import fine_tunings, trained
from pcqc_study.study_file import Study

# The most weights that ZeRO 3 gathers at a time: DeepSpeed's stage3_max_live_parameters.
LIVE_PARAMETERS = 1_000_000_000
# Of what layers keep for the backward pass: what torch's allocator holds beside it, in blocks that
# no tensor fits. On an H100 an update of Qwen3-0.6B without gradient checkpointing, which needs 75
# of 79.2 GiB, ran out of memory with 62.7 in tensors, 53 of them activations: 16 were held. With
# checkpointing what layers keep has one size.
HELD = 0.3
# Per logit, in fp32: log-probability and its gradient, and the gradient of the logit.
LOGIT_BYTES = 4 + 4 + 4


@dataclass(frozen=True)
class RoleMemory:
    """GiB on each device of a role, by what takes them.

    Attributes:
        resident: held all the time.
        update: in addition, while the learner updates.
        rollout: in addition, while consultations are sampled and scored.
        host: on the host of each device.
    """

    role: str
    model: str
    devices: tuple[int, ...]
    resident: dict[str, float]
    update: dict[str, float]
    rollout: dict[str, float]
    host: float = 0.0

    def during(self, phase: str) -> float:
        """GiB on each device in the phase `update` or `rollout`."""
        return sum(self.resident.values()) + sum(getattr(self, phase).values())


def roles_of(method: Method) -> tuple[str, ...]:
    """Roles that a run of a method uses."""
    own = [role for role in ("critic", "scorer") if role in method.needs]
    return ("learner", "actor", "patient", *own)


def served(study: Study, role: str) -> bool:
    """Whether a server does a role's work."""
    return role != "actor" and getattr(study.servers, role) is not None


def engines(study: Study) -> dict[str, EnginePlacement]:
    """Role -> its placement, for the roles that run on the study's devices."""
    place, placements = study.placement, {}
    for role in ("actor", "patient", "scorer"):
        if own := getattr(place, role):
            placements[role] = own
        elif not served(study, role):
            placements[role] = EnginePlacement(place.learner.devices)
    return placements


def at_work(study: Study) -> dict[tuple[str, ...], list[str]]:
    """Roles that run at the same time -> the courses of SFT, or the methods, that use them.

    A server that any method needs runs during all of them, and may already run during SFT. A second
    course of SFT runs in the same processes, in which DeepSpeed still holds the first.
    """
    methods: dict[tuple[str, ...], list[str]] = {}
    for name, method in trained(study).items():
        methods.setdefault(roles_beside(study, method), []).append(name)
    courses, servers = list(fine_tunings(study)), _servers(study)
    sft = {(*courses[: n + 1], *servers): [course] for n, course in enumerate(courses)}
    return {**sft, **methods}


def roles_beside(study: Study, method: Method) -> tuple[str, ...]:
    """Roles that run during a method's training: its own, and all servers."""
    return tuple(dict.fromkeys((*roles_of(method), *_servers(study))))


def _servers(study: Study) -> list[str]:
    needed = {role for method in trained(study).values() for role in roles_of(method)}
    return [role for role in ("patient", "scorer") if role in needed and served(study, role)]


def room(study: Study) -> float:
    """GiB of each device that roles may take."""
    return device_gib(study.placement.device) - study.assumptions.reserve_gib


def cache_tokens(study: Study, roles: Collection[str]) -> int:
    """Tokens of the actor's keys and values in an engine beside these roles.

    With `cache: free` as many as its device has room for, but no more than `engine.batch_size`
    consultations can fill, and `engine.cache_tokens` at least.
    """
    least, place = study.engine.cache_tokens, study.placement.actor
    if place is None or place.cache != "free":
        return least
    phases = ("rollout",) if place.sleeps else ("rollout", "update")
    memories = [memory for memory in role_memories(study) if memory.role in roles]
    taken = max(
        sum(memory.during(phase) for memory in memories if index in memory.devices)
        for index in place.devices
        for phase in phases
    )
    of_token = architecture(study, "actor")[1].cache_bytes(BYTES[study.dtype("actor")])
    free = int((room(study) - taken) * GIB / of_token * place.tensor_parallel)
    return max(least, min(least + free, study.engine.batch_size * longest(study, "actor")))


def role_memories(study: Study) -> list[RoleMemory]:
    """Memory of every role that a study's SFT and methods use."""
    needed = {role for roles in at_work(study) for role in roles}
    learners = [r for r in (*fine_tunings(study), "learner", "critic") if r in needed]
    return [
        *(learner_memory(study, role) for role in learners),
        *(engine_memory(study, role) for role in engines(study) if role in needed),
    ]


def learner_memory(study: Study, role: str) -> RoleMemory:
    """Memory of a role that learns: a course of SFT, the `learner` of RL, or the `critic`.

    The `learner` holds the frozen reference too if a method has a KL penalty.
    """
    critic, trains = role == "critic", fine_tunings(study).get(role, "actor")
    place, number = study.placement.learner, BYTES[study.dtype(trains)]
    name, shape = architecture(study, trains)
    share = [1 / len(place.devices) if place.zero >= stage else 1.0 for stage in (3, 2, 1)]
    parameters = shape.critic_parameters if critic else shape.parameters
    weights, gradients, states = (parameters * part / GIB for part in share)
    states *= 12 if number == 2 else 8
    offloaded = place.offload == "optimizer"
    moved = critic and place.offload == "critic"
    resident = {
        "weights": number * weights,
        "gradients": 4 * gradients,
        "optimiser": 0.0 if offloaded or moved else states,
    }
    if role == "learner" and any("reference" in method.needs for method in trained(study).values()):
        resident["reference"] = number * weights
    if place.zero == 3:
        resident["gathered"] = number * min(parameters, LIVE_PARAMETERS) / GIB
    # Policy and critic update in turn, and what the critic needs for it is no more.
    update = {} if critic else {"activations": activation_bytes(study, shape, number) / GIB}
    if not critic and not place.gradient_checkpointing and study.placement.device != "CPU":
        kept = shape.layers * shape.layer_activation_bytes(number)
        update["held"] = HELD * study.rl.tokens_per_micro_batch * kept / GIB
    if moved:
        update["optimiser"] = states
    if place.zero == 3:
        resident["reduced"] = 4 * min(parameters, BUCKET) / GIB
    elif not critic:  # ZeRO 2 fills a second buffer while the first is summed
        update["reduced"] = (8 if place.zero == 2 else 4) * min(parameters, BUCKET) / GIB
    # Blocks that stay in use after the cache is emptied; policy and critic share one allocator.
    rollout = {"reserved": study.assumptions.learner_reserved_gib} if role == "learner" else {}
    return RoleMemory(
        role,
        name,
        place.devices,
        resident,
        update,
        rollout,
        # A state is written from a copy on the host, which every process has of its share.
        12 * parameters / len(place.devices) / GIB + (states if offloaded or moved else 0.0),
    )


def activation_bytes(study: Study, shape: Architecture, number: int) -> float:
    """Bytes of one micro-batch at its peak: in the output layer, or in a layer's backward pass.

    With gradient checkpointing each layer keeps its input, and one layer at a time all it computes
    (Chen et al. 2016). Logits are counted for every token, but never more than are held at a time.
    An output layer that takes several parts has its gradient twice while they are added up. The
    gradient of a tied output layer waits for the embedding's.

    Token trees have a dense mask on CPUs alone (`pcqc.training.tree_attention`). A block mask takes
    a thousandth of the bytes and is not counted.
    """
    dense = study.placement.device == "CPU"
    tokens, layer = study.rl.tokens_per_micro_batch, shape.layer_activation_bytes(number, dense)
    checkpointing = study.placement.learner.gradient_checkpointing
    kept = shape.layers * (shape.width * number if checkpointing else layer)
    kept += shape.norm_activation_bytes(number)
    mask = dense * tokens**2 * (1 + number)  # of one tree, as booleans and as numbers
    logits = shape.vocabulary * min(tokens, max(1, LOGITS // shape.vocabulary))
    gradient = shape.embedding * number
    sums = 2 if tokens * shape.vocabulary > logits else 1
    output = max(LOGIT_BYTES * logits + gradient, number * logits + sums * gradient)
    # The gradients of what the feed-forward reads and computes; others are smaller.
    backward = tokens * (layer * checkpointing + (shape.width + shape.hidden) * number)
    return tokens * kept + mask + max(output, backward + gradient * shape.tied)


def engine_memory(study: Study, role: str, tokens: int | None = None) -> RoleMemory:
    """Memory of a role's engine: weights, and keys and values of so many tokens.

    vLLM keeps no more in all. The transformers engine keeps so many for finished prefixes, and
    those of `engine.batch_size` running sequences; for the actor it uses the learner's weights
    unless they are sharded (ZeRO 3). The devices of a copy split keys and values by heads.

    Args:
        study: whose placement has the role.
        role: `actor`, `patient` or `scorer`.
        tokens: whose keys and values are kept; `engine.cache_tokens` by default.
    """
    place, number = engines(study)[role], BYTES[study.dtype(role)]
    name, shape = architecture(study, role)
    weights = number * shape.parameters / place.tensor_parallel / GIB
    if role == "actor" and study.engine.kind == "transformers" and study.placement.learner.zero < 3:
        weights = 0.0
    split = min(place.tensor_parallel, shape.kv_heads)
    tokens = study.engine.cache_tokens if tokens is None else tokens
    if study.engine.kind == "transformers":
        tokens += study.engine.batch_size * longest(study, role)
    awake = {
        "cache": tokens * shape.cache_bytes(number) / split / GIB,
        "working": study.assumptions.engine_working_gib,
    }
    if place.sleeps:
        return RoleMemory(
            role, name, place.devices, {}, {}, {"weights": weights, **awake}, host=weights
        )
    return RoleMemory(role, name, place.devices, {"weights": weights, **awake}, {}, {})


def longest(study: Study, role: str) -> int:
    """Tokens of a role's longest sequence."""
    protocol = study.protocol
    if role == "patient":
        return protocol.prompt_tokens + study.patient_decoding.max_tokens
    return protocol.prompt_tokens + protocol.response_tokens
