"""A plan as text."""

from collections.abc import Sequence

from pcqc.planning.checks import span


def render(plan: dict) -> str:
    """The plan of `make_plan` as tables, one below the other; lines end without blanks."""
    parts = [_heading(plan), _models(plan)]
    if plan["memory"]:
        parts += [_memory(plan), _devices(plan)]
    parts += [_work(plan)]
    if all(part["hours"] for part in (*plan["sft"].values(), *plan["methods"].values())):
        parts += [_hours(plan)]
    parts += [_storage(plan), _assumptions(plan)]
    return "\n\n".join(parts) + "\n"


def _heading(plan: dict) -> str:
    place = plan["placement"]
    if place is None:
        return f"{plan['study']}: no placement among its settings, so no memory and time here"
    nodes = f"{place['nodes']} node{'s' if place['nodes'] > 1 else ''}"
    return f"{plan['study']}: {nodes} of {place['devices_per_node']} {place['device']}"


def _models(plan: dict) -> str:
    rows = [
        (role, model["name"], f"{model['parameters']:,}", model["dtype"], f"{model['gib']:.2f}")
        for role, model in plan["models"].items()
    ]
    return _table(("role", "model", "parameters", "format", "GiB"), rows, left=2)


def _memory(plan: dict) -> str:
    title = "Memory, GiB per device: held all the time (update, rollout: in that phase alone)"
    rows = []
    for role in plan["memory"]:
        parts = [(name, size, "") for name, size in role["resident"].items()]
        for phase in ("update", "rollout"):
            parts += [(name, size, f" ({phase})") for name, size in role[phase].items()]
        if role["host"]:
            parts.append(("on the host", role["host"], ""))
        for number, (name, size, phase) in enumerate(parts):
            first = (role["role"], span(role["devices"])) if number == 0 else ("", "")
            rows.append((*first, name + phase, f"{size:.1f}"))
    return _table(("role", "where", "what", "GiB"), rows, left=3, title=title)


def _devices(plan: dict) -> str:
    rows = []
    for load in plan["devices"]:
        fits = max(load["rollout"], load["update"]) <= load["there"]
        numbers = (f"{load[key]:.1f}" for key in ("rollout", "update", "there"))
        texts = (", ".join(load["methods"]), span(load["devices"]), ", ".join(load["roles"]))
        rows.append((*texts, *numbers, "fits" if fits else "TOO LITTLE"))
    header = ("methods", "where", "roles", "rollout", "update", "there", "")
    return _table(header, rows, left=3, title="Memory by phase, GiB per device")


def _work(plan: dict) -> str:
    rows = [
        (name, "1", str(course["steps"]), *"-----", f"{course['trained_tokens'] / 1e6:,.1f}")
        for name, course in plan["sft"].items()
    ]
    for name, method in plan["methods"].items():
        trajectories = f"{method['trajectories']:,}"
        counts = (_count(method[k]) for k in ("candidates", "answers", "scores"))
        tokens = (f"{method[k] / 1e6:,.1f}" for k in ("actor_tokens", "trained_tokens"))
        rows.append(
            (
                name,
                str(method["runs"]),
                str(method["updates"]),
                "~" * method["approximate"] + trajectories,
                *counts,
                *tokens,
            )
        )
    header = (
        "method",
        "runs",
        "updates",
        "trajectories",
        "candidates",
        "answers",
        "scores",
        "actor Mtok",
        "trained Mtok",
    )
    return _table(header, rows, left=1, title="Work of SFT and of one run")


def _hours(plan: dict) -> str:
    phases = ("rollout", "patient", "scorer", "update", "validation")
    rows, total = [], 0.0
    for name, course in plan["sft"].items():
        size = f"{course['gpu_hours']:.1f}"
        total += course["gpu_hours"]
        rows.append((name, "", "", "", f"{course['hours']:.2f}", "", size, size))
    for name, method in plan["methods"].items():
        hours = method["hours"]
        every = hours["gpu_hours"] * method["runs"]
        total += every
        rows.append(
            (
                name,
                *(f"{hours[p]:.2f}" for p in phases),
                f"{hours['gpu_hours']:.1f}",
                f"{every:.1f}",
            )
        )
    rows.append(("all", *[""] * 6, f"{total:.1f}"))
    header = ("method", *phases, "GPU-hours", "of all runs")
    return _table(header, rows, left=1, title="Hours of SFT and of one run, by phase")


def _storage(plan: dict) -> str:
    size = plan["storage"]
    count = sum(m["runs"] * m["checkpoints"] for m in plan["methods"].values())
    counted = {
        "models": "",
        "checkpoints": f"{count} of {size['checkpoint_gib']:.2f}",
        "states": f"{size['state_gib']:.2f} each",
    }
    rows = [(name, text, f"{size[f'{name}_gib']:.1f}") for name, text in counted.items()]
    rows.append(("all", "", f"{size['total_gib']:.1f}"))
    return _table(("disk", "", "GiB"), rows, left=2)


def _assumptions(plan: dict) -> str:
    rows = [(name, f"{value:g}") for name, value in plan["assumptions"].items()]
    return _table(("assumption", "value"), rows, left=1, title="Assumed (settings `assumptions`)")


def _count(number: float) -> str:
    return f"{round(number):,}" if number else "-"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int, title: str = "") -> str:
    """Columns as wide as they must be, the first `left` of them flush left, the others right."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    texts = [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    texts.insert(1, "-" * max(map(len, texts)))
    return "\n".join([title] * bool(title) + texts)
