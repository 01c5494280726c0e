"""Paired comparisons of fixed checkpoints: gain, case-bootstrap interval, McNemar."""

from collections.abc import Iterable

from analysis.collected import Collected
from analysis.published import PairedRow, published
from analysis.recovery import recovered_counts
from analysis.statistics.bootstrap import RESAMPLES
from analysis.statistics.paired import PairedComparison, paired_comparison
from analysis.table import MISSING, Cell, Column, Number, Probability, Range, Row, Table
from analysis.tables.layout import Words

NAME = "paired"
COLUMNS = (
    Column("benchmark", "Benchmark", numeric=False),
    Column("comparison", "Comparison", numeric=False),
    Column("gain", "Δ Acc. (pp)"),
    Column("interval", "Paired 95% CI"),
    Column("discordant", "Discordant"),
    Column("p", "McNemar p"),
)
# Comparisons that belong to the table of question supervision, on the development benchmark.
CONTROLS = (("pcqc", "executed_local"), ("executed_local", "terminal_only"))


def build(collected: Collected) -> Table:
    """PCQC against every method on each benchmark; the controls too on the independent source."""
    others = [method for method in collected.rows("method") if method != "pcqc"]
    controls = list(collected.rows("control"))
    pairs = []
    for name, benchmark in collected.benchmarks.items():
        rivals = others + (controls if benchmark.role == "independent_source" else [])
        pairs += [(name, "pcqc", rival) for rival in rivals]
        if benchmark.role == "independent_source" and set(CONTROLS[1]) <= set(controls):
            pairs.append((name, *CONTROLS[1]))
    words = Words(
        NAME,
        "Paired diagnostic accuracy comparisons.",
        f"Run {collected.run} of each method at its selected checkpoint. Intervals: "
        f"{RESAMPLES:,} percentile bootstrap resamples of evaluation cases, both methods' outcomes "
        "kept together; p: exact two-sided McNemar. Discordant: cases that only the first, and "
        "only the second, got right.",
    )
    return table(words, collected, pairs)


def table(words: Words, collected: Collected, pairs: Iterable[tuple[str, str, str]]) -> Table:
    """One row per (benchmark, minuend, subtrahend)."""
    rows = []
    for name, minuend, subtrahend in pairs:
        title = f"{collected.title(minuend)} − {collected.title(subtrahend)}"
        first = not rows or rows[-1].key.split(":")[0] != name
        label = collected.benchmarks[name].title if first else ""
        if {minuend, subtrahend} <= set(collected.methods()):
            cells = (label, title, *_cells(comparison(collected, name, minuend, subtrahend)))
        else:
            cells = (label, f"{title} (not run)", *[MISSING] * 4)
        rows.append(Row(f"{name}:{minuend}-{subtrahend}", cells, rule=first))
    return words.table(COLUMNS, rows)


def _cells(found: PairedComparison) -> tuple[Cell, ...]:
    return (
        Number(found.gain, se=found.interval.standard_error, signed=True),
        Range(found.low, found.high),
        f"{found.only_minuend} / {found.only_subtrahend}",
        Probability(found.p),
    )


def comparison(
    collected: Collected, benchmark: str, minuend: str, subtrahend: str
) -> PairedComparison:
    """One run of each of two methods on one benchmark."""
    frames = (collected.cases(m, collected.shown(m), benchmark) for m in (minuend, subtrahend))
    return paired_comparison(*(frame["correct"].to_numpy(dtype=bool) for frame in frames))


def is_control(row: PairedRow) -> bool:
    """Whether a published row belongs to the table of question supervision."""
    return row.benchmark == published().development and (row.minuend, row.subtrahend) in CONTROLS


def paper() -> Table:
    """The published table."""
    words = Words(
        NAME,
        "Paired diagnostic accuracy comparisons in the paper.",
        "PCQC run A and one fixed baseline checkpoint per method. The discordant counts are not "
        "printed there: they are recovered from gain, p and number of cases.",
    )
    return published_table(words, [row for row in published().paired if not is_control(row)])


def published_table(words: Words, rows: Iterable[PairedRow]) -> Table:
    """Published comparisons in the form of ours."""
    source, built = published(), []
    for row in rows:
        counts = recovered_counts(row, source.benchmarks[row.benchmark].cases)
        first = not built or built[-1].key.split(":")[0] != row.benchmark
        cells = (
            source.benchmarks[row.benchmark].title if first else "",
            f"{source.methods[row.minuend]} − {source.methods[row.subtrahend]}",
            Number(row.gain, se=row.interval.standard_error, signed=True),
            Range(row.low, row.high),
            f"{counts[0]} / {counts[1]}",
            row.p,
        )
        built.append(Row(f"{row.benchmark}:{row.minuend}-{row.subtrahend}", cells, rule=first))
    return words.table(COLUMNS, built)
