"""What question-level supervision adds at the same terminal group size."""

from collections.abc import Mapping

from analysis.collected import Collected
from analysis.published import RUNS, published
from analysis.statistics.estimates import Estimate
from analysis.table import Column, Row, Table, mark_best, number
from analysis.tables.layout import Place, Words, runs_sentence

NAME = "question_supervision"
METHODS = ("terminal_only", "executed_local", "pcqc")


def build(collected: Collected) -> Table:
    """Accuracy and Q/ep. on the benchmarks other than the independent source."""
    place = Place.study(collected, collected.titles(METHODS), collected.primary)
    group = collected.study.method("pcqc").terminal_group
    accuracy = _values(collected, "accuracy")
    for method in METHODS:
        accuracy[method]["average"] = collected.average(method, collected.primary)
    words = Words(
        NAME,
        f"Question-level supervision at terminal group size G_T = {group}.",
        "Terminal-only has no question objective; Executed-local supervises the executed question "
        "and PCQC all candidates, with the same frozen scorer. "
        f"Cases: {place.sizes()}. {runs_sentence(collected, METHODS)}",
    )
    return _layout(words, place, accuracy, _values(collected, "turns"))


def _values(collected: Collected, metric: str) -> dict[str, dict[str, Estimate]]:
    names = collected.primary
    return {m: {b: collected.estimate(m, b, metric) for b in names} for m in METHODS}


def paper() -> Table:
    """The published table; its controls are single runs."""
    values = published().by_benchmark
    accuracy = values(NAME, "accuracy")
    group = published().tables["training"]["terminal_group"]["pcqc"]
    place = Place.paper(METHODS, [n for n in accuracy["pcqc"] if n != "average"])
    words = Words(
        NAME,
        f"Question-level supervision at terminal group size G_T = {group} in the paper.",
        f"Cases: {place.sizes()}. PCQC: mean ± sample standard deviation over {RUNS} RL runs; the "
        "controls are one run each.",
    )
    return _layout(words, place, accuracy, values(NAME, "turns"))


def _layout(
    words: Words,
    place: Place,
    accuracy: Mapping[str, Mapping[str, Estimate]],
    turns: Mapping[str, Mapping[str, Estimate]],
) -> Table:
    columns = [Column("method", "Method", numeric=False)]
    for name, title in place.benchmarks.items():
        columns += [Column(f"{name}_accuracy", "Acc. (%) ↑", title)]
        columns += [Column(f"{name}_turns", "Q/ep.", title)]
    columns.append(Column("average_accuracy", "Acc. (%) ↑", "Avg."))
    rows = []
    for method, title in place.methods.items():
        cells = [title]
        for name in place.benchmarks:
            cells.append(number(accuracy[method][name], 2, place.cases[name]))
            cells.append(number(turns[method][name], 3))
        cells.append(number(accuracy[method]["average"], 2))
        pcqc = method == "pcqc"
        rows.append(Row(method, tuple(cells), rule=pcqc, strong=pcqc))
    for i, column in enumerate(columns):
        if column.key.endswith("_accuracy"):
            rows = mark_best(rows, i)
    return words.table(columns, rows)
