"""The paper's claims, one line each: estimate, interval, verdict; and the same at equal budgets."""

from collections.abc import Sequence

from analysis.budgets import COSTS, COUNTED, Budgets, at_budget, budgets, rule, trained
from analysis.claims import Claim, Comparison, claims, claims_of_methods
from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.statistics.verdicts import (
    CONTRARY,
    DECIDED,
    DIFFERS,
    EQUIVALENT,
    NOMINAL,
    NOT_JUDGED,
    NOT_ON_EACH,
    TOO_FEW,
    UNDECIDED,
)
from analysis.table import (
    MISSING,
    Cell,
    Column,
    Number,
    Probability,
    Row,
    Table,
    difference,
    listed,
    with_interval,
)
from analysis.tables.layout import (
    base_models,
    development_cases,
    random_parts,
)
from pcqc_study.study_file import START

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
UNITS = "Positive favours the claim; pp: percentage points of accuracy, turns: questions."
SUPPORTED, CONTRADICTED = DECIDED


def build(collected: Collected) -> Table:
    """One row per comparison; a claim with two rivals takes two."""
    judged = claims(collected)
    # The last claim compares questions of one run, the others trained methods.
    effects = [comparison.effect for claim in judged[:-1] for comparison in claim.comparisons]
    development = collected.benchmarks[collected.study.development].title
    caption = (
        "Each row is a difference of two methods' means over benchmarks and runs"
        f"{on_base_models(1 + len(collected.others))}. {UNITS} Each run is at its checkpoint with "
        f"the highest accuracy on {development}, one of the benchmarks. The 95% interval is of its "
        f"row alone. Intervals {random_parts(effects)}, benchmarks and base models as fixed."
    )
    rows = [row for claim in judged for row in _rows(claim)]
    title = f"Five claims of the paper: {collected.study.title}."
    return Table("claims", title, caption, COLUMNS, tuple(rows), _notes(collected, judged))


def _notes(collected: Collected, judged: Sequence[Claim]) -> tuple[str, ...]:
    """What the columns and verdicts of the claims mean, and the estimates under each base model."""
    comparisons = [comparison for claim in judged for comparison in claim.comparisons]
    primary = listed([collected.benchmarks[name].title for name in collected.primary])
    bases = 1 + len(collected.others)
    of_each, and_bases = (" of each base model", " and base models") if bases > 1 else ("", "")
    notes = [
        "n: runs of each method, and cases of all benchmarks. Holm p: p of no difference, "
        f"corrected for all {len(comparisons)} comparisons. Detectable: the smallest true "
        "difference that a 5% test of this row alone finds four times in five. P(better run): the "
        "chance that a run of the first method is better than one of the second, mean over "
        f"benchmarks{and_bases}.",
        f"The third claim averages {primary}, as the paper does; the others average all "
        f"benchmarks. The last claim is about candidate questions that one run{of_each} sampled: "
        "n counts states, one per case, and the intervals take cases alone as random.",
        *_verdicts(collected, comparisons),
    ]
    if several := [c for c in comparisons if len(c.effect.by_base) > 1]:
        parts = "; ".join(f"{c.label} {_by_base(c)}" for c in several)
        numbers = base_models(range(1, bases + 1))
        notes.append(f"On {numbers}, in this order, each with its own 95% interval: {parts}.")
    return tuple(notes)


def _by_base(comparison: Comparison) -> str:
    """`+5.1 [+2.1, +8.1], ... pp`: a comparison's estimates, base model by base model."""
    effects = comparison.effect.by_base.values()
    return f"{', '.join(with_interval(effect).text() for effect in effects)} {comparison.unit}"


def _verdicts(collected: Collected, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """A note on what each verdict of a table means; none where nothing was compared."""
    margin = collected.study.equivalence
    each = " on each base model" if collected.others else ""
    also = ", and so is that on each base model" if collected.others else ""
    meanings = {
        SUPPORTED: f"the 95% interval is above zero{also}, and Holm p is below 5%",
        CONTRADICTED: f"the 95% interval is below zero{also}, and Holm p is below 5%",
        NOMINAL: f"the 95% interval is above zero{also}; Holm p is not below 5%",
        CONTRARY: f"the 95% interval is below zero{also}; Holm p is not below 5%",
        EQUIVALENT: (
            f"the 95% interval holds zero, and the difference{each} is less than "
            f"{margin.points:g} points or {margin.turns:g} turns, by two one-sided tests{each} at "
            "5% over all comparisons (Holm); the study's settings fixed these margins"
        ),
        UNDECIDED: "the 95% interval holds zero, and equivalence is not shown",
        DIFFERS: "the 95% interval leaves out zero, but on a base model the sign is another",
        NOT_ON_EACH: (
            "the 95% interval leaves out zero, with one sign on all base models, but on one of "
            "them the interval holds zero"
        ),
        TOO_FEW: "all outcomes are alike, and the exact interval for so few holds zero",
        NOT_JUDGED: "each method has one run, so that nothing is known of others",
    }
    reached = {comparison.judged.verdict for comparison in comparisons}
    words = [
        f"{verdict.partition(':')[0].capitalize()}: {meaning}."
        for verdict, meaning in meanings.items()
        if verdict in reached
    ]
    how = "docs/analysis.md says how they are reached."
    return (f"Verdicts. {' '.join(words)} {how}",) if words else ()


def _rows(claim: Claim) -> list[Row]:
    rows = []
    for i, comparison in enumerate(claim.comparisons):
        estimate, interval, p, verdict = _judgement(comparison)
        effect = comparison.effect
        detectable = Number(effect.detectable, unit=f" {comparison.unit}")
        better = comparison.improvement
        cells: list[Cell] = [
            "" if i else claim.text,
            comparison.label,
            comparison.n,
            *(estimate, interval, p, MISSING if effect.constant else detectable),
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
    selected = collected.on_development()
    # (key of a row, rival -> words, the claims judged at these checkpoints)
    places = [("selected", {}, claims_of_methods(selected))]
    kinds = []
    for cost, printed in COSTS.items():
        if spent := _equal(collected, cost):
            kinds += [each for each, _ in spent.values()]
            words = {r: printed.text(each.amounts[BUDGET]) for r, (each, _) in spent.items()}
            pairs = {rival: runs for rival, (_, runs) in spent.items()}
            places.append((cost, words, claims_of_methods(selected, pairs)))
    rows = []
    for number, claim in enumerate(places[0][2]):
        for i, comparison in enumerate(claim.comparisons):
            for key, words, judged in places:
                first = key == "selected"
                label = ("" if i else claim.text, comparison.label, comparison.n)
                label = label if first else ("", "", "")
                judgement = _judgement(judged[number].comparisons[i])
                cells = (*label, words.get(comparison.rival, "Selected"), *judgement)
                rows.append(Row(f"{claim.key}:{i}:{key}", cells, rule=first and not i))
    comparisons = [c for *_, judged in places for claim in judged for c in claim.comparisons]
    effects = [comparison.effect for comparison in comparisons]
    bases = 1 + len(collected.others)
    caption = (
        f"Each row is a difference of two methods' means over runs{on_base_models(bases)}, on "
        f"{development_cases(collected)}. {UNITS} Selected: each run at its checkpoint with the "
        "highest accuracy on these cases. The other rows: each run when its training had cost the "
        "amount that the row names, whatever its checkpoint's accuracy. The 95% interval is of "
        f"its row alone. Intervals {random_parts(effects)}. Holm p: p of no difference, corrected "
        "over the comparisons at the same checkpoints."
    )
    notes = (f"{rule(kinds, ' of the two methods')} {COUNTED}",) if kinds else ()
    notes = (*notes, *_verdicts(collected, comparisons))
    title = "The claims at equal budgets."
    return Table("claims_at_budgets", title, caption, AT_BUDGETS, tuple(rows), notes)


def _equal(collected: Collected, cost: str) -> dict[str, tuple[Budgets, Collected]]:
    """Rival -> the budgets of PCQC and of it, and their runs as they were at the largest.

    A rival that spent little sets the budget of its own comparison alone. Empty where the cost or
    the validations of some run are unknown.
    """
    if any(each.validations is None for each in collected.on_each_base):
        return {}
    pairs = {}
    for rival in trained(collected):
        if rival == "pcqc":
            continue
        both = collected.only((START, "pcqc", rival))
        if (spent := budgets(both, cost)) is None:
            return {}
        pairs[rival] = spent, at_budget(both, spent, BUDGET)
    return pairs


def _judgement(comparison: Comparison) -> tuple[Cell, ...]:
    """Estimate, interval, p and verdict."""
    judged = comparison.judged
    estimate = difference(comparison.effect, unit=f" {comparison.unit}")
    p = MISSING if judged.p is None else Probability(judged.p)
    return *estimate, p, judged.verdict
