"""PCQC against its control that supervises the executed question only."""

from dataclasses import replace

from analysis.collected import Collected
from analysis.notices import in_words
from analysis.statistics.estimates import Estimate
from analysis.table import Column, Number, Row, Table, number

METHODS = ("pcqc", "same_state_q1")
METRICS = {"accuracy": ("Accuracy (%)", 2), "turns": ("Q/ep.", 3)}


def build(collected: Collected) -> Table:
    """One run of each, then the mean over all runs."""
    collected = collected.at_fixed_update(METHODS)
    names, run = list(collected.benchmarks), collected.run
    pairs = [(metric, method) for metric in METRICS for method in METHODS]
    values = {
        (metric, method): [collected.of_run(method, run, name, metric) for name in names]
        for metric, method in pairs
    }
    rows = []
    for i, name in enumerate(names):
        cells = []
        for metric, method in pairs:
            cases = collected.number_of_cases(name) if metric == "accuracy" else None
            estimate = Estimate(values[metric, method][i], None, 1)
            cells.append(number(estimate, METRICS[metric][1], cases))
        rows.append(Row(name, (collected.benchmarks[name].title, *cells)))
    means = [
        Number(sum(values[metric, method]) / len(names), digits=METRICS[metric][1])
        for metric, method in pairs
    ]
    rows.append(Row("mean", ("Mean", *_bold(means)), rule=True))
    everywhere = [
        number(collected.average(method, names, metric), METRICS[metric][1])
        for metric, method in pairs
    ]
    counts = list(dict.fromkeys(len(collected.runs(method)) for method in METHODS))
    label = f"Mean, {'/'.join(map(str, counts))} runs"
    rows.append(Row("all_runs", (label, *_bold(everywhere))))
    columns = [Column("benchmark", "Benchmark", numeric=False)]
    columns += [
        Column(f"{method}_{metric}", collected.title(method), METRICS[metric][0])
        for metric, method in pairs
    ]
    updates = [collected.update(method, run) for method in METHODS]
    trained = [collected.record(method, run)["training"]["updates"] for method in METHODS]
    where = (
        f"both at update {updates[0]}"
        if collected.fixed
        else f"at the selected updates {updates[0]} and {updates[1]}"
    )
    caption = (
        "PCQC trains on all candidate questions of a state; Same-State-Q1 computes the same credit "
        f"and trains on the executed question alone. Run {run} of each, trained for {trained[0]} "
        f"and {trained[1]} updates, {where}. Mean: over all {in_words(len(names))} benchmarks, "
        "which count alike. Last row: the same, mean ± SD over all runs. Bold: the higher "
        "accuracy and the fewer questions (Q/ep.) of a row."
    )
    title = "Candidate supervision at a matched training budget."
    return Table("same_state_q1", title, caption, tuple(columns), tuple(rows))


def _bold(cells: list[Number]) -> list[Number]:
    """The higher accuracy and the lower Q/ep. of a row bold."""
    accuracy, turns = cells[:2], cells[2:]
    best = (max(c.value for c in accuracy), min(c.value for c in turns))
    return [
        replace(cell, best=cell.value == wanted)
        for part, wanted in zip((accuracy, turns), best, strict=True)
        for cell in part
    ]
