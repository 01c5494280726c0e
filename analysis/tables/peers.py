"""Published credits beside GRPO and PCQC, at selected checkpoints and at equal budgets."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.budgets import COSTS, Budgets, budgets, estimate_at, rule
from analysis.claims import compared
from analysis.collected import Collected
from analysis.load import load, load_methods
from analysis.notices import captioned, in_words
from analysis.statistics.intervals import Sample
from analysis.table import (
    MISSING,
    Cell,
    Column,
    Row,
    Table,
    difference,
    listed,
    mean_of_runs,
    number,
)
from analysis.tables import write_forms
from analysis.tables.layout import mean_cell
from analysis.training_flops import COMPUTE
from pcqc_base.errors import UserError
from pcqc_clinic.quality import EARLY
from pcqc_study.graph import RIVALS, latest
from pcqc_study.study_file import START, Study

if TYPE_CHECKING:
    from pcqc_base.task import Task

KINDS = ("trajectories", COMPUTE)
COLUMNS = (
    Column("method", "Credit", numeric=False),
    Column("accuracy", "Acc. (%)", "All benchmarks"),
    Column("turns", "Q/ep.", "All benchmarks"),
    *(
        Column(f"{key}_{rival}", title, f"Over {name}")
        for rival, name in (("grpo", "GRPO"), ("pcqc", "PCQC"))
        for key, title in (("difference", "Acc. (pp)"), ("interval", "95% CI"))
    ),
    Column("accuracy_trajectories", "Consultations", "Acc. (%) at equal"),
    Column("accuracy_compute", "FLOPs", "Acc. (%) at equal"),
    Column("best_questions", "Best questions (%)"),
    Column("front", "Front", numeric=False),
)
QUALITY = "best_questions"  # that the clinic knows of each validation


def run(task: "Task", study: Study) -> None:
    """Write `peers.*`; UserError where no peer is evaluated."""
    table = build(study, task.inputs)
    if table is None:
        raise UserError(
            f"no peer of study '{study.name}' is evaluated; run `snakemake --cores 2 peers "
            f"--config study={study.name}`"
        )
    write_forms(task.folder, table.name, [table])


def peer_runs(study: Study, inputs: Mapping[str, Path] | None = None) -> Collected:
    """Shared SFT, the rivals and the peers, each of which every run is known."""
    return load_methods(study, [START, *RIVALS, *_peers(study)], inputs)


def _peers(study: Study) -> list[str]:
    return [n for n, m in study.methods.items() if m.runs and m.role == "peer"]


def build(study: Study, inputs: Mapping[str, Path] | None = None) -> Table | None:
    """Every evaluated peer and its rivals; None without evaluated peers.

    Args:
        study: the study.
        inputs: of the table's job; the newest evaluations where not given.
    """
    runs = peer_runs(study, inputs)
    ready = runs.methods()
    peers = [name for name in _peers(study) if name in ready]
    if not peers:
        return None
    names = [*(rival for rival in RIVALS if rival in ready), *peers]
    runs = runs.only([START, *names])
    kinds = {kind: spent for kind in KINDS if (spent := budgets(runs, kind))}
    front = _front(runs, names)
    start = [START] if START in ready else []
    known = [column for column in COLUMNS if column.key != QUALITY or QUALITY in runs.updates]
    repeated = _repeated(study)
    alike = list(repeated.values())
    rows = [_row(runs, name, kinds, name in front, known, alike) for name in [*start, *names]]
    caption = captioned(study, _caption(study, kinds, list(repeated)))
    title = f"Published credits: {study.title}."
    return Table("peers", title, caption, tuple(known), tuple(rows))


def _repeated(study: Study) -> dict[str, Sample]:
    """Title -> runs under all base models, of collected methods that have several under one."""
    if not latest(study, "collect").exists():
        return {}
    collected = load(study)
    every = {
        collected.title(name): collected.sample(name, list(collected.benchmarks))
        for name in collected.methods()
    }
    return {
        title: sample
        for title, sample in every.items()
        if any(len(runs) > 1 for runs in sample.by_base().values())
    }


def _caption(study: Study, kinds: dict[str, Budgets], repeated: list[str]) -> str:
    largest = ", ".join(COSTS[kind].text(each.amounts["whole"]) for kind, each in kinds.items())
    development = study.benchmarks[study.development].title
    quality = (
        f"Best questions: percent of the first {in_words(EARLY)} answered questions on "
        f"{development} after which a Bayes-optimal diagnosis would be at least as accurate as "
        "after any other question. "
        if study.synthetic
        else ""
    )
    varies = (
        f"each method's runs are taken to vary as those of {listed(repeated)} do"
        if repeated
        else "where both methods have one run, cases alone are random"
    )
    return (
        "Ways to credit turns or questions, trained on the same cases by the same learner; "
        "docs/credits.md says what each is. Acc.: percent of right diagnoses; Q/ep.: turns "
        "before the final answer; means over benchmarks and runs, each run at its checkpoint with "
        f"the highest accuracy on {development}. Over GRPO, over PCQC: difference in accuracy, "
        "with a 95% interval of this row alone that takes runs and cases as random and crossed; "
        f"{varies}. At equal: validation on {development} of every run when its training had cost "
        f"{largest or 'as much; no cost is recorded'}. {rule(kinds.values())} {quality}Front: no "
        "other is at least as good in accuracy, turns and, where the runs logged what it is "
        "counted from, compute, and better in one of them."
    )


def _row(
    runs: Collected,
    method: str,
    kinds: dict[str, Budgets],
    on_front: bool,
    columns: list[Column],
    alike: list[Sample],
) -> Row:
    benchmarks = list(runs.benchmarks)
    cells: dict[str, Cell] = {
        "method": runs.title(method),
        "accuracy": mean_cell(runs, method, benchmarks),
        "turns": mean_cell(runs, method, benchmarks, "turns"),
        "front": "front" if on_front else "",
    }
    for rival in RIVALS:
        if rival == method or rival not in runs.methods():
            continue
        effect = compared(runs, method, rival, benchmarks, "accuracy", alike).effect
        cells[f"difference_{rival}"], cells[f"interval_{rival}"] = difference(effect)
    if method != START and QUALITY in runs.updates:
        curves = {run: runs.curve(method, run, "validation", QUALITY) for run in runs.runs(method)}
        at_selected = [curve.get(runs.update(method, run)) for run, curve in curves.items()]
        shares = [None if share is None else 100 * share for share in at_selected]
        cells[QUALITY] = mean_of_runs(shares, 1)
    for kind, spent in kinds.items() if method != START else ():
        counted = [run for of, run in spent.spent[0] if of == method]
        weights = {run: spent.weights(method, run, "whole") for run in counted}
        if accuracy := estimate_at(runs, method, "accuracy", weights):
            cells[f"accuracy_{kind}"] = number(accuracy, 2)
    row = tuple(cells.get(column.key, MISSING) for column in columns)
    return Row(method, row, strong=method == "pcqc")


def _front(runs: Collected, shown: list[str]) -> set[str]:
    """Methods that no other dominates in accuracy, turns and, where known, compute."""
    names, counted = list(runs.benchmarks), {}
    for method in shown:
        curves = [runs.curve(method, run, "update", COMPUTE) for run in runs.runs(method)]
        if all(len(curve) for curve in curves):
            counted[method] = sum(curve.iloc[-1] for curve in curves) / len(curves)
    points = {}
    for method in shown:
        accuracy, turns = (runs.average(method, names, m).mean for m in ("accuracy", "turns"))
        spent = counted[method] if counted.keys() == set(shown) else 0.0
        points[method] = (-accuracy, turns, spent)
    return {
        method
        for method, mine in points.items()
        if not any(
            other != mine and all(a <= b for a, b in zip(other, mine, strict=True))
            for other in points.values()
        )
    }
