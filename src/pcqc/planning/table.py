"""A plan as text."""

from collections.abc import Iterable, Sequence

from pcqc.planning.checks import span

PHASES = ("start", "sync", "rollout", "patient", "scorer", "update", "validation", "saving")


def render(plan: dict) -> str:
    """The plan of `make_plan` as tables, one below the other; lines end without blanks."""
    parts = [_heading(plan), _models(plan)]
    if plan["memory"]:
        parts += [_memory(plan), _devices(plan)]
    parts += [_work(plan)]
    if all(part["hours"] for part in (*plan["sft"].values(), *plan["methods"].values())):
        parts += [_hours(plan)]
    return "\n\n".join([*parts, _storage(plan), _assumptions(plan)]) + "\n"


def _heading(plan: dict) -> str:
    place = plan["placement"]
    if place is None:
        return f"{plan['study']}: no `placement` in the settings, so no memory and no hours"
    nodes = f"{place['nodes']} node{'s' if place['nodes'] > 1 else ''}"
    return f"{plan['study']}: {nodes} of {place['devices_per_node']} {place['device']}"


def _models(plan: dict) -> str:
    rows = [
        (role, model["name"], f"{model['parameters']:,}", model["dtype"], f"{model['gib']:.2f}")
        for role, model in plan["models"].items()
    ]
    return _table("role, model, parameters, format, GiB", rows, left=2)


def _memory(plan: dict) -> str:
    rows = []
    for role in plan["memory"]:
        first = (role["role"], span(role["devices"]))
        for phase in ("resident", "update", "rollout"):
            note = "" if phase == "resident" else f" ({phase})"
            for name, size in role[phase].items():
                rows.append((*first, name + note, f"{size:.1f}"))
                first = ("", "")
        if role["host"]:
            rows.append((*first, "on the host", f"{role['host']:.1f}"))
    title = "Memory, GiB per device: held all the time, or in the phase in brackets"
    return _table("role, where, what, GiB", rows, left=3, title=title)


def _devices(plan: dict) -> str:
    rows = []
    for load in plan["devices"]:
        fits = max(load["rollout"], load["update"]) <= load["available"]
        texts = (", ".join(load["methods"]), span(load["devices"]), ", ".join(load["roles"]))
        numbers = (f"{load[key]:.1f}" for key in ("rollout", "update", "available"))
        rows.append((*texts, *numbers, "fits" if fits else "TOO LITTLE"))
    header = "methods, where, roles, rollout, update, available, "
    return _table(header, rows, left=3, title="Memory by phase, GiB per device")


def _work(plan: dict) -> str:
    rows = [
        (name, "1", str(course["steps"]), *"-----", f"{course['trained_tokens'] / 1e6:,.1f}")
        for name, course in plan["sft"].items()
    ]
    for name, method in plan["methods"].items():
        counts = (f"{round(method[k]):,}" for k in ("candidates", "answers", "scores"))
        rows.append(
            (
                name,
                str(method["runs"]),
                str(method["updates"]),
                "~" * method["approximate"] + f"{method['trajectories']:,}",
                *("-" if count == "0" else count for count in counts),
                *(f"{method[k] / 1e6:,.1f}" for k in ("actor_tokens", "trained_tokens")),
            )
        )
    header = "method, runs, updates, trajectories, candidates, answers, scores, "
    header += "actor Mtok, trained Mtok"
    return _table(header, rows, left=1, title="Work of SFT and of one run")


def _hours(plan: dict) -> str:
    rows, total = [], 0.0
    for name, part in {**plan["sft"], **plan["methods"]}.items():
        hours = part["hours"]
        every = hours["gpu_hours"] * part.get("runs", 1)
        total += every
        phases = (f"{hours[p]:.2f}" if p in hours else "" for p in PHASES)
        rows.append((name, *phases, f"{hours['gpu_hours']:.1f}", f"{every:.1f}"))
    rows.append(("all", *[""] * (len(PHASES) + 1), f"{total:.1f}"))
    header = f"method, {', '.join(PHASES)}, GPU-hours, of all runs"
    return _table(header, rows, left=1, title="Hours of SFT and of one run, by phase")


def _storage(plan: dict) -> str:
    size = plan["storage"]
    count = sum(m["runs"] * m["checkpoints"] for m in plan["methods"].values())
    counted = {
        "models": "",
        "checkpoints": f"{count} of {size['checkpoint_gib']:.2f}",
        "states": f"{size['state_gib']:.2f} each",
        "total": "",
    }
    rows = [(name, text, f"{size[f'{name}_gib']:.1f}") for name, text in counted.items()]
    return _table("disk, , GiB", rows, left=2)


def _assumptions(plan: dict) -> str:
    stated = {name: value for name, value in plan["assumptions"].items() if value is not None}
    rows = [(name, f"{value:g}") for name, value in stated.items()]
    return _table("assumption, value", rows, left=1, title="Assumed (settings `assumptions`)")


def _table(header: str, rows: Iterable[Sequence[str]], left: int, title: str = "") -> str:
    """Columns as wide as needed, the first `left` of them flush left, the others right."""
    lines = [header.split(", "), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    texts.insert(1, "-" * max(map(len, texts)))
    return "\n".join([title] * bool(title) + texts)
