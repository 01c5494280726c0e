"""The plan of a study: models, work, disk; with a placement, memory and hours; as data and text."""

from dataclasses import asdict

from tabulate import tabulate

from pcqc.planning.architecture import BYTES, architecture
from pcqc.planning.checks import contradictions, loads, misfits, span
from pcqc.planning.cost import run_cost, sft_cost
from pcqc.planning.devices import GIB
from pcqc.planning.memory import role_memories
from pcqc.planning.storage import checkpoints, storage
from pcqc.planning.work import fine_tunings, trained, training_work
from pcqc.study import Method, Study

PHASES = {"always": "resident", "in rollouts": "rollout", "in the update": "update"}
AMOUNTS = (
    *("runs", "updates", "trajectories", "candidates", "answers", "scores"),
    *("actor_tokens", "trained_tokens"),
)
TOO_LITTLE = "TOO LITTLE"


def make_plan(study: Study) -> dict:
    """Everything that `pcqc plan` prints; `problems` is empty if the study fits.

    Raises:
        UserError: an unknown kind of device or an unknown shape of a model.
    """
    placed = study.placement is not None
    sound = placed and not contradictions(study)
    shapes = {role: architecture(study, role) for role in ("actor", "patient", "scorer")}
    roles = role_memories(study) if sound else []
    return {
        "study": study.name,
        "models": {
            role: {
                "name": name,
                "parameters": shape.parameters,
                "dtype": study.dtype(role),
                "gib": shape.parameters * BYTES[study.dtype(role)] / GIB,
            }
            for role, (name, shape) in shapes.items()
        },
        "sft": {
            name: {**asdict(course), "hours": sft_cost(study, course) if sound else None}
            for name, course in fine_tunings(study).items()
        },
        "methods": {name: _run(study, m, sound) for name, m in trained(study).items()},
        "storage": storage(study),
        "assumptions": asdict(study.assumptions),
        "placement": asdict(study.placement) if placed else None,
        "memory": [asdict(role) for role in roles],
        "devices": [asdict(load) for load in loads(study, roles)] if sound else [],
        "problems": misfits(study),
    }


def _run(study: Study, method: Method, timed: bool) -> dict:
    """Of one run of a method, except `runs`."""
    work = training_work(study, method)
    return {
        **asdict(work),
        "title": method.title,
        "runs": len(method.runs),
        "updates": method.updates,
        "actor_tokens": work.responses * study.assumptions.action_tokens,
        "checkpoints": checkpoints(study, method),
        "hours": run_cost(study, method) if timed else None,
    }


def render(plan: dict) -> str:
    """The plan of `make_plan` as tables, one below the other."""
    courses = {n: {"runs": 1, "updates": c["steps"], **c} for n, c in plan["sft"].items()}
    place, parts = plan["placement"], {**plan["methods"], **courses}
    heading = "no `placement` in the settings, so no memory and no hours"
    if place:
        heading = f"{place['nodes']} x {place['devices_per_node']} {place['device']}"
    memory = [
        {"role": r["role"], "where": span(r["devices"]), "phase": name, "of": part, "GiB": gib}
        for r in plan["memory"]
        for name, phase in (*PHASES.items(), ("on the host", "host"))
        for part, gib in (r[phase] if phase != "host" else {"weights": r["host"]}).items()
        if gib
    ]
    devices = [
        {
            "methods": ", ".join(load["methods"]),
            "where": span(load["devices"]),
            **{f"GiB {name}": load[name] for name in ("rollout", "update", "available")},
            "": "fits" if max(load["rollout"], load["update"]) <= load["available"] else TOO_LITTLE,
        }
        for load in plan["devices"]
    ]
    work = [
        {"method": name} | {what.replace("_", " "): round(part.get(what, 0)) for what in AMOUNTS}
        for name, part in parts.items()
    ]
    hours = [
        {"method": n, **p["hours"], "of all runs": p["hours"]["gpu_hours"] * p["runs"]}
        for n, p in parts.items()
        if p["hours"]
    ]
    total = sum(row["of all runs"] for row in hours)
    tables = {
        "Models": [{"role": role, **model} for role, model in plan["models"].items()],
        "Memory per device": memory,
        "Memory per device and phase": devices,
        "Work of one run and of SFT; a tree search without pruning": work,
        f"Hours of one run and of SFT; GPU-hours of all runs: {total:,.1f}": hours,
        "Disk": [
            {"": name.removesuffix("_gib").replace("_", " "), "GiB": gib}
            for name, gib in plan["storage"].items()
        ],
        "Assumed (settings `assumptions`)": [
            {"": name, "value": value}
            for name, value in plan["assumptions"].items()
            if value is not None
        ],
    }
    texts = [
        f"{title}\n{tabulate(rows, headers='keys', intfmt=',', floatfmt=',.2f')}"
        for title, rows in tables.items()
        if rows
    ]
    return "\n\n".join([f"{plan['study']}: {heading}", *texts]) + "\n"
