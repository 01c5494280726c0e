"""Paired comparisons of fixed checkpoints: gain, case-bootstrap interval, McNemar."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from analysis.collected import Collected
from analysis.table import MISSING, Cell, Column, Number, Probability, Range, Row, Table
from analysis.tables.layout import FIXED, checkpoints_sentence, sizes
from pcqc_study.intervals_over_cases import RESAMPLES
from pcqc_study.paired import paired_comparison

COLUMNS = (
    Column("benchmark", "Benchmark", numeric=False),
    Column("comparison", "Comparison", numeric=False),
    Column("gain", "Δ Acc. (pp)"),
    Column("interval", "Paired 95% CI"),
    Column("discordant", "Discordant"),
    Column("p", "McNemar p"),
)
# Comparisons of question supervision.
CONTROLS = (("pcqc", "executed_local"), ("executed_local", "terminal_only"))
Place = tuple[str, str, str]  # benchmark, minuend, subtrahend


def build(collected: Collected) -> Table:
    """PCQC against every method on each benchmark; the controls too on the independent source."""
    others = [method for method in collected.rows("method") if method != "pcqc"]
    controls = list(collected.rows("control"))
    places = []
    for name, benchmark in collected.benchmarks.items():
        independent = benchmark.role == "independent_source"
        places += [(name, "pcqc", rival) for rival in others + (controls if independent else [])]
        if independent and set(CONTROLS[1]) <= set(controls):
            places.append((name, *CONTROLS[1]))
    return _table(collected, "paired", "Paired diagnostic accuracy comparisons.", places)


def supervision(collected: Collected) -> Table:
    """The paper's two comparisons and, where the study has it, PCQC against Same-State-Q1."""
    development = collected.study.development
    pairs = [*CONTROLS]
    if "same_state_q1" in collected.methods():
        pairs.append(("pcqc", "same_state_q1"))
    benchmark = collected.benchmarks[development].title
    title = f"Paired {benchmark} comparisons for question supervision."
    places = [(development, *pair) for pair in pairs]
    return _table(collected, "question_supervision_paired", title, places)


def _table(collected: Collected, name: str, title: str, places: Sequence[Place]) -> Table:
    """Rows at the selected checkpoints, then the same with methods at fixed updates they have."""
    ran, fixed = set(collected.methods()), collected.each_at_fixed_update(collected.methods())
    both = [p for p in places if fixed.fixed.keys() & set(p[1:]) and ran >= set(p[1:])]
    again = [
        replace(
            row,
            key=f"{row.key}{FIXED}",
            cells=(row.cells[0], f"{row.cells[1]} (fixed updates)", *row.cells[2:]),
        )
        for row in _rows(fixed, both)
    ]
    methods = dict.fromkeys(method for _, *pair in places for method in pair)
    on = {benchmark for benchmark, *_ in places}
    caption = (
        f"Run {collected.run} of each method, two methods a row, on the same cases: "
        f"{sizes(collected, [name for name in collected.benchmarks if name in on])}. "
        f"{checkpoints_sentence(collected, methods)} Δ Acc.: accuracy "
        "of the first less that of the second. Paired 95% CI: percentile bootstrap over "
        f"{RESAMPLES:,} resamples of cases, both outcomes of a case kept together. Discordant: "
        "cases that only the first, and that only the second, diagnosed rightly. McNemar p: "
        "exact and two-sided, not adjusted for the number of rows. Interval and p are about these "
        "checkpoints, not about other runs."
    )
    return Table(name, title, caption, COLUMNS, (*_rows(collected, places), *again))


def _rows(collected: Collected, places: Iterable[Place]) -> list[Row]:
    """One row per (benchmark, minuend, subtrahend)."""
    rows, above = [], ""
    for name, minuend, subtrahend in places:
        title = f"{collected.title(minuend)} − {collected.title(subtrahend)}"
        cells: tuple[Cell, ...] = (f"{title} (not run)", *[MISSING] * 4)
        if {minuend, subtrahend} <= set(collected.methods()):
            frames = [collected.cases(m, collected.shown(m), name) for m in (minuend, subtrahend)]
            paired = paired_comparison(*(frame["correct"].to_numpy(dtype=bool) for frame in frames))
            cells = (
                title,
                Number(paired.gain, se=paired.interval.standard_error, signed=True),
                Range(paired.low, paired.high, exact=paired.interval.exact),
                f"{paired.only_a} / {paired.only_b}",
                Probability(paired.p),
            )
        first = name != above
        label = collected.benchmarks[name].title if first else ""
        rows.append(Row(f"{name}:{minuend}-{subtrahend}", (label, *cells), rule=first))
        above = name
    return rows
