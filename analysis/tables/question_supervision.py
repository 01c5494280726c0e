"""What question-level supervision adds at the same terminal group size."""

from analysis.collected import Collected
from analysis.table import Column, Row, Table, mark_best, number
from analysis.tables.layout import runs_sentence, sizes

METHODS = ("terminal_only", "executed_local", "pcqc")


def build(collected: Collected) -> Table:
    """Accuracy and Q/ep. on the benchmarks other than the independent source."""
    benchmarks = collected.primary
    columns = [Column("method", "Method", numeric=False)]
    for name in benchmarks:
        title = collected.benchmarks[name].title
        columns.append(Column(f"{name}_accuracy", "Acc. (%) ↑", title))
        columns.append(Column(f"{name}_turns", "Q/ep.", title))
    columns.append(Column("average_accuracy", "Acc. (%) ↑", "Avg."))
    rows = []
    for method in METHODS:
        cells = [collected.title(method)]
        for name in benchmarks:
            accuracy = collected.estimate(method, name)
            cells.append(number(accuracy, 2, collected.number_of_cases(name)))
            cells.append(number(collected.estimate(method, name, "turns"), 3))
        cells.append(number(collected.average(method, benchmarks), 2))
        rows.append(Row(method, tuple(cells), rule=method == "pcqc", strong=method == "pcqc"))
    for i, column in enumerate(columns):
        if column.key.endswith("_accuracy"):
            rows = mark_best(rows, i)
    group = collected.study.method("pcqc").terminal_group
    caption = (
        "Terminal-only has no question objective; Executed-local supervises the executed question "
        "and PCQC all candidates, with the same frozen scorer. "
        f"Cases: {sizes(collected, benchmarks)}. {runs_sentence(collected, METHODS)}"
    )
    title = f"Question-level supervision at terminal group size G_T = {group}."
    return Table("question_supervision", title, caption, tuple(columns), tuple(rows))
