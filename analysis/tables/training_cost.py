"""Accuracy on the development benchmark against what the training cost."""

from analysis.collected import Collected
from analysis.statistics.estimates import Estimate
from analysis.table import MISSING, Column, Number, Row, Table, mark_best, number

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
    titles = {m: t for m, t in collected.rows("method").items() if study.method(m).kind == "rl"}
    trained = [method for method in titles if collected.runs(method)]
    collected = collected.each_at_fixed_update(trained)
    updates = {method: collected.update(method, run) for method in trained}
    hours = {m: through(collected, m, run, "device_hours", updates[m]) for m in trained}
    digits = 2 if max(hours.values(), default=0) >= 10 else 4
    rows = []
    for method, title in titles.items():
        cells = [MISSING] * 4
        if method in trained:
            accuracy = Estimate(collected.of_run(method, run, development), None, 1)
            spent = through(collected, method, run, "trajectories", updates[method])
            cells = [
                number(accuracy, 2, collected.number_of_cases(development)),
                Number(hours[method], digits=digits),
                Number(spent, digits=0),
                Number(collected.of_run(method, run, development, "turns"), digits=3),
            ]
        rows.append(Row(method, (title, *cells), rule=method == "pcqc", strong=method == "pcqc"))
    groups = [
        f"{collected.title(method)} ({study.method(method).size}, "
        f"{collected.checkpoint(method, run)})"
        for method in trained
    ]
    caption = (
        f"Run {run} of each method, at one checkpoint: {', '.join(groups)}. Accuracy and Q/ep. "
        "(turns before the final answer) are of that checkpoint; the costs are those of training "
        "up to it. Device-hours: policy training, rollouts, patient answers and scoring, on all "
        "devices allocated (on CPUs, hours of processes); Shared SFT and evaluation are left out. "
        "Bold: the highest accuracy."
    )
    title = f"Diagnostic accuracy and training cost on {collected.benchmarks[development].title}."
    # The lowest cost is not marked: a checkpoint that was chosen early has cost little.
    return Table("training_cost", title, caption, COLUMNS, tuple(mark_best(rows, 1)))


def through(collected: Collected, method: str, run: str, metric: str, update: int) -> float:
    """A cumulative training metric of a run through an update; 0 where it did not train."""
    curve = collected.curve(method, run, "update", metric)
    return float(curve[curve.index <= update].iloc[-1]) if len(curve) else 0.0
