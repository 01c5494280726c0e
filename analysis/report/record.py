"""The audit trail: chosen and rejected checkpoints, settings, and a link to every run."""

import yaml

from analysis.collected import Collected
from analysis.report.markup import escape, simple_table
from analysis.table import MISSING
from analysis.tables.training_cost import through

MLFLOW = "http://127.0.0.1:5000/#/experiments"


def selection(collected: Collected) -> str:
    """Selected checkpoints in a table; each run's rejected ones, with reasons, to unfold."""
    chosen, unfolded = [], ""
    for method, run in _all_runs(collected):
        found = collected.record(method, run)["selection"]
        title = f"{collected.title(method)} run {run}"
        if not found:
            chosen.append([title, MISSING, MISSING, MISSING, "nothing to choose from"])
            continue
        selected, rejected = found["selected"], found["rejected"]
        chosen.append(
            [title, *_checkpoint(selected), f"{len(rejected)} rejected; {found['criterion']}"]
        )
        if rejected:
            rows = [[*_checkpoint(item), item["reason"]] for item in rejected]
            head = ["Update", "Accuracy (%)", "Q/ep.", "Reason"]
            table = simple_table(f"rejected-{method}-{run}", f"{title}: rejected.", "", head, rows)
            unfolded += table
    benchmark = collected.benchmarks[collected.study.development].title
    caption = f"Chosen on {benchmark}; no other benchmark can be read by the selection."
    head = ["Run", "Update", "Accuracy (%)", "Q/ep.", "How"]
    details = f"<details><summary>Rejected checkpoints</summary>{unfolded}</details>"
    return simple_table("selection", "Selected checkpoints.", caption, head, chosen) + details


def _checkpoint(item: dict) -> list[str]:
    """Update, accuracy in percent and Q/ep. of a checkpoint, as texts."""
    accuracy, turns = item.get("accuracy"), item.get("turns")
    return [
        str(item["update"]),
        MISSING if accuracy is None else f"{100 * accuracy:.2f}",
        MISSING if turns is None else f"{turns:.3f}",
    ]


def settings(collected: Collected) -> str:
    """All settings of the study, to unfold."""
    plain = _plain(collected.study.to_dict())
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    return f"<details><summary>All settings</summary><pre>{escape(text)}</pre></details>"


def _plain(value):
    """The settings with tuples as lists, which YAML can write."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def runs(collected: Collected) -> str:
    """One row per run: seed, cost, commit, and its page in MLflow."""
    rows = ""
    for method, run in _all_runs(collected):
        entry = collected.record(method, run)
        manifest = entry["training"] or entry["evaluation"]
        totals = (entry["training"] or {}).get("totals", {})
        update = entry["evaluation"]["update"]
        hours = through(collected, method, run, "device_hours", update)
        cells = [
            f"{collected.title(method)} run {run}",
            str(manifest.get("seed", MISSING)),
            f"{update} of {manifest.get('updates', update)}",
            f"{hours:.3f}" if hours else MISSING,
            f"{totals['trajectories']:,}" if "trajectories" in totals else MISSING,
            str(manifest.get("git_commit") or MISSING)[:10],
        ]
        link = f"{MLFLOW}/{entry.get('experiment_id', 0)}/runs/{entry['run_id']}"
        linked = f"<td><a href='{escape(link)}'><code>{escape(entry['run_id'][:8])}</code></a></td>"
        rows += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + linked + "</tr>"
    head = [
        "Run",
        "Seed",
        "Update",
        "Device-hours to it",
        "Trajectories in all",
        "Commit",
        "MLflow",
    ]
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return (
        "<p>The links open while <code>make ui</code> serves MLflow on this machine.</p>"
        f"<div class='scroll'><table><thead><tr>{titles}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _all_runs(collected: Collected) -> list[tuple[str, str]]:
    return [(method, run) for method in collected.methods() for run in collected.runs(method)]
