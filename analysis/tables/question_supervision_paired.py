"""Paired comparisons of PCQC and its controls on the development benchmark."""

from analysis.collected import Collected
from analysis.published import published
from analysis.statistics.bootstrap import RESAMPLES
from analysis.table import Table
from analysis.tables.layout import Words
from analysis.tables.paired import CONTROLS, is_control, published_table, table

NAME = "question_supervision_paired"


def build(collected: Collected) -> Table:
    """The paper's two comparisons and, where the study has it, PCQC against Same-State-Q1."""
    development = collected.study.development
    pairs = [*CONTROLS]
    if "same_state_q1" in collected.methods():
        pairs.append(("pcqc", "same_state_q1"))
    words = Words(
        NAME,
        f"Paired {collected.benchmarks[development].title} comparisons for question supervision.",
        f"Run {collected.run} of each on {collected.number_of_cases(development):,} cases; "
        f"intervals from {RESAMPLES:,} resamples of cases.",
    )
    return table(words, collected, [(development, *pair) for pair in pairs])


def paper() -> Table:
    """The published table."""
    cases = published().benchmarks[published().development].cases
    words = Words(
        NAME,
        "Paired MedQA comparisons for question supervision in the paper.",
        f"PCQC run A on {cases:,} cases; discordant counts recovered from gain, p and cases.",
    )
    return published_table(words, [row for row in published().paired if is_control(row)])
