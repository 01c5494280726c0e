"""Accuracy and inquiry turns of the methods on every benchmark, the paper's two main tables."""

from collections.abc import Callable

from analysis.collected import Collected
from analysis.table import MISSING, Column, Row, Table, mark_best, number
from analysis.tables.layout import runs_sentence, sizes

AVERAGE = "Avg.: unweighted mean over benchmarks, its SD over the runs' averages."


def accuracy(collected: Collected) -> Table:
    """Percent correct."""
    caption = (
        f"Cases: {sizes(collected, collected.benchmarks)}. "
        f"{runs_sentence(collected, collected.methods('method'))} {AVERAGE} Best results are bold."
    )
    title = f"Diagnostic accuracy (%): {collected.study.title}."
    return _table(collected, "main_accuracy", title, caption, "accuracy", 2, max)


def turns(collected: Collected) -> Table:
    """Non-final interaction attempts per consultation."""
    caption = (
        f"Cases: {sizes(collected, collected.benchmarks)}; at most "
        f"{collected.study.protocol.max_turns} turns with the final answer. "
        f"{runs_sentence(collected, collected.methods('method'))} {AVERAGE}"
    )
    title = f"Mean inquiry turns per consultation (Q/ep.): {collected.study.title}."
    return _table(collected, "inquiry_turns", title, caption, "turns", 3)


def _table(
    collected: Collected,
    name: str,
    title: str,
    caption: str,
    metric: str,
    digits: int,
    best: Callable | None = None,
) -> Table:
    """Methods down, benchmarks across, their average last; PCQC set apart as in the paper.

    Args:
        collected: the study, all base models pooled.
        name, title, caption: of the table.
        metric: of `METRICS`.
        digits: decimals.
        best: chooses the number to set bold in a column; none where not given.
    """
    benchmarks = list(collected.benchmarks)
    columns = [
        Column("method", "Method", numeric=False),
        *(Column(key, collected.benchmarks[key].title) for key in benchmarks),
        Column("average", "Avg."),
    ]
    rows = []
    for method, label in collected.rows("method").items():
        cells = [MISSING] * (len(benchmarks) + 1)
        if collected.runs(method):
            cells = []
            for key in benchmarks:
                cases = collected.number_of_cases(key) if metric == "accuracy" else None
                cells.append(number(collected.estimate(method, key, metric), digits, cases))
            cells.append(number(collected.average(method, benchmarks, metric), digits))
        pcqc = method == "pcqc"
        rows.append(Row(method, (label, *cells), rule=pcqc, strong=pcqc))
    if best:
        for column in range(1, len(columns)):
            rows = mark_best(rows, column, best)
    return Table(name, title, caption, tuple(columns), tuple(rows))
