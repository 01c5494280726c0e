"""Disk: sizes and numbers of checkpoints and resumable states."""

from pcqc_base.settings import Method
from pcqc_gpu.planning.architecture import BYTES, architecture
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.trainings import fine_tunings, trained
from pcqc_study.study_file import Study


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
    per_run = [
        size["state_gib"] + size["critic_state_gib"] * ("critic" in method.needs)
        for method in methods
    ]
    of_runs = sum(len(m.runs) * gib for m, gib in zip(methods, per_run, strict=True))
    of_sft = [_state_gib(study, role) for role in fine_tunings(study).values()]
    count = sum(len(method.runs) * checkpoints(study, method) for method in methods)
    total = {
        "models_gib": models_gib(study),
        "checkpoints_gib": size["checkpoint_gib"] * count,
        "states_gib": of_runs + max([*per_run, *of_sft]) + sum(of_sft),
    }
    return {**size, **total, "total_gib": sum(total.values())}


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
