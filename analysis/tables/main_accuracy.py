"""Diagnostic accuracy of the methods on every benchmark (the paper's main table)."""

from analysis.collected import Collected
from analysis.published import RUNS, published
from analysis.table import Table
from analysis.tables.layout import Place, Words, method_by_benchmark, runs_sentence

NAME, METRIC, DIGITS = "main_accuracy", "accuracy", 2


def build(collected: Collected) -> Table:
    """Percent correct; the average's deviation is over per-run averages."""
    methods = collected.methods("method")
    place = Place.study(collected, collected.rows("method"))
    values = by_benchmark(collected, methods, METRIC)
    words = Words(
        NAME,
        f"Diagnostic accuracy (%): {collected.study.title}.",
        f"Cases: {place.sizes()}. {runs_sentence(collected, methods)} "
        "Avg.: unweighted mean over benchmarks, its deviation over the runs' averages. "
        "Best results are bold.",
    )
    return method_by_benchmark(words, place, values, DIGITS, of_cases=True, best=max)


def by_benchmark(collected: Collected, methods: list[str], metric: str) -> dict:
    """method -> benchmark (and `average`) -> estimate over runs."""
    names = list(collected.benchmarks)
    return {
        method: {name: collected.estimate(method, name, metric) for name in names}
        | {"average": collected.average(method, names, metric)}
        for method in methods
    }


def paper() -> Table:
    """The published table."""
    values = published().by_benchmark(NAME)
    place = Place.paper(list(values))
    words = Words(
        NAME,
        "Diagnostic accuracy (%) in the paper.",
        f"Cases: {place.sizes()}. GRPO, ATPO and PCQC: mean ± sample standard deviation over "
        f"{RUNS} RL runs. Avg.: unweighted mean over benchmarks.",
    )
    return method_by_benchmark(words, place, values, DIGITS, of_cases=True, best=max)
