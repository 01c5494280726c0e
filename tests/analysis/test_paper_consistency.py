"""Golden test: every mean, deviation, average and reduction of the paper's tables, recomputed."""

import copy
from dataclasses import replace

import pytest

from analysis.consistency import page, relations
from analysis.consistency.checks import three_counts
from analysis.published import published
from analysis.statistics import Estimate

PAPER = published()
CHECKS = list(relations.every(PAPER))


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: f"{c.table}: {c.relation}")
def test_relation_agrees(check):
    assert check.agrees, check


def test_every_table_with_arithmetic_is_covered():
    assert {check.table for check in CHECKS} == {
        "main_accuracy",
        "inquiry_turns",
        "pcqc_runs",
        "question_supervision",
        "same_state_q1",
        "paired",
        "generation_length",
        "training_cost",
        "continuation",
        "grounded_continuation",
        "prose",
        "training",
    }


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("main_accuracy", "grpo", "average"), 0.02),
        (("main_accuracy", "atpo", "medqa", 1), 0.3),
        (("main_accuracy", "shared_sft", "icraft_md", 0), 0.02),
        (("inquiry_turns", "pcqc", "medical_exam", 0), 0.001),
        (("question_supervision", "accuracy", "executed_local", "average", 0), 0.02),
        (("same_state_q1", "turns", "same_state_q1", "mean"), 0.002),
        (("generation_length", "reduction", "medqa"), 0.2),
        (("training_cost", "pcqc", "trajectories"), 1),
        (("continuation", "gains", "executed", "gain"), 0.03),
        (("prose", "turn_reduction", "smallest"), 0.2),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_wrong_number_is_noticed(path, change):
    tables = copy.deepcopy(PAPER.tables)
    place = tables
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += change
    changed = replace(PAPER, tables=tables)
    assert not all(check.agrees for check in relations.every(changed))


def test_a_wrong_run_of_pcqc_is_noticed():
    row = PAPER.pcqc_runs["medqa"]
    runs = {**PAPER.pcqc_runs, "medqa": replace(row, runs=(61.59, 61.67, 64.43))}
    assert not all(c.agrees for c in relations.every(replace(PAPER, pcqc_runs=runs)))


def test_three_counts_are_those_of_the_published_runs():
    assert (781, 781, 817) in three_counts(Estimate(62.54, 1.64, 3), 1268)
    assert (781, 781, 817) not in three_counts(Estimate(62.54, 1.65, 3), 1268)
    assert all(817 in t for t in three_counts(Estimate(62.54, 1.64, 3), 1268, one_is=817))


def test_page_is_current():
    assert page.PATH.read_text(encoding="utf-8") == page.page(PAPER)
