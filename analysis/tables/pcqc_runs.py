"""Accuracy of each independent run of PCQC (the paper's seed-robustness table)."""

from dataclasses import replace

from analysis.collected import Collected
from analysis.statistics.estimates import Estimate, average_over_benchmarks, over_runs
from analysis.table import Column, Row, Table, number


def build(collected: Collected) -> Table:
    """Runs across; benchmarks and their means, within runs first, down."""
    collected = collected.at_fixed_update(["pcqc"])
    runs, names, primary = collected.runs("pcqc"), [*collected.benchmarks], collected.primary
    accuracy = {name: collected.per_run("pcqc", name) for name in names}
    others = [name for name in names if name not in primary]
    means = {"mean_of_primary": primary, "mean_of_all": names}
    rows = []
    for key in [*primary, "mean_of_primary", *others, *(["mean_of_all"] if others else [])]:
        if key in means:
            members = [accuracy[name] for name in means[key]]
            title = f"Mean ({len(members)} benchmarks)"
            by_run = [sum(run) / len(run) for run in zip(*members, strict=True)]
            mean, cases = replace(number(average_over_benchmarks(members), 2), best=True), None
        else:
            title, cases = collected.benchmarks[key].title, collected.number_of_cases(key)
            by_run, mean = accuracy[key], number(over_runs(accuracy[key]), 2)
        single = (number(Estimate(float(value), None, 1), 2, cases) for value in by_run)
        rule = key in means or key == (others or [None])[0]
        rows.append(Row(key, (title, *single, mean), rule=rule))
    updates = [collected.update("pcqc", run) for run in runs]
    where = (
        f"Every run is at update {updates[0]}."
        if collected.fixed
        else "Each run is at the checkpoint selected for it, the most accurate one on the "
        f"development benchmark (updates {', '.join(map(str, updates))})."
    )
    columns = [Column("benchmark", "Benchmark", numeric=False)]
    columns += [Column(f"run_{run}", f"Run {run}") for run in runs]
    columns.append(Column("mean", "Mean ± sample SD"))
    title = "Diagnostic accuracy (%) across independent PCQC training runs."
    caption = (
        f"{where} Runs differ in their seed alone. Bold means are over benchmarks, taken within "
        "each run first."
    )
    return Table("pcqc_runs", title, caption, tuple(columns), tuple(rows))
