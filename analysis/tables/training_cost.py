"""Accuracy on the development benchmark against what the training cost."""

from collections.abc import Mapping

from analysis.collected import Collected
from analysis.published import published
from analysis.table import Column, Number, Row, Table, mark_best
from analysis.tables.layout import Words

NAME = "training_cost"
COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("accuracy", "Acc. (%) ↑"),
    Column("device_hours", "Device-hours"),
    Column("trajectories", "Complete trajectories"),
    Column("turns", "Q/ep."),
)
RUN = "A"


def build(collected: Collected) -> Table:
    """Run A of every RL method through its selected checkpoint; evaluation is not counted."""
    study = collected.study
    development = study.development
    values, groups = {}, []
    for method in collected.methods("method"):
        if study.method(method).kind != "rl":
            continue
        update = collected.record(method, RUN)["evaluation"]["update"]
        values[method] = {
            "accuracy": collected.of_run(method, RUN, development),
            "turns": collected.of_run(method, RUN, development, "turns"),
            "device_hours": through(collected, method, "device_hours", update),
            "trajectories": through(collected, method, "trajectories", update),
        }
        group = study.method(method).terminal_group
        groups.append(f"{collected.title(method)} with G_T = {group} at update {update}")
    words = Words(
        NAME,
        f"Diagnostic accuracy and training cost on {collected.benchmarks[development].title}.",
        f"Run {RUN} of each method at its selected checkpoint: {', '.join(groups)}. Device-hours "
        "count policy training, roll-outs, patient answers and diagnostic scoring, on all devices "
        "allocated (for a study on CPU, process-hours), and exclude Shared SFT and evaluation.",
    )
    titles = {method: collected.title(method) for method in values}
    return _layout(words, titles, values)


def through(collected: Collected, method: str, metric: str, update: int, run: str = RUN) -> float:
    """A cumulative training metric of a run through an update; 0 where it did not train."""
    curve = collected.curve(method, run, "update", metric)
    return float(curve[curve.index <= update].iloc[-1]) if len(curve) else 0.0


def paper() -> Table:
    """The published table."""
    values = published().tables[NAME]
    words = Words(
        NAME,
        "Diagnostic accuracy and training cost on MedQA in the paper.",
        "PCQC run A with G_T = 4 and one GRPO checkpoint with G_T = 32; device-hours of eight "
        "H800 GPUs.",
    )
    return _layout(words, {m: published().methods[m] for m in values}, values)


def _layout(words: Words, titles: Mapping[str, str], values: Mapping[str, Mapping]) -> Table:
    hours = max(row["device_hours"] for row in values.values())
    digits = {"accuracy": 2, "device_hours": 2 if hours >= 10 else 4, "trajectories": 0, "turns": 3}
    rows = []
    for method, title in titles.items():
        cells = [Number(values[method][c.key], digits=digits[c.key]) for c in COLUMNS[1:]]
        rows.append(Row(method, (title, *cells), rule=method == "pcqc", strong=method == "pcqc"))
    for column, choose in zip(range(1, 5), (max, min, min, min), strict=True):
        rows = mark_best(rows, column, choose)
    return Table(words.name, words.title, words.caption, COLUMNS, tuple(rows))
