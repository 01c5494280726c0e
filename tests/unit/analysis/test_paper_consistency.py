"""The paper's numbers agree with each other, and every relation between them can fail."""

import random
import re
from dataclasses import replace

from analysis.consistency import page
from analysis.consistency.checks import three_counts
from analysis.consistency.relations import every
from analysis.published import RunsRow, published
from analysis.statistics.estimates import Estimate

PAPER = published()


def changed(value, rng):
    """The same data with every number moved by up to a tenth, each by itself."""
    if isinstance(value, dict):
        return {key: changed(item, rng) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(changed(item, rng) for item in value)
    if isinstance(value, float):
        return round(value * rng.uniform(0.9, 1.1), 3)
    return value + rng.randint(1, 3) if type(value) is int else value


def perturbed(seed):
    """The published numbers, all of them wrong."""
    rng = random.Random(seed)
    rows = [
        replace(row, gain=row.gain + (seed % 2) * rng.uniform(1, 2), low=row.low - 9)
        for row in PAPER.paired
    ]
    runs = {
        name: RunsRow(changed(row.runs, rng), changed(row.mean, rng), changed(row.sd, rng))
        for name, row in PAPER.pcqc_runs.items()
    }
    tables = changed(PAPER.tables, rng)
    return replace(PAPER, tables=tables, paired=tuple(rows), pcqc_runs=runs)


def named(check):
    """A relation without the numbers that it prints."""
    return check.table, re.sub(r"[-+]?[\d.,]*\d", "#", check.relation)


def test_all_relations_agree():
    assert [check for check in every(PAPER) if not check.agrees] == []


def test_every_relation_fails_for_some_wrong_numbers():
    names = {named(check) for check in every(PAPER)}
    failed = {named(c) for seed in range(6) for c in every(perturbed(seed)) if not c.agrees}
    assert names - failed == set()


def test_three_counts_are_those_of_the_published_runs():
    assert (781, 781, 817) in three_counts(Estimate(62.54, 1.64, 3), 1268)
    assert (781, 781, 817) not in three_counts(Estimate(62.54, 1.65, 3), 1268)
    assert all(817 in t for t in three_counts(Estimate(62.54, 1.64, 3), 1268, one=817))


def test_the_page_is_current():
    assert page.PATH.read_text(encoding="utf-8") == page.page(PAPER)
