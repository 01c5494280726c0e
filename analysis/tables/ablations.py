"""Ablations beside the method that each differs from in a setting or two; made on demand."""

import dataclasses
from typing import Any

from analysis.budgets import COSTS
from analysis.claims import compared
from analysis.collected import Collected
from analysis.load import evaluated_methods, load_methods
from analysis.notices import captioned
from analysis.table import MISSING, Cell, Column, Number, Row, Table, difference
from analysis.tables.layout import mean_cell, random_parts
from analysis.training_flops import COMPUTE
from pcqc_study.fingerprint import flat
from pcqc_study.study_file import Study

COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("changed", "Changed", numeric=False),
    Column("accuracy", "Acc. (%)"),
    Column("turns", "Q/ep."),
    Column("difference", "Acc. (pp)", "Over its parent"),
    Column("interval", "95% CI", "Over its parent"),
    Column("trajectories", "Complete trajectories"),
    Column(COMPUTE, "TFLOPs"),
)


def build(study: Study) -> Table | None:
    """Each evaluated ablation below its parent; None where none is evaluated."""
    ready = evaluated_methods(study)
    ablations = [name for name in ready if study.method(name).role == "ablation"]
    parents = {name: parent(study, name) for name in ablations}
    shown = [name for name in ablations if parents[name][0] in ready]
    if not shown:
        return None
    runs = load_methods(study, [*(parents[name][0] for name in shown), *shown])
    rows, effects = [], []
    for origin in dict.fromkeys(parents[name][0] for name in shown):
        rows.append(_row(runs, origin, "nothing", (MISSING, MISSING), rule=bool(rows)))
        for name in (name for name in shown if parents[name][0] == origin):
            comparison = compared(runs, name, origin, list(study.benchmarks), "accuracy")
            effects.append(comparison.effect)
            changes = parents[name][1].items()
            changed = "; ".join(f"{key} {before} → {after}" for key, (before, after) in changes)
            rows.append(_row(runs, name, changed, difference(comparison.effect)))
    caption = (
        "A method and, below it, its ablations: the same with the settings of “Changed”. Acc.: "
        "percent of right diagnoses; Q/ep.: turns before the final answer; both means over "
        "benchmarks, then mean ± SD over runs. Over its parent: difference in accuracy from the "
        "method above, with a 95% interval of this row alone. Intervals "
        f"{random_parts(effects)}. Trajectories and TFLOPs: of the training of one run, mean over "
        "runs."
    )
    title = f"Ablations: {study.title}."
    return Table("ablations", title, captioned(study, caption), COLUMNS, tuple(rows))


def _row(
    runs: Collected, method: str, changed: str, over: tuple[Cell, Cell], rule: bool = False
) -> Row:
    names = list(runs.benchmarks)
    totals = [runs.record(method, run)["training"]["totals"] for run in runs.runs(method)]
    trajectories = sum(total["trajectories"] for total in totals) / len(totals)
    curves = [runs.curve(method, run, "update", COMPUTE) for run in runs.runs(method)]
    spent: Cell = MISSING
    if all(len(curve) for curve in curves):
        spent = COSTS[COMPUTE].number(sum(curve.iloc[-1] for curve in curves) / len(curves))
    cells = (
        runs.title(method),
        changed,
        mean_cell(runs, method, names),
        mean_cell(runs, method, names, "turns"),
        *over,
        Number(trajectories, digits=0),
        spent,
    )
    return Row(method, cells, rule=rule)


def parent(study: Study, method: str) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """The method that an ablation differs least from; the settings that differ: (there, here)."""
    own = _settings(study, method)
    differing = {}
    for name, other in study.methods.items():
        if not other.on_demand and other.kind == "rl":
            theirs = _settings(study, name)
            keys = sorted(own.keys() | theirs.keys())
            differing[name] = {
                key: (theirs.get(key), own.get(key))
                for key in keys
                if theirs.get(key) != own.get(key)
            }
    name = min(differing, key=lambda name: len(differing[name]))
    return name, differing[name]


def _settings(study: Study, method: str) -> dict[str, Any]:
    """What a method samples and learns from, by dotted name."""
    entry = study.to_dict()["methods"][method]
    entry["rl"] = dataclasses.asdict(study.rl_of(study.method(method)))
    for name in ("title", "role", "runs"):
        entry.pop(name, None)
    return flat(entry)
