"""The plan of a study as plain data: models, work, disk; with a placement, memory and hours."""

from dataclasses import asdict
from typing import Any

from pcqc.planning.architecture import BYTES, architecture
from pcqc.planning.checks import contradictions, loads, misfits
from pcqc.planning.cost import run_cost, sft_cost
from pcqc.planning.devices import GIB
from pcqc.planning.fit import advice
from pcqc.planning.memory import role_memories
from pcqc.planning.storage import checkpoints, storage
from pcqc.planning.work import FineTuning, fine_tunings, trained, training_work
from pcqc.study import Method, Study


def make_plan(study: Study) -> dict:
    """Everything that `pcqc plan` prints; `problems` and `advice` are empty if the study fits.

    Raises:
        UserError: an unknown kind of device or an unknown shape of a model.
    """
    placed = study.placement is not None
    sound = placed and not contradictions(study)
    plan: dict[str, Any] = {
        "study": study.name,
        "models": {role: _model(study, role) for role in ("actor", "patient", "scorer")},
        "sft": {n: _course(study, c, sound) for n, c in fine_tunings(study).items()},
        "methods": {n: _method(study, m, sound) for n, m in trained(study).items()},
        "storage": storage(study),
        "assumptions": asdict(study.assumptions),
        "placement": asdict(study.placement) if placed else None,
        "memory": [],
        "devices": [],
        "problems": misfits(study),
        "advice": [],
    }
    if sound:
        roles = role_memories(study)
        plan["memory"] = [role.to_dict() for role in roles]
        plan["devices"] = [asdict(load) for load in loads(study, roles)]
    if plan["problems"]:
        plan["advice"] = advice(study)
    return plan


def _model(study: Study, role: str) -> dict:
    name, shape = architecture(study, role)
    return {
        "name": name,
        "parameters": shape.parameters,
        "dtype": study.dtype(role),
        "gib": shape.parameters * BYTES[study.dtype(role)] / GIB,
    }


def _course(study: Study, course: FineTuning, timed: bool) -> dict:
    return {**asdict(course), "hours": sft_cost(study, course) if timed else None}


def _method(study: Study, method: Method, timed: bool) -> dict:
    """Of one run, except `runs`."""
    work = training_work(study, method)
    return {
        **asdict(work),
        "title": method.title,
        "runs": len(method.runs),
        "updates": method.updates,
        "approximate": method.tree is not None,
        "actor_tokens": work.responses * study.assumptions.action_tokens,
        "checkpoints": checkpoints(study, method),
        "hours": run_cost(study, method) if timed else None,
    }
