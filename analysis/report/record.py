"""The audit trail: chosen and rejected checkpoints, settings, and every run."""

import json

import yaml

from analysis.collected import Collected
from analysis.table import MISSING, Column, Row, Table


def selection(collected: Collected) -> dict[str, Table]:
    """Selected checkpoints, and the rejected ones with reasons."""
    chosen, rejected, rule = [], [], ""
    for method, run in _all_runs(collected):
        choice = collected.record(method, run)["selection"]
        title = f"{collected.title(method)} run {run}"
        if not choice:
            chosen.append([title, *[MISSING] * 4])
            continue
        rule = choice["criterion"]
        chosen.append([title, *_checkpoint(choice["selected"]), str(len(choice["rejected"]))])
        rejected += [[title, *_checkpoint(item), item["reason"]] for item in choice["rejected"]]
    benchmark = collected.benchmarks[collected.study.development].title
    caption = f"Checkpoints are chosen on {benchmark}, the only benchmark that the choice reads. "
    caption += f"Rule: {rule}." if rule else ""
    return {
        "chosen": _texts("selection", "Selected checkpoints.", caption, "Others rejected", chosen),
        "rejected": _texts("rejected", "Rejected checkpoints.", "", "Reason", rejected),
    }


def _texts(name: str, title: str, caption: str, last: str, rows: list[list[str]]) -> Table:
    head = ("Run", "Update", "Accuracy (%)", "Q/ep.", last)
    columns = tuple(Column(text, text, numeric=False) for text in head)
    return Table(
        name, title, caption, columns, tuple(Row(str(i), tuple(row)) for i, row in enumerate(rows))
    )


def _checkpoint(item: dict) -> list[str]:
    """Update, accuracy in percent and Q/ep. of a checkpoint, as texts."""
    accuracy, turns = item.get("accuracy"), item.get("turns")
    return [
        str(item["update"]),
        MISSING if accuracy is None else f"{100 * accuracy:.2f}",
        MISSING if turns is None else f"{turns:.3f}",
    ]


def settings(collected: Collected) -> str:
    """All settings of the study as YAML."""
    plain = json.loads(json.dumps(collected.study.to_dict()))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def runs(collected: Collected) -> list[list[str]]:
    """One row per run: seed, cost, commit, and the fingerprint by which MLflow finds it."""
    rows = []
    for method, run in _all_runs(collected):
        entry = collected.record(method, run)
        manifest = entry["training"] or entry["evaluation"]
        totals = (entry["training"] or {}).get("totals", {})
        update = entry["evaluation"]["update"]
        hours = collected.spent(method, run, "device_hours")
        cells = [
            f"{collected.title(method)} run {run}",
            str(collected.study.seed(run)),
            f"{update} of {manifest.get('updates', update)}",
            f"{hours:.3f}" if hours else MISSING,
            f"{totals['trajectories']:,}" if "trajectories" in totals else MISSING,
            str(manifest.get("git_commit") or MISSING)[:10],
        ]
        rows.append([*cells, entry["fingerprint"]])
    return rows


def accepted(collected: Collected) -> list[str]:
    """Runs that their author declared still valid (`pcqc accept`), with reason and edits."""
    return [
        f"{collected.title(method)} run {run}, accepted {note}"
        for method, run in _all_runs(collected)
        for note in collected.record(method, run)["evaluation"].get("also_for", {}).values()
    ]


def _all_runs(collected: Collected) -> list[tuple[str, str]]:
    return [(method, run) for method in collected.methods() for run in collected.runs(method)]
