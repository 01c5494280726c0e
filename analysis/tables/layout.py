"""Shapes that several tables share, for the study's numbers and the paper's alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.published import published
from analysis.statistics.crossed import Effect
from analysis.statistics.estimates import Estimate
from analysis.table import MISSING, Column, Number, Row, Table, listed, mark_best, number


@dataclass(frozen=True)
class Place:
    """Where numbers come from: titles and sizes of benchmarks, titles of methods."""

    benchmarks: dict[str, str]
    cases: dict[str, int]
    methods: dict[str, str]

    @classmethod
    def study(cls, collected: Collected, methods: Mapping[str, str], benchmarks=None) -> "Place":
        names = collected.benchmarks if benchmarks is None else benchmarks
        return cls(
            {name: collected.benchmarks[name].title for name in names},
            {name: collected.number_of_cases(name) for name in names},
            dict(methods),
        )

    @classmethod
    def paper(cls, methods: Sequence[str], benchmarks=None) -> "Place":
        paper = published()
        names = paper.benchmarks if benchmarks is None else benchmarks
        return cls(
            {name: paper.benchmarks[name].title for name in names},
            {name: paper.benchmarks[name].cases for name in names},
            {name: paper.methods[name] for name in methods},
        )

    def sizes(self) -> str:
        """`Title (1,268 cases), ...` for a caption."""
        return listed([f"{title} ({self.cases[n]:,})" for n, title in self.benchmarks.items()])


@dataclass(frozen=True)
class Words:
    """What a table is called and says above its numbers."""

    name: str
    title: str
    caption: str
    notes: tuple[str, ...] = ()

    def table(self, columns: Iterable[Column], rows: Iterable[Row]) -> Table:
        """The table below these words."""
        return Table(self.name, self.title, self.caption, tuple(columns), tuple(rows), self.notes)


def method_by_benchmark(
    words: Words,
    place: Place,
    values: Mapping[str, Mapping[str, Estimate]],
    digits: int,
    of_cases: bool = False,
    best: Callable | None = None,
) -> Table:
    """Methods down, benchmarks across, their average last; PCQC set apart as in the paper.

    Args:
        values: method -> benchmark (and `average`) -> estimate; none of a method without runs.
        digits: decimals.
        of_cases: whether values are percentages of cases, whose error in one run is binomial.
        best: chooses the number to set bold in a column; none where not given.
    """
    keys = [*place.benchmarks, "average"]
    columns = [Column("method", "Method", numeric=False)]
    columns += [Column(key, place.benchmarks.get(key, "Avg.")) for key in keys]
    sizes = place.cases if of_cases else {}
    rows = []
    for method, title in place.methods.items():
        cells = [MISSING] * len(keys)
        if method in values:
            cells = [number(values[method][key], digits, sizes.get(key)) for key in keys]
        pcqc = method == "pcqc"
        rows.append(Row(method, (title, *cells), rule=pcqc, strong=pcqc))
    if best:
        for column in range(1, len(columns)):
            rows = mark_best(rows, column, best)
    return words.table(columns, rows)


def _of_base_models(count: int) -> str:
    return f"{on_base_models(count)}, what sets these apart included" if count > 1 else ""


def runs_sentence(collected: Collected, methods: Sequence[str]) -> str:
    """Which methods are means over how many runs, for a caption."""
    by_count: dict[int, list[str]] = {}
    for method in methods:
        trained = collected.study.method(method).kind == "rl"
        count = len(collected.runs(method)) if trained else 1
        by_count.setdefault(count, []).append(collected.title(method))
    several = [
        f"{listed(titles)}: mean ± sample standard deviation over {count} independent RL runs"
        f"{_of_base_models(collected.base_models)}."
        for count, titles in sorted(by_count.items(), reverse=True)
        if count > 1
    ]
    if single := by_count.get(1):
        each = " each" if len(single) > 1 else ""
        each = " of each base model" if collected.base_models > 1 else each
        several.append(f"{listed(single)}: one checkpoint{each}.")
    return " ".join(several)


def by_base(effect: Effect) -> str:
    """`+6.47 (base model 1) and +8.44 (base model 2)`: a difference under every base model."""
    parts = effect.by_base.items()
    return listed([f"{Number(part, signed=True).text()} ({base})" for base, part in parts])


def drawn_anew(effects: Iterable[Effect]) -> str:
    """What other studies would draw anew, by the intervals of some differences, for a caption."""
    kinds = {effect.random for effect in effects}
    if kinds == {"case"}:
        return "cases alone are random, as each method has one run"
    if "case" in kinds:
        return "cases are random, and runs where a method has several"
    return "cases and runs are random and crossed"
