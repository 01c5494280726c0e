"""Accuracy of each independent run of PCQC (the paper's seed-robustness table)."""

from collections.abc import Mapping, Sequence

from analysis.collected import Collected
from analysis.published import published
from analysis.statistics.estimates import Estimate, average_over_benchmarks, over_runs
from analysis.table import Column, Number, Row, Table, number
from analysis.tables.layout import Place, Words

NAME = "pcqc_runs"


def build(collected: Collected) -> Table:
    """Runs across; benchmarks and their means, within runs first, down."""
    collected = collected.at_fixed_update(["pcqc"])
    runs = collected.runs("pcqc")
    names = list(collected.benchmarks)
    accuracy = {name: list(collected.per_run("pcqc", name)) for name in names}
    values = {name: (accuracy[name], over_runs(accuracy[name])) for name in names}
    for key, members in (("mean_of_primary", collected.primary), ("mean_of_all", names)):
        rows = [accuracy[name] for name in members]
        values[key] = (
            [sum(run) / len(run) for run in zip(*rows, strict=True)],
            average_over_benchmarks(rows),
        )
    updates = [collected.update("pcqc", run) for run in runs]
    where = (
        f"Every run at update {updates[0]}"
        if collected.fixed
        else "Each run at the checkpoint selected for it on the development benchmark "
        f"(updates {', '.join(map(str, updates))})"
    )
    words = Words(
        NAME,
        "Diagnostic accuracy (%) across independent PCQC training runs.",
        f"{where}, all with the same sampling schedule.",
    )
    place = Place.study(collected, {})
    return _layout(words, runs, place, collected.primary, values)


def paper() -> Table:
    """The published table."""
    source = published()
    values = {
        name: (list(row.runs), Estimate(row.mean, row.sd, len(row.runs)))
        for name, row in source.pcqc_runs.items()
    }
    words = Words(
        NAME,
        "Diagnostic accuracy (%) across independent PCQC training runs in the paper.",
        f"Every run at update {source.tables['training']['reported_updates']['pcqc']}.",
    )
    return _layout(words, "ABC", Place.paper([]), source.primary, values)


def _layout(
    words: Words,
    runs: Sequence[str],
    place: Place,
    primary: Sequence[str],
    values: Mapping[str, tuple[list[float], Estimate]],
) -> Table:
    columns = [Column("benchmark", "Benchmark", numeric=False)]
    columns += [Column(f"run_{run}", f"Run {run}") for run in runs]
    columns.append(Column("mean", "Mean ± sample SD"))
    others = [name for name in place.benchmarks if name not in primary]
    order = [*primary, "mean_of_primary", *others, "mean_of_all"]
    titles = {
        **place.benchmarks,
        "mean_of_primary": f"Mean ({len(primary)} benchmarks)",
        "mean_of_all": f"Mean ({len(place.benchmarks)} benchmarks)",
    }
    rows = []
    for key in order if others else order[:-1]:
        by_run, estimate = values[key]
        mean = number(estimate, 2)
        if key.startswith("mean_of"):
            mean = Number(mean.value, mean.sd, mean.se, mean.digits, best=True)
        single = (number(Estimate(value, None, 1), 2, place.cases.get(key)) for value in by_run)
        cells = (titles[key], *single, mean)
        rule = key.startswith("mean_of") or key == (others or [None])[0]
        rows.append(Row(key, cells, rule=rule))
    return words.table(columns, rows)
