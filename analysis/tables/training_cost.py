"""Accuracy on the development benchmark against what the training cost."""

from collections.abc import Mapping

from analysis.collected import Collected
from analysis.published import published
from analysis.statistics.estimates import Estimate
from analysis.table import MISSING, Column, Row, Table, mark_best, number
from analysis.tables.layout import Place, Words
from pcqc.study import Method

NAME = "training_cost"
COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("accuracy", "Acc. (%) ↑"),
    Column("device_hours", "Device-hours"),
    Column("trajectories", "Complete trajectories"),
    Column("turns", "Q/ep."),
)


def build(collected: Collected) -> Table:
    """One run of every RL method through one checkpoint; evaluation is not counted.

    The checkpoint is the last of the study's `also_evaluate`, or else the selected one.
    """
    study, run = collected.study, collected.run
    development = study.development
    methods = [name for name in collected.methods("method") if study.method(name).kind == "rl"]
    collected = collected.each_at_fixed_update(methods)
    values, groups = {}, []
    for method in methods:
        update = collected.update(method, run)
        values[method] = {
            "accuracy": collected.of_run(method, run, development),
            "turns": collected.of_run(method, run, development, "turns"),
            "device_hours": through(collected, method, run, "device_hours", update),
            "trajectories": through(collected, method, run, "trajectories", update),
        }
        groups.append(
            f"{collected.title(method)} ({_group(study.method(method))}, "
            f"{collected.checkpoint(method, run)})"
        )
    words = Words(
        NAME,
        f"Diagnostic accuracy and training cost on {collected.benchmarks[development].title}.",
        f"Run {run} of each method at one checkpoint: {', '.join(groups)}. Device-hours "
        "count policy training, rollouts, patient answers and diagnostic scoring, on all devices "
        "allocated (for a study on CPU, process-hours), and exclude Shared SFT and evaluation.",
    )
    rows = collected.rows("method")
    rl = {method: title for method, title in rows.items() if study.method(method).kind == "rl"}
    return _layout(words, rl, values, collected.number_of_cases(development))


def _group(method: Method) -> str:
    """What the method samples of a case."""
    if method.tree:
        return f"a tree of up to {method.tree.budget} consultations"
    return f"G_T = {method.terminal_group}"


def through(collected: Collected, method: str, run: str, metric: str, update: int) -> float:
    """A cumulative training metric of a run through an update; 0 where it did not train."""
    curve = collected.curve(method, run, "update", metric)
    return float(curve[curve.index <= update].iloc[-1]) if len(curve) else 0.0


def paper() -> Table:
    """The published table."""
    values, settings = published().tables[NAME], published().tables["training"]
    words = Words(
        NAME,
        "Diagnostic accuracy and training cost on MedQA in the paper.",
        f"PCQC run A with G_T = {settings['terminal_group']['pcqc']} and one GRPO checkpoint with "
        f"G_T = {settings['terminal_group']['grpo']}; device-hours of {settings['devices']} H800 "
        "GPUs.",
    )
    place = Place.paper(values)
    return _layout(words, place.methods, values, place.cases[published().development])


def _layout(
    words: Words, titles: Mapping[str, str], values: Mapping[str, Mapping], cases: int
) -> Table:
    hours = max((row["device_hours"] for row in values.values()), default=0)
    digits = {"accuracy": 2, "device_hours": 2 if hours >= 10 else 4, "trajectories": 0, "turns": 3}
    rows = []
    for method, title in titles.items():
        cells = [MISSING] * len(digits)
        if method in values:
            estimates = {key: Estimate(values[method][key], None, 1) for key in digits}
            sizes = {"accuracy": cases}
            cells = [number(estimates[key], digits[key], sizes.get(key)) for key in digits]
        rows.append(Row(method, (title, *cells), rule=method == "pcqc", strong=method == "pcqc"))
    # Of cost, nothing is best: a checkpoint that was chosen early has cost little.
    return words.table(COLUMNS, mark_best(rows, 1, max))
