"""The paper's claims about trained methods at equal cost, beside the selected checkpoints."""

from dataclasses import dataclass

from analysis.budgets import COSTS, COUNTED, RULE, at_budget, budgets
from analysis.claims import Claim, claims_of_methods
from analysis.collected import Collected
from analysis.table import Cell, Column, Number, Probability, Range, Row, Table
from analysis.tables.layout import random_parts

NAME = "claims_at_budgets"
BUDGET = "whole"
COLUMNS = (
    Column("claim", "Claim", numeric=False),
    Column("comparison", "Tested by", numeric=False),
    Column("where", "Checkpoints", numeric=False),
    Column("estimate", "Estimate"),
    Column("interval", "95% CI"),
    Column("p", "Holm p"),
    Column("verdict", "Verdict", numeric=False),
)


@dataclass(frozen=True)
class _Place:
    """Checkpoints at which claims are judged: `key` of a row, its words, and the claims there."""

    key: str
    words: str
    claims: list[Claim]


def build(collected: Collected) -> Table:
    """Each comparison at the selected checkpoints, then at one equal budget of each kind."""
    places = _places(collected)
    rows = []
    for number, claim in enumerate(places[0].claims):
        for i, comparison in enumerate(claim.comparisons):
            for k, place in enumerate(places):
                words = (("" if i else claim.text), comparison.label) if not k else ("", "")
                key = f"{claim.key}:{i}:{place.key}"
                cells = (*words, place.words, *_cells(place.claims[number], i))
                rows.append(Row(key, cells, rule=not k and not i))
    effects = [c.effect for place in places for claim in place.claims for c in claim.comparisons]
    development = collected.benchmarks[collected.study.development].title
    margin = collected.study.equivalence
    caption = (
        f"Differences of means on {development}, in percentage points or turns, signed so that "
        "positive favours the claim. Selected: of checkpoints that were chosen on these cases. "
        "Budgets: of every run when it had spent as much, with no choice among checkpoints. "
        f"{RULE} {COUNTED} "
        f"Intervals: {random_parts(effects)}, from each validation's "
        "outcomes case by case. Verdicts at the same checkpoints hold together at 5% (Holm); "
        f"equivalent: within {margin.points:g} points or {margin.turns:g} turns of zero."
    )
    return Table(NAME, "The claims at equal budgets.", caption, COLUMNS, tuple(rows))


def _places(collected: Collected) -> list[_Place]:
    """The selected checkpoints, then those at each kind of budget that every run has."""
    places = [_Place("selected", "Selected", claims_of_methods(collected.on_development()))]
    if any(one.validations is None for one in collected.on_each_base):
        return places
    for cost, printed in COSTS.items():
        if found := budgets(collected, cost):
            there = claims_of_methods(at_budget(collected, found, BUDGET))
            amount = printed.number(found.amounts[BUDGET]).text()
            places.append(_Place(cost, f"{amount} {printed.unit}", there))
    return places


def _cells(claim: Claim, i: int) -> tuple[Cell, ...]:
    """Estimate, interval, p and verdict of one of a claim's comparisons."""
    found = claim.comparisons[i]
    return (
        Number(found.effect.difference, signed=True, unit=f" {found.unit}"),
        Range(found.effect.low, found.effect.high),
        Probability(found.judged.p),
        found.judged.verdict,
    )
