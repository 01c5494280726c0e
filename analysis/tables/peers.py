"""Published credits beside GRPO and PCQC, at selected checkpoints and at equal budgets."""

from dataclasses import replace
from pathlib import Path

from analysis.budgets import COSTS, Budgets, budgets
from analysis.claims import compared
from analysis.collected import Collected
from analysis.evaluated import evaluated_methods, load_evaluated
from analysis.render import render
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, number
from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import write_atomic

NAME = "peers"
FORMS = ("tex", "csv", "md")
RIVALS = ("grpo", "pcqc")
KINDS = ("trajectories", "device_hours")
COLUMNS = (
    Column("method", "Credit", numeric=False),
    Column("accuracy", "Acc. (%)", "All benchmarks"),
    Column("turns", "Q/ep.", "All benchmarks"),
    *(
        Column(f"{key}_{rival}", title, f"Over {name}")
        for rival, name in (("grpo", "GRPO"), ("pcqc", "PCQC"))
        for key, title in (("difference", "Acc. (pp)"), ("interval", "95% CI"))
    ),
    *(
        Column(f"{key}_{kind}", title, f"Equal {name}")
        for kind, name in (("trajectories", "consultations"), ("device_hours", "device-hours"))
        for key, title in (("accuracy", "Acc. (%)"), ("spent", "Spent (%)"))
    ),
    Column("front", "Front", numeric=False),
)


def write(study: Study) -> list[Path]:
    """Write `results/<study>/tables/peers.*`; the files.

    Raises:
        UserError: no peer is evaluated.
    """
    table, files = build(study), []
    if table is None:
        raise UserError(
            f"no peer of study '{study.name}' is evaluated; run `snakemake --cores 2 peers "
            f"--config study={study.name}`"
        )
    for form in FORMS:
        files.append(study.results / "tables" / f"{NAME}.{form}")
        write_atomic(files[-1], render(form, [table]))
    return files


def build(study: Study) -> Table | None:
    """Every evaluated peer and its rivals; None where no peer is evaluated."""
    ready = evaluated_methods(study)
    peers = [name for name in ready if study.method(name).role == "peer"]
    shown = [*(rival for rival in RIVALS if rival in ready), *peers]
    if not peers:
        return None
    # They count as methods here, which `Collected` lists.
    methods = {n: replace(m, role="method") if n in peers else m for n, m in study.methods.items()}
    runs = load_evaluated(replace(study, methods=methods), shown)
    kinds = {kind: budgets(runs, kind) for kind in KINDS}
    front = _front(runs, shown)
    rows = [_row(runs, name, shown, kinds, name in front) for name in shown]
    largest = ", ".join(
        f"{COSTS[kind].number(found.amounts['largest']).text()} {COSTS[kind].unit}"
        for kind, found in kinds.items()
        if found
    )
    development = study.benchmarks[study.development].title
    caption = (
        "Published credits on the same consultations and learner; docs/credits.md says what each "
        "is. All benchmarks: means over benchmarks and runs at selected checkpoints; intervals: "
        f"runs and cases are random, crossed. Equal budgets: {largest or 'not recorded'} in "
        f"training, the least that any run spent; validation on {development} at every run's last "
        "checkpoint within it, and the share of the budget spent by then. Front: no other is at "
        "least as good in accuracy, turns and device-hours, and better in one."
    )
    return Table(NAME, f"Published credits: {study.title}.", caption, COLUMNS, tuple(rows))


def _row(
    runs: Collected,
    method: str,
    shown: list[str],
    kinds: dict[str, Budgets | None],
    on_front: bool,
) -> Row:
    names = list(runs.benchmarks)
    cells: list[Cell] = [
        runs.title(method),
        number(runs.average(method, names), 2),
        number(runs.average(method, names, "turns"), 3),
    ]
    for rival in RIVALS:
        if rival == method or rival not in shown:
            cells += [MISSING, MISSING]
            continue
        effect = compared(runs, method, rival, names, "accuracy").effect
        cells += [Number(effect.difference, signed=True), Range(effect.low, effect.high)]
    for found in kinds.values():
        cells += _at_budget(runs, method, found)
    cells.append("front" if on_front else "")
    return Row(method, tuple(cells), strong=method == "pcqc")


def _at_budget(runs: Collected, method: str, found: Budgets | None) -> list[Cell]:
    """Validation accuracy at the largest budget of a kind, and the share of it that was spent."""
    letters = runs.runs(method)
    reached = [found.reached(method, run, "largest") for run in letters] if found else [None]
    if found is None or None in reached:
        return [MISSING, MISSING]
    at = list(zip(letters, reached, strict=True))
    accuracy = [100 * runs.curve(method, run, "validation", "accuracy")[u] for run, u in at]
    spent = [100 * found.spent[method, run][u] / found.amounts["largest"] for run, u in at]
    return [number(over_runs(accuracy), 2), Number(sum(spent) / len(spent), digits=0)]


def _front(runs: Collected, shown: list[str]) -> set[str]:
    """Methods that no other dominates in accuracy, turns and device-hours of training."""
    names = list(runs.benchmarks)
    points = {}
    for method in shown:
        hours = [
            runs.record(method, run)["training"]["totals"]["device_seconds"]
            for run in runs.runs(method)
        ]
        accuracy, turns = (runs.average(method, names, m).mean for m in ("accuracy", "turns"))
        points[method] = (-accuracy, turns, sum(hours) / len(hours))
    return {
        method
        for method, mine in points.items()
        if not any(
            other != mine and all(a <= b for a, b in zip(other, mine, strict=True))
            for other in points.values()
        )
    }
