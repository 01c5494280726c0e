"""The audit trail: chosen and rejected checkpoints, and every run."""

from analysis.collected import Collected
from analysis.table import MISSING, Column, Row, Table, listed


def selection(collected: Collected) -> dict[str, Table]:
    """Selected checkpoints, and the rejected ones with reasons."""
    chosen, rejected, rule = [], [], ""
    for title, base, method, run in _all_runs(collected):
        choice = base.record(method, run)["selection"]
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


def provenance(collected: Collected) -> str:
    """How many runs were trained, when, at which commits, on what, and what they cost."""
    manifests = [
        collected_run["training"] or collected_run["evaluation"]
        for base in collected.on_each_base
        for collected_run in base.records.values()
    ]
    trained = [manifest for manifest in manifests if "totals" in manifest]
    known = trained or manifests
    days = sorted({manifest["finished"][:10] for manifest in known if manifest.get("finished")})
    commits = sorted({str(m["git_commit"])[:8] for m in known if m.get("git_commit")})
    machines = sorted({m["machine"]["processor"] for m in known if "machine" in m})
    hours = sum(m["totals"].get("device_seconds", 0) for m in trained) / 3600
    parts = [
        f"{len(trained)} training runs",
        "–".join(dict.fromkeys((days[0], days[-1]))) if days else "",
        f"commit {listed(commits)}" if commits else "",
        listed(machines),
        f"{hours:.1f} device-hours of training" if hours else "",
    ]
    return " · ".join(part for part in parts if part)


def runs(collected: Collected) -> list[list[str]]:
    """One row per run: seed, cost, commit, and the fingerprint by which MLflow finds it."""
    rows = []
    for title, base, method, run in _all_runs(collected):
        entry = base.record(method, run)
        manifest = entry["training"] or entry["evaluation"]
        totals = (entry["training"] or {}).get("totals", {})
        update = entry["evaluation"]["update"]
        hours = base.spent(method, run, "device_hours")
        cells = [
            title,
            str(base.study.seed(run)),
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
        f"{title}, accepted {note}"
        for title, base, method, run in _all_runs(collected)
        for note in base.record(method, run)["evaluation"].get("also_for", {}).values()
    ]


def _all_runs(collected: Collected) -> list[tuple[str, Collected, str, str]]:
    """Title, study, method and letter of every run, base model by base model."""
    return [
        (f"{base.title(method)} run {run}{where}", base, method, run)
        for number, base in enumerate(collected.on_each_base, 1)
        for where in (f", base model {number}" if collected.others else "",)
        for method in base.methods()
        for run in base.runs(method)
    ]
