"""The paper's claims, one line each: estimate, interval, verdict; and the same at equal budgets."""

from analysis.budgets import COSTS, COUNTED, RULE, at_budget, budgets
from analysis.claims import Claim, Comparison, claims, claims_of_methods
from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.table import MISSING, Cell, Column, Number, Probability, Range, Row, Table, listed
from analysis.tables.layout import by_base, random_parts

COLUMNS = (
    Column("claim", "Claim", numeric=False),
    Column("comparison", "Tested by", numeric=False),
    Column("n", "n", numeric=False),
    Column("estimate", "Estimate"),
    Column("interval", "95% CI"),
    Column("p", "Holm p"),
    Column("detectable", "Detectable"),
    Column("improvement", "P(better run)"),
    Column("verdict", "Verdict", numeric=False),
    Column("published", "In the paper", numeric=False),
)
WHERE = Column("where", "Checkpoints", numeric=False)
AT_BUDGETS = (*COLUMNS[:3], WHERE, *COLUMNS[3:6], COLUMNS[8])
BUDGET = "whole"


def build(collected: Collected) -> Table:
    """One row per comparison; a claim with two rivals takes two."""
    judged = claims(collected)
    comparisons = [comparison for claim in judged for comparison in claim.comparisons]
    # The last claim compares questions of one run, the others trained methods.
    effects = [comparison.effect for claim in judged[:-1] for comparison in claim.comparisons]
    primary = listed([collected.benchmarks[name].title for name in collected.primary])
    bases = 1 + len(collected.others)
    several_bases, single = bases > 1, any(comparison.single for comparison in comparisons)
    development = collected.benchmarks[collected.study.development].title
    margin = collected.study.equivalence
    caption = (
        f"Differences of means over benchmarks and runs{on_base_models(bases)}, in percentage "
        "points or turns; positive favours the claim. Every checkpoint was selected on "
        f"{development}, one of the benchmarks. n: runs of each, and cases of all benchmarks "
        "(in the last claim states, one of each case). 95% intervals, each for itself: "
        f"{random_parts(effects)}; they cover no other benchmarks and no other base models. The "
        f"third claim averages {primary}, as the paper does, the others all benchmarks. The last "
        f"claim compares candidate questions of one run{' on each base model' * several_bases}; "
        "its intervals cover cases alone. Detectable: the smallest true difference that a 5% test "
        "of it alone finds four times in five. P(better run): chance that a run of the first beats "
        f"one of the second on a benchmark. Verdicts hold together at 5% over all "
        f"{len(comparisons)} comparisons (Holm). Supported: above zero; contradicted: below; "
        "alone: by its own interval, but not over all comparisons; equivalent: within "
        f"{margin.points:g} points or {margin.turns:g} turns of zero, margins of the study's "
        "settings; undecided: the interval holds zero"
        f"{'; differs by base model: of another sign under one of them' * several_bases}"
        f"{'; not judged: one run of each method' * single}."
    )
    several = [c for c in comparisons if len(c.effect.by_base) > 1]
    by_bases = "; ".join(
        f"{comparison.label}: {by_base(comparison.effect)}" for comparison in several
    )
    notes = (f"By base model: {by_bases}.",) if several else ()
    rows = [row for claim in judged for row in _rows(claim)]
    title = f"Five claims of the paper: {collected.study.title}."
    return Table("claims", title, caption, COLUMNS, tuple(rows), notes)


def _rows(claim: Claim) -> list[Row]:
    rows = []
    for i, comparison in enumerate(claim.comparisons):
        estimate, interval, p, verdict = _judgement(comparison)
        detectable = Number(comparison.effect.detectable, unit=f" {comparison.unit}")
        better = comparison.improvement
        cells: list[Cell] = [
            "" if i else claim.text,
            comparison.label,
            comparison.n,
            *(estimate, interval, p, detectable),
            MISSING if better is None else Number(better),
            verdict,
            "" if i else claim.published,
        ]
        rows.append(Row(f"{claim.key}:{i}", tuple(cells), rule=not i))
    if claim.missing:
        first = ("", "") if rows else (claim.text, claim.published)
        cells = [first[0], claim.missing, *[MISSING] * 6, "not tested", first[1]]
        rows.append(Row(f"{claim.key}:missing", tuple(cells), rule=not rows))
    return rows


def at_budgets(collected: Collected) -> Table:
    """Each comparison at the selected checkpoints, then at one equal budget of each kind."""
    # (key of a row, words, the claims judged at these checkpoints)
    places = [("selected", "Selected", claims_of_methods(collected.on_development()))]
    if all(each.validations is not None for each in collected.on_each_base):
        for cost, printed in COSTS.items():
            if spent := budgets(collected, cost):
                amount = printed.number(spent.amounts[BUDGET]).text()
                judged = claims_of_methods(at_budget(collected, spent, BUDGET))
                places.append((cost, f"{amount} {printed.unit}", judged))
    rows = []
    for number, claim in enumerate(places[0][2]):
        for i, comparison in enumerate(claim.comparisons):
            for key, words, judged in places:
                first = key == "selected"
                label = ("" if i else claim.text, comparison.label, comparison.n)
                label = label if first else ("", "", "")
                judgement = _judgement(judged[number].comparisons[i])
                cells = (*label, words, *judgement)
                rows.append(Row(f"{claim.key}:{i}:{key}", cells, rule=first and not i))
    effects = [c.effect for *_, judged in places for claim in judged for c in claim.comparisons]
    development = collected.benchmarks[collected.study.development].title
    margin = collected.study.equivalence
    caption = (
        f"Differences of means on {development}, in percentage points or turns; positive favours "
        "the claim. Selected: at the checkpoints chosen on these cases. Budgets: every run when "
        f"it had spent as much, with no choice among checkpoints. {RULE} {COUNTED} "
        f"Intervals: {random_parts(effects)}, from each validation's outcomes case by case. "
        "Verdicts at the same checkpoints hold together at 5% (Holm); "
        f"equivalent: within {margin.points:g} points or {margin.turns:g} turns of zero."
    )
    title = "The claims at equal budgets."
    return Table("claims_at_budgets", title, caption, AT_BUDGETS, tuple(rows))


def _judgement(comparison: Comparison) -> tuple[Cell, ...]:
    """Estimate, interval, p and verdict."""
    effect, judged = comparison.effect, comparison.judged
    return (
        Number(effect.difference, signed=True, unit=f" {comparison.unit}"),
        Range(effect.low, effect.high),
        Probability(judged.p),
        judged.verdict,
    )
