"""The paper's claims, one line each: estimate, interval, verdict."""

from analysis.claims import Claim, claims
from analysis.collected import Collected
from analysis.statistics.crossed import Effect
from analysis.table import MISSING, Cell, Column, Number, Probability, Range, Row, Table, listed
from analysis.tables.layout import by_base, random_parts

NAME = "claims"
COLUMNS = (
    Column("claim", "Claim", numeric=False),
    Column("comparison", "Tested by", numeric=False),
    Column("estimate", "Estimate"),
    Column("interval", "95% CI"),
    Column("p", "Holm p"),
    Column("detectable", "Detectable"),
    Column("improvement", "P(better run)"),
    Column("verdict", "Verdict", numeric=False),
    Column("published", "In the paper", numeric=False),
)


def build(collected: Collected) -> Table:
    """One row per comparison; a claim with two rivals takes two."""
    found = claims(collected)
    rows = [row for claim in found for row in _rows(claim)]
    primary = [collected.benchmarks[name].title for name in collected.primary]
    margin = collected.study.equivalence
    caption = (
        "Differences of means over benchmarks and runs, in percentage points or turns, signed so "
        f"that positive favours the claim. 95% intervals: {random_parts(_of_methods(found))}, "
        f"base models are fixed ({_bases(collected)}), so that they speak for the study's alone. "
        "The third claim "
        f"averages {listed(primary)}, as the paper does, the others all benchmarks; the last "
        f"compares candidate questions of one run{_of_each(collected)}, and only their cases are "
        "random. Detectable: the smallest true difference that a 5% test finds four times in "
        "five. P(better run): chance that a run of the first beats one of the second on a "
        "benchmark. Verdicts hold together at 5% (Holm). Supported: above zero; contradicted: "
        f"below; equivalent: within {margin.points:g} points or {margin.turns:g} turns of zero, "
        "margins of the study's settings; undecided: none of these, or not so under each base "
        "model."
    )
    title = f"Five claims of the paper: {collected.study.title}."
    return Table(NAME, title, caption, COLUMNS, tuple(rows), _by_base(found))


def _of_methods(found: list[Claim]) -> list[Effect]:
    """Differences of trained methods; the last claim is about one run."""
    return [comparison.effect for claim in found[:-1] for comparison in claim.comparisons]


def _bases(collected: Collected) -> str:
    """`one here`, or how many."""
    return f"{1 + len(collected.others)} here" if collected.others else "one here"


def _of_each(collected: Collected) -> str:
    return " on each base model" if collected.others else ""


def _by_base(found: list[Claim]) -> tuple[str, ...]:
    """A note with each difference under every base model, where there are several."""
    said = []
    for comparison in (c for claim in found for c in claim.comparisons):
        if len(comparison.effect.by_base) > 1:
            said.append(f"{comparison.label}: {by_base(comparison.effect)}")
    return (f"By base model: {'; '.join(said)}.",) if said else ()


def _rows(claim: Claim) -> list[Row]:
    rows = []
    for i, found in enumerate(claim.comparisons):
        effect, better = found.effect, found.improvement
        cells: list[Cell] = [
            "" if i else claim.text,
            found.label,
            Number(effect.difference, signed=True, unit=f" {found.unit}"),
            Range(effect.low, effect.high),
            Probability(found.judged.p),
            Number(effect.detectable, unit=f" {found.unit}"),
            MISSING if better is None else Number(better),
            found.judged.verdict,
            "" if i else claim.published,
        ]
        rows.append(Row(f"{claim.key}:{i}", tuple(cells), rule=not i))
    if claim.missing:
        first = ("", "") if rows else (claim.text, claim.published)
        cells = (first[0], claim.missing, *[MISSING] * 5, "not tested", first[1])
        rows.append(Row(f"{claim.key}:missing", cells, rule=not rows))
    return rows
