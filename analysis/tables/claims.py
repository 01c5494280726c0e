"""The paper's claims, one line each: estimate, interval, verdict."""

from analysis.claims import Claim, claims
from analysis.collected import Collected
from analysis.statistics.bootstrap import RESAMPLES
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, listed

NAME = "claims"
COLUMNS = (
    Column("claim", "Claim", numeric=False),
    Column("comparison", "Tested by", numeric=False),
    Column("estimate", "Estimate"),
    Column("interval", "95% CI"),
    Column("verdict", "Verdict", numeric=False),
    Column("published", "In the paper", numeric=False),
)


def build(collected: Collected) -> Table:
    """One row per comparison; a claim with two rivals takes two."""
    rows = [row for claim in claims(collected) for row in _rows(claim)]
    primary = [collected.benchmarks[name].title for name in collected.primary]
    caption = (
        "Differences of means over benchmarks and runs, in percentage points or turns, signed so "
        f"that positive favours the claim; intervals from {RESAMPLES:,} resamples of cases, and of "
        f"the runs of a method that has several. The third claim averages {listed(primary)}, as "
        "the paper does, the others all benchmarks; the last compares candidate questions of one "
        "run, and resamples cases alone. Supported: the whole interval is above zero; "
        "contradicted: below; undecided: across."
    )
    title = f"Five claims of the paper: {collected.study.title}."
    return Table(NAME, title, caption, COLUMNS, tuple(rows))


def _rows(claim: Claim) -> list[Row]:
    rows = []
    for i, found in enumerate(claim.comparisons):
        cells: list[Cell] = [
            "" if i else claim.text,
            found.label,
            Number(found.difference, signed=True, unit=f" {found.unit}"),
            Range(found.interval.low, found.interval.high),
            found.interval.verdict(),
            "" if i else claim.published,
        ]
        rows.append(Row(f"{claim.key}:{i}", tuple(cells), rule=not i))
    if claim.missing:
        first = ("", "") if rows else (claim.text, claim.published)
        cells = (first[0], claim.missing, MISSING, MISSING, "not tested", first[1])
        rows.append(Row(f"{claim.key}:missing", cells, rule=not rows))
    return rows
