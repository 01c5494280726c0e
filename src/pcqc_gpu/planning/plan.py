"""The plan of a study: models, disk; with a placement, memory; hours where they were measured."""

from dataclasses import asdict

from tabulate import tabulate

from pcqc_gpu.planning.architecture import BYTES, architecture
from pcqc_gpu.planning.checks import contradictions, loads, misfits, span
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.hours import run_hours
from pcqc_gpu.planning.memory import role_memories
from pcqc_gpu.planning.storage import checkpoints, storage
from pcqc_gpu.planning.trainings import trained
from pcqc_study.study_file import Study

PHASES = {"always": "resident", "in rollouts": "rollout", "in the update": "update"}
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
        "methods": {
            name: {
                "title": method.title,
                "runs": len(method.runs),
                "updates": method.updates,
                "checkpoints": checkpoints(study, method),
                "measured": run_hours(study, name),
            }
            for name, method in trained(study).items()
        },
        "storage": storage(study),
        "margins": asdict(study.assumptions),
        "placement": asdict(study.placement) if placed else None,
        "memory": [asdict(role) for role in roles],
        "devices": [asdict(load) for load in loads(study, roles)] if sound else [],
        "problems": misfits(study),
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
    disk = [{"": name.removesuffix("_gib"), "GiB": gib} for name, gib in plan["storage"].items()]
    margins = [{"assumed": name, "GiB": gib} for name, gib in plan["margins"].items()]
    tables = {
        "Runs": [_row(*method) for method in plan["methods"].items()],
        "Disk": disk,
        "Memory of a role on each of its devices, GiB": memory,
        "Memory of a device in each phase, GiB": devices,
        "Margins of memory": margins if devices else [],
    }
    texts = [
        f"{title}\n{tabulate(rows, headers='keys', intfmt=',', floatfmt=',.2f')}"
        for title, rows in tables.items()
        if rows
    ]
    return "\n\n".join([f"{plan['study']}: {_total(plan)}", *texts])


def _row(name: str, method: dict) -> dict:
    """What a method's runs are, and what they take."""
    row = {"method": name} | {what: method[what] for what in ("runs", "updates", "checkpoints")}
    if (measured := method["measured"]) is None:
        return row | {"device-hours of one": "not measured"}
    device_hours = measured["device_hours"]
    hours = {"device-hours of one": device_hours, "of all": device_hours * method["runs"]}
    texts = {name: f"{value:,.2f}" for name, value in hours.items()}
    return row | texts | {"measured on": measured["device"]}


def _total(plan: dict) -> str:
    """`1 x 8 H800, 4,408.8 GiB of disk`."""
    place, disk = plan["placement"], f"{plan['storage']['total_gib']:,.1f} GiB of disk"
    if not place:
        return f"{disk}; no `placement` in the settings, so no memory"
    return f"{place['nodes']} x {place['devices_per_node']} {place['device']}, {disk}"
