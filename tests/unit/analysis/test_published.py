"""The numbers that the paper prints: as in the reference, and in agreement with each other."""

import numpy as np
import pytest
import yaml

from analysis.published import published
from analysis.table import Number, Range, Table
from pcqc_study.intervals_over_cases import NORMAL
from pcqc_study.paired import mcnemar, paired_comparison

PAPER = published()
PAIRED = [
    (*row.key.split(":"), row.cells)
    for name in ("paired", "question_supervision_paired")
    for row in PAPER.tables[name].rows
]
ROWS = pytest.mark.parametrize(
    ("benchmark", "methods", "cells"), PAIRED, ids=[f"{b}-{m}" for b, m, _ in PAIRED]
)


# What the reference has beside a table's numbers.
BESIDE = ("update", "terminal_group", "executed_local")


def numbers(value):
    """All numbers in nested data or in a table, by value."""
    if isinstance(value, Table):
        return numbers([list(row.cells) for row in value.rows])
    if isinstance(value, dict):
        return numbers([item for key, item in value.items() if key not in BESIDE])
    if isinstance(value, list):
        return {number for item in value for number in numbers(item)}
    if isinstance(value, Number):
        return {value.value, value.sd} - {None}
    if isinstance(value, Range):
        return {value.low, value.high}
    if isinstance(value, str):  # a p value, whose digits count
        return {float(value)} if value.replace(".", "").isdigit() else set()
    return {float(value)}


def test_every_number_of_the_reference_stands_in_the_same_table(shared_file):
    reference = yaml.safe_load(shared_file("reference/paper_results.yaml").read_text("utf-8"))
    reference["pcqc_runs"] = reference.pop("seed_robustness")
    for name in reference.keys() & PAPER.tables.keys():
        printed = numbers(PAPER.tables[name])
        if name == "paired":
            printed |= numbers(PAPER.tables["question_supervision_paired"])
        assert numbers(reference[name]) - printed == set(), name


def test_claims_are_differences_of_the_tables_means():
    def mean(table, method, column="average"):
        return PAPER.tables[table].cell(method, column).value

    def over(rival, table="main_accuracy", column="average"):
        return f"{mean(table, 'pcqc', column) - mean(table, rival, column):+.2f}"

    def gain(rival):
        row = PAPER.tables["continuation"]
        return f"{row.cell(rival, 'gain').text()} {row.cell(rival, 'interval').text()}"

    q1 = {m: mean("same_state_q1", "mean", f"{m}_accuracy") for m in ("pcqc", "same_state_q1")}
    turns = {m: mean("inquiry_turns", m) for m in ("grpo", "pcqc")}
    fewer = turns["grpo"] - turns["pcqc"]
    assert PAPER.claims == {
        "accuracy": f"{over('grpo')} over GRPO, {over('atpo')} over ATPO",
        "turns": f"{fewer:+.3f} turns ({100 * fewer / turns['grpo']:.1f}% fewer)",
        "counterfactual": f"{over('executed_local', 'question_supervision', 'average_accuracy')} "
        "over Executed-local",
        "unexecuted": f"{q1['pcqc'] - q1['same_state_q1']:+.2f} over Same-State-Q1",
        "utility": f"{gain('uniform')} over uniform selection, {gain('executed')} over q_1",
    }


def test_further_claims_are_differences_of_the_tables_means():
    three = ("medqa", "medical_exam", "medmcqa")

    def mean(table, row, *columns):
        return np.mean([PAPER.tables[table].cell(row, column).value for column in columns])

    def less(table, first, second, *columns):
        return mean(table, first, *columns) - mean(table, second, *columns)

    def grounded(rival):
        name = f"eligible_highest_utility_vs_{rival}"
        cells = [PAPER.tables["grounded_continuation"].cell(name, c) for c in ("gain", "interval")]
        return f"{' '.join(cell.text() for cell in cells)} pp"

    own, supervision = "same_state_q1", "question_supervision"
    turns = [f"{name}_turns" for name in three]
    asks = mean(own, "mean", "same_state_q1_turns") - mean(own, "mean", "pcqc_turns")
    tokens = {
        m: np.mean([mean("generation_length", n, m) for n in three]) for m in ("grpo", "pcqc")
    }
    fewer = tokens["grpo"] - tokens["pcqc"]
    spent = less("training_cost", "grpo", "pcqc", "trajectories")
    of_grpo = mean("training_cost", "grpo", "trajectories")
    group = mean("main_accuracy", "grpo", *three)
    group -= mean(supervision, "terminal_only", "average_accuracy")
    local = less(supervision, "executed_local", "terminal_only", "average_accuracy")
    assert PAPER.further_claims == {
        "turns_executed_local": f"{less(supervision, 'executed_local', 'pcqc', *turns):+.3f} turns",
        "turns_same_state_q1": f"{asks:+.3f} turns",
        "turns_start": f"{less('inquiry_turns', 'grpo', 'shared_sft', 'average'):+.3f} turns",
        "tokens": f"{fewer:+.1f} tokens ({100 * fewer / tokens['grpo']:.1f}% fewer)",
        "group_size": f"{group:+.2f} pp",
        "executed_local": f"{local:+.2f} pp",
        "independent": f"{less('main_accuracy', 'pcqc', 'grpo', 'icraft_md'):+.2f} pp",
        "consultations": f"{spent:+,.0f} ({100 * spent / of_grpo:.1f}% fewer)",
        "grounded_uniform": grounded("uniform"),
        "grounded_executed": grounded("executed"),
    }


def printed(value, like):
    """`value` with as many decimals as the text `like` has."""
    return f"{value:.{len(like.partition('.')[2])}f}"


def fitting_counts(gain, p, cases):
    """All (only minuend, only subtrahend) that print as a gain in points and an exact p."""
    gap = round(gain * cases / 100)
    return [
        ((n + gap) // 2, (n - gap) // 2)
        for n in range(max(abs(gap), 1), cases + 1)
        if (n - gap) % 2 == 0 and printed(mcnemar((n + gap) // 2, (n - gap) // 2), p) == p
    ]


@ROWS
def test_gain_p_and_cases_fix_the_discordant_counts(benchmark, methods, cells):
    """Only p = 1 with a gain of 0 leaves their size open; there the interval decides."""
    cases = PAPER.benchmarks[benchmark].cases
    _, _, gain, interval, counts, p = cells
    width = (interval.high - interval.low) / 100

    def misfit(counts):
        b, c = counts
        return abs(2 * NORMAL * (b + c - (b - c) ** 2 / cases) ** 0.5 / cases - width)

    possible = fitting_counts(gain.value, p, cases)
    assert len(possible) == 1 or p == "1.0000"
    assert " / ".join(map(str, min(possible, key=misfit))) == counts


@ROWS
def test_our_statistics_give_the_published_gain_interval_and_p(benchmark, methods, cells):
    """Outcomes rebuilt from the discordant counts; how concordant cases are split is no matter."""
    cases = PAPER.benchmarks[benchmark].cases
    _, _, gain, interval, counts, p = cells
    b, c = map(int, counts.split(" / "))
    minuend, subtrahend = np.ones((2, cases), bool)
    subtrahend[:b] = False
    minuend[b : b + c] = False
    ours = paired_comparison(minuend, subtrahend)
    assert printed(ours.gain, "0.00") == printed(gain.value, "0.00")
    assert printed(ours.p, p) == p
    drawn = [paired_comparison(minuend, subtrahend, seed=seed) for seed in range(20)]
    monte_carlo = np.std(
        [(comparison.low, comparison.high) for comparison in drawn], axis=0, ddof=1
    )
    tolerance = 100 / cases + 3 * monte_carlo + 0.005  # one case, and the printed rounding
    ends = np.subtract((ours.low, ours.high), (interval.low, interval.high))
    assert np.all(np.abs(ends) <= tolerance)
