"""PCQC against its control that supervises the executed question only."""

from collections.abc import Mapping
from dataclasses import replace

from analysis.collected import Collected
from analysis.published import published
from analysis.statistics.estimates import Estimate
from analysis.table import Column, Number, Row, Table, number
from analysis.tables.layout import Place, Words

NAME = "same_state_q1"
METHODS = ("pcqc", "same_state_q1")
METRICS = {"accuracy": ("Accuracy (%)", 2), "turns": ("Q/ep.", 3)}


def build(collected: Collected) -> Table:
    """One run of each, then the mean over all runs."""
    collected = collected.at_fixed_update(METHODS)
    place = Place.study(collected, collected.titles(METHODS))
    names = list(collected.benchmarks)
    values = {metric: {method: {} for method in METHODS} for metric in METRICS}
    everywhere = {}
    for metric, (_, digits) in METRICS.items():
        for method in METHODS:
            row = values[metric][method]
            row |= {name: collected.of_run(method, collected.run, name, metric) for name in names}
            row["mean"] = sum(row.values()) / len(row)
            everywhere[metric, method] = number(collected.average(method, names, metric), digits)
    updates = [collected.update(method, collected.run) for method in METHODS]
    trained = [collected.record(m, collected.run)["training"]["updates"] for m in METHODS]
    where = (
        f"both at update {updates[0]}"
        if collected.fixed
        else f"at the selected updates {updates[0]} and {updates[1]}"
    )
    words = Words(
        NAME,
        "Candidate supervision at a matched training budget.",
        f"Run {collected.run} of PCQC and Same-State-Q1, trained for {trained[0]} and {trained[1]} "
        f"updates, {where}. The mean "
        f"weights all {len(names)} benchmarks equally; the "
        "last row gives it over all runs.",
    )
    table = _layout(words, place, values)
    cells = [everywhere[metric, method] for metric in METRICS for method in METHODS]
    last = Row("all_runs", (f"Mean, {_runs(collected)} runs", *_bold(cells)))
    return replace(table, rows=(*table.rows, last))


def _runs(collected: Collected) -> str:
    """`3`, or the two numbers of runs where they differ."""
    counts = [len(collected.runs(method)) for method in METHODS]
    return str(counts[0]) if len(set(counts)) == 1 else "/".join(map(str, counts))


def paper() -> Table:
    """The published table."""
    words = Words(
        NAME,
        "Candidate supervision at a matched training budget in the paper.",
        "Run A of PCQC and one run of Same-State-Q1, both at update "
        f"{published().tables['training']['reported_updates']['pcqc']}.",
    )
    return _layout(words, Place.paper(METHODS), published().tables[NAME])


def _layout(words: Words, place: Place, values: Mapping[str, Mapping]) -> Table:
    columns = [Column("benchmark", "Benchmark", numeric=False)]
    for metric, (title, _) in METRICS.items():
        columns += [Column(f"{m}_{metric}", place.methods[m], title) for m in METHODS]
    rows = []
    for key in [*place.benchmarks, "mean"]:
        cells = []
        for metric, (_, digits) in METRICS.items():
            for method in METHODS:
                value = Estimate(values[metric][method][key], None, 1)
                cases = place.cases.get(key) if metric == "accuracy" else None
                cells.append(number(value, digits, cases))
        mean = key == "mean"
        title = place.benchmarks.get(key, "Mean")
        rows.append(Row(key, (title, *(_bold(cells) if mean else cells)), rule=mean))
    return words.table(columns, rows)


def _bold(cells: list[Number]) -> list[Number]:
    """The higher accuracy and the lower Q/ep. of a row bold."""
    accuracy, turns = cells[:2], cells[2:]
    best = (max(c.value for c in accuracy), min(c.value for c in turns))
    return [
        replace(cell, best=cell.value == wanted)
        for part, wanted in zip((accuracy, turns), best, strict=True)
        for cell in part
    ]
