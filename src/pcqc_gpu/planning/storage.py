"""Disk: sizes and numbers of checkpoints and resumable states."""

from pcqc.settings import Method
from pcqc_gpu.planning.architecture import BYTES, architecture
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.work import fine_tunings, trained
from pcqc_study.settings import Study


def checkpoints(study: Study, method: Method) -> int:
    """Checkpoints of a run: every `rl.checkpoint_every` updates, and at its end."""
    every = study.rl_of(method).checkpoint_every
    return method.updates // every + bool(method.updates % every)


def storage(study: Study) -> dict[str, float]:
    """GiB on disk.

    A checkpoint holds the weights. A resumable state of DeepSpeed (a study with a placement) holds
    fp32 weights and two moments; of plain torch, weights, tied ones twice, and moments in the
    model's format. SFT and each run keep one state, one of them a second while it is replaced; a
    tree search keeps the critic's too.

    Returns:
        `checkpoint_gib`, `state_gib`, `critic_state_gib` of one; `models_gib`, `checkpoints_gib`,
        `states_gib` of all; `total_gib`.
    """
    shape = architecture(study, "actor")[1]
    number = BYTES[study.dtype("actor")]
    per_parameter = 12 if study.placement else 3 * number
    methods = list(trained(study).values())
    size = {
        "checkpoint_gib": number * shape.parameters / GIB,
        "state_gib": _state_gib(study, "actor"),
        "critic_state_gib": per_parameter * shape.critic_parameters / GIB,
    }
    per_run = [_run_state_gib(size, method) for method in methods]
    of_runs = sum(len(m.runs) * gib for m, gib in zip(methods, per_run, strict=True))
    of_sft = [_state_gib(study, course.role) for course in fine_tunings(study).values()]
    count = sum(len(method.runs) * checkpoints(study, method) for method in methods)
    total = {
        "models_gib": models_gib(study),
        "checkpoints_gib": size["checkpoint_gib"] * count,
        "states_gib": of_runs + max([*per_run, *of_sft]) + sum(of_sft),
    }
    return {**size, **total, "total_gib": sum(total.values())}


def saved_gib(study: Study, method: Method) -> tuple[float, float]:
    """GiB that a run writes: in all checkpoints, and in all states."""
    size, saves = storage(study), -(-method.updates // study.rl_of(method).save_every)
    kept = checkpoints(study, method) * size["checkpoint_gib"]
    return kept, saves * _run_state_gib(size, method)


def _run_state_gib(size: dict[str, float], method: Method) -> float:
    """GiB of a run's resumable state, from the sizes of `storage`; a tree search has a critic."""
    return size["state_gib"] + size["critic_state_gib"] * ("critic" in method.needs)


def sync_gib(study: Study) -> float:
    """GiB of /dev/shm on a node while the actor's engines take new weights.

    vLLM in processes of its own gets them by files, which one process of a node writes for all.
    """
    if study.engine.kind != "vllm" or study.engine.process != "own":
        return 0.0
    return BYTES[study.dtype("actor")] * architecture(study, "actor")[1].parameters / GIB


def _state_gib(study: Study, role: str) -> float:
    shape, number = architecture(study, role)[1], BYTES[study.dtype(role)]
    if study.placement:
        return 12 * shape.parameters / GIB
    return number * (3 * shape.parameters + shape.embedding * shape.tied) / GIB


def models_gib(study: Study) -> float:
    """Downloaded weights, each once, and the actor and patient after SFT.

    A patient that is an earlier checkpoint of the actor's SFT is also kept beside its state.
    """
    folders = {study.starts_from(role): role for role in ("scorer", "patient", "actor")}
    roles = [*folders.values(), "actor", "patient"]
    if len(fine_tunings(study)) == 1 and study.sft.patient_epochs != study.sft.epochs:
        roles.append("actor")
    sizes = [BYTES[study.dtype(r)] * architecture(study, r)[1].parameters for r in roles]
    return sum(sizes) / GIB
