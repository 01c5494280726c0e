"""The plan of a study: models, work, disk; with a placement, memory and hours."""

from dataclasses import asdict

from tabulate import tabulate

from pcqc.settings import Method
from pcqc_gpu.planning.architecture import BYTES, architecture
from pcqc_gpu.planning.checks import contradictions, loads, misfits, span
from pcqc_gpu.planning.cost import run_cost, sft_cost
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.memory import role_memories
from pcqc_gpu.planning.storage import checkpoints, storage
from pcqc_gpu.planning.work import ablations, fine_tunings, trained, training_work
from pcqc_study.settings import Study

PHASES = {"always": "resident", "in rollouts": "rollout", "in the update": "update"}
AMOUNTS = ("runs", "updates", "trajectories")
TOO_LITTLE = "TOO LITTLE"


def make_plan(study: Study) -> dict:
    """Everything that `pcqc plan` prints; `problems` is empty if the study fits.

    Raises:
        UserError: an unknown kind of device or an unknown shape of a model.
    """
    placed = study.placement is not None
    sound = placed and not list(contradictions(study))
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
        "ablations": {name: _run(study, m, sound) for name, m in ablations(study).items()},
        "storage": storage(study),
        "assumptions": asdict(study.assumptions),
        "sources": study.assumptions.sources(),
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
    """The plan of `make_plan` in tables: sums of what its data has part by part."""
    memory = [
        {
            "role": role["role"],
            "model": role["model"],
            "where": span(role["devices"]),
            **{name: sum(role[phase].values()) for name, phase in PHASES.items()},
            "on the host": role["host"],
        }
        for role in plan["memory"]
    ]
    devices = [
        {
            "methods": ", ".join(load["methods"]),
            "where": span(load["devices"]),
            **{name: load[name] for name in ("rollout", "update", "available")},
            "actor's cache, tokens": load["cache"],
            "": "fits" if max(load["rollout"], load["update"]) <= load["available"] else TOO_LITTLE,
        }
        for load in plan["devices"]
    ]
    courses = {n: {"runs": 1, "updates": c["steps"], **c} for n, c in plan["sft"].items()}
    reported = plan["assumptions"]["reported_gpu_hours"]
    runs = [_row(name, part) for name, part in {**plan["methods"], **courses}.items()]
    for row in runs:
        row |= {"reported": reported.get(row["method"])} if reported else {}
    disk = [{"": name.removesuffix("_gib"), "GiB": gib} for name, gib in plan["storage"].items()]
    sources = [
        {"": name, "value": value, "from": source}
        for name, (value, source) in plan["sources"].items()
    ]
    tables = {
        "Runs and SFT; a tree search without pruning": runs,
        "Disk": disk,
        "Memory of a role on each of its devices, GiB": memory,
        "Memory of a device in each phase, GiB": devices,
        "Ablations, made on demand; in no sum": [_row(*p) for p in plan["ablations"].items()],
        "What hours and memory rest on": sources if plan["placement"] else [],
    }
    texts = []
    for title, rows in tables.items():
        precision = ",.4g" if rows is sources else ",.2f"
        if rows:
            shown = tabulate(rows, headers="keys", intfmt=",", floatfmt=precision)
            texts.append(f"{title}\n{shown}")
    return "\n\n".join([f"{plan['study']}: {_total(plan, runs)}", *texts])


def _total(plan: dict, runs: list[dict]) -> str:
    """`1,391.2 GPU-hours on 1 x 8 H800, 4,408.8 GiB of disk`."""
    place, disk = plan["placement"], f"{plan['storage']['total_gib']:,.1f} GiB of disk"
    if not place:
        return f"{disk}; no `placement` in the settings, so no memory and no hours"
    where = f"{place['nodes']} x {place['devices_per_node']} {place['device']}"
    total = sum(row.get("of all", 0.0) for row in runs)
    return f"{f'{total:,.1f} GPU-hours on ' if total else ''}{where}, {disk}"


def _row(name: str, part: dict) -> dict:
    """What a method's runs or a fine-tuning sample and cost."""
    row = {"method": name} | {what: round(part.get(what, 0)) for what in AMOUNTS}
    if part["hours"]:
        gpu_hours = part["hours"]["gpu_hours"]
        row |= {"GPU-hours of one": gpu_hours, "of all": gpu_hours * part["runs"]}
    return row
