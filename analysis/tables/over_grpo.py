"""PCQC over GRPO by benchmark, at equal consultations, tokens and compute, and by base model."""

from analysis.budgets import COSTS, COUNTED, at_budget, budgets, rule
from analysis.claims import compared
from analysis.collected import Collected
from analysis.notices import in_words, on_base_models
from analysis.statistics.intervals import Effect
from analysis.table import Column, Row, Table, with_interval
from analysis.tables.layout import development_cases, random_parts
from pcqc_study.study_file import START

PAIR = ("pcqc", "grpo")


def build(collected: Collected) -> Table:
    """A row for each comparison, a column for the mean over base models and for each of them."""
    everywhere, development = list(collected.benchmarks), collected.study.development
    titles = {name: benchmark.title for name, benchmark in collected.benchmarks.items()}
    every = f"{in_words(len(everywhere))} benchmarks"
    effects = {
        "accuracy": (f"Right, {every} (pp)", _effect(collected, everywhere)),
        "turns": (f"Fewer questions, {every}", _effect(collected, everywhere, "turns")),
        **{
            name: (f"Right, {titles[name]} (pp)", _effect(collected, [name])) for name in everywhere
        },
    }
    both, kinds = collected.only((START, *PAIR)), []
    for cost, printed in COSTS.items():
        known = all(each.validations is not None for each in both.on_each_base)
        if known and (spent := budgets(both, cost)):
            kinds.append(spent)
            where = f"{titles[development]} at {printed.text(spent.amounts['whole'])}"
            at = at_budget(both, spent, "whole")
            effects[cost] = (f"Right, {where} (pp)", _effect(at, [development]))
    bases = list(effects["accuracy"][1].by_base)
    columns = (
        Column("what", "PCQC over GRPO", numeric=False),
        Column("all", f"All {in_words(len(bases))} base models" if bases else "Difference"),
        *(Column(base.replace(" ", "_"), base.capitalize()) for base in bases),
    )
    rows = [
        Row(key, (label, *map(with_interval, (effect, *effect.by_base.values()))))
        for key, (label, effect) in effects.items()
    ]
    caption = (
        f"Differences of means over runs{on_base_models(1 + len(collected.others))}, each with a "
        "95% interval of its own; pp: percentage points. The first "
        f"{in_words(2 + len(everywhere))} rows are at checkpoints with the highest accuracy on "
        f"{titles[development]}; the others are on {development_cases(collected)}, each run when "
        "its training had cost the amount that the row names. Intervals "
        f"{random_parts([effect for _, effect in effects.values()])}."
    )
    notes = (f"{rule(kinds, ' of the two methods')} {COUNTED}",) if kinds else ()
    title = f"PCQC against GRPO: {collected.study.title}."
    return Table("over_grpo", title, caption, columns, tuple(rows), notes)


def _effect(collected: Collected, benchmarks: list[str], metric: str = "accuracy") -> Effect:
    return compared(collected, *PAIR, benchmarks, metric).effect
