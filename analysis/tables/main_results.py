"""Accuracy and inquiry turns by method and benchmark: the main tables, and the controls'."""

from dataclasses import dataclass

from analysis.collected import Collected
from analysis.table import MISSING, Cell, Column, Row, Table, mark_best, number
from analysis.tables.layout import FIXED, checkpoints_sentence, runs_sentence, sizes

AVERAGE = "Avg.: each run's mean over the benchmarks, then mean and SD over runs."
BOLD = "Bold numbers: the highest accuracy of a column."
DIGITS = {"accuracy": 2, "turns": 3}


@dataclass(frozen=True)
class Measure:
    """A column: the mean over benchmarks of a metric of `METRICS`."""

    column: Column
    benchmarks: list[str]
    metric: str


def accuracy(collected: Collected) -> Table:
    """Percent correct."""
    caption = (
        f"Percent of consultations that end in the right diagnosis. {_of_what(collected)} {BOLD}"
    )
    title = f"Diagnostic accuracy (%): {collected.study.title}."
    return _of_methods(collected, "main_accuracy", title, caption, "accuracy")


def turns(collected: Collected) -> Table:
    """Non-final interaction attempts per consultation."""
    caption = (
        "Turns of a consultation before its final answer: questions, and attempts at one; at most "
        f"{collected.study.protocol.max_turns} turns with the answer. {_of_what(collected)}"
    )
    title = f"Mean inquiry turns per consultation (Q/ep.): {collected.study.title}."
    return _of_methods(collected, "inquiry_turns", title, caption, "turns")


def _of_what(collected: Collected) -> str:
    """Runs, checkpoints and cases of the main tables, for a caption."""
    methods = collected.methods("method")
    return (
        f"{runs_sentence(collected, methods)} {checkpoints_sentence(collected, methods)} "
        f"Benchmarks: {sizes(collected, collected.benchmarks)}. {AVERAGE}"
    )


def _of_methods(collected: Collected, name: str, title: str, caption: str, metric: str) -> Table:
    """Methods down, benchmarks across, their average last; the most accurate bold."""
    benchmarks = list(collected.benchmarks)
    measures = [
        Measure(Column(key, collected.benchmarks[key].title), [key], metric) for key in benchmarks
    ]
    measures.append(Measure(Column("average", "Avg."), benchmarks, metric))
    columns, rows = _grid(collected, collected.rows("method"), measures, metric == "accuracy")
    return Table(name, title, caption, columns, rows)


def supervision(collected: Collected) -> Table:
    """What question-level supervision adds, on the benchmarks but the independent source."""
    methods, measures = ("terminal_only", "executed_local", "pcqc"), []
    for name in collected.primary:
        title = collected.benchmarks[name].title
        accuracy = Column(f"{name}_accuracy", "Acc. (%) ↑", title)
        measures.append(Measure(accuracy, [name], "accuracy"))
        measures.append(Measure(Column(f"{name}_turns", "Q/ep.", title), [name], "turns"))
    average = Column("average_accuracy", "Acc. (%) ↑", "Avg.")
    measures.append(Measure(average, collected.primary, "accuracy"))
    labels = {method: collected.title(method) for method in methods}
    columns, rows = _grid(collected, labels, measures, best=True)
    group = collected.study.method("pcqc").terminal_group
    caption = (
        "Acc.: percent of consultations that end in the right diagnosis. Q/ep.: turns before the "
        "final answer. Terminal-only gives questions no credit of their own; Executed-local "
        "credits the question that was asked, PCQC all candidates, both by the same frozen scorer. "
        f"{runs_sentence(collected, methods)} {checkpoints_sentence(collected, methods)} "
        f"Benchmarks: {sizes(collected, collected.primary)}. {AVERAGE} {BOLD}"
    )
    title = f"Question-level supervision at terminal group size G_T = {group}."
    return Table("question_supervision", title, caption, columns, rows)


def _grid(
    collected: Collected, labels: dict[str, str], measures: list[Measure], best: bool
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    """Columns and rows: methods down, measures across; PCQC set apart as in the paper.

    Below stand the methods that were evaluated at a fixed update too, at that update.

    Args:
        collected: the study, all base models pooled.
        labels: method -> label.
        measures: the columns.
        best: whether the highest accuracies are bold.
    """
    rows = []
    for method, label in labels.items():
        cells = _cells(collected, method, measures)
        pcqc = method == "pcqc"
        rows.append(Row(method, (label, *cells), rule=pcqc, strong=pcqc))
    for i, measure in enumerate(measures, start=1):
        if best and measure.metric == "accuracy":
            rows = mark_best(rows, i)
    fixed = collected.each_at_fixed_update(labels)
    for i, (method, update) in enumerate(fixed.fixed.items()):
        label = f"{labels[method]} at update {update}"
        cells = _cells(fixed, method, measures)
        rows.append(Row(f"{method}{FIXED}", (label, *cells), rule=i == 0))
    first = Column("method", "Method", numeric=False)
    return (first, *(measure.column for measure in measures)), tuple(rows)


def _cells(collected: Collected, method: str, measures: list[Measure]) -> list[Cell]:
    """A method's means; missing where it has no runs."""
    if not collected.runs(method):
        return [MISSING] * len(measures)
    cells: list[Cell] = []
    for measure in measures:
        alone = len(measure.benchmarks) == 1 and measure.metric == "accuracy"
        cases = collected.number_of_cases(measure.benchmarks[0]) if alone else None
        mean = collected.average(method, measure.benchmarks, measure.metric)
        cells.append(number(mean, DIGITS[measure.metric], cases))
    return cells
