"""Checkpoints at equal budgets, from training records made by hand."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.tables import TABLES

# Consultations an update; GRPO spends twice as much, and is validated at 10 and 20 too.
SPENT = {"pcqc": 10, "grpo": 20}


@pytest.fixture
def table(collected):
    study = collected.study
    methods = {
        name: replace(method, runs=("A",) if name in (*SPENT, "shared_sft") else ())
        for name, method in study.methods.items()
    }
    rows = []
    for method, each in SPENT.items():
        for update in range(1, 21):
            common = {"method": method, "run": "A", "update": update, "turns": float(update)}
            cost = {"trajectories": update * each, "device_hours": update * 0.5}
            rows.append({**common, **cost, "kind": "update", "accuracy": 0.0})
            if update % 5 == 0:
                rows.append({**common, "kind": "validation", "accuracy": update / 100})
    made = replace(collected, study=replace(study, methods=methods), updates=pd.DataFrame(rows))
    return TABLES.module("equal_budgets").build(made)


def cells(table, key):
    (row,) = [row for row in table.rows if row.key == key]
    return dict(zip([c.key for c in table.columns], row.cells, strict=True))


def test_the_last_checkpoint_within_the_budget_counts(table):
    """PCQC's 200 consultations are the most that both reach; GRPO has them after 10 updates."""
    found = cells(table, "trajectories:1.00:pcqc"), cells(table, "trajectories:1.00:grpo")
    assert [one["update"].value for one in found] == [20, 10]
    assert [one["accuracy"].value for one in found] == pytest.approx([20, 10])
    # Of 133 consultations PCQC spends 130 by update 13, validated at 10, GRPO at 5.
    assert cells(table, "trajectories:0.67:pcqc")["update"].value == 10
    assert cells(table, "trajectories:0.67:grpo")["turns"].value == 5


def test_a_method_without_a_checkpoint_in_the_budget_has_none(table):
    """A third, 66 consultations, is before GRPO's first checkpoint at 100."""
    assert cells(table, "trajectories:0.33:grpo")["accuracy"] == "—"
    assert cells(table, "trajectories:0.33:pcqc")["update"].value == 5


def test_equal_time_is_another_order(table):
    """Both spend half an hour an update."""
    for method in SPENT:
        assert cells(table, f"device_hours:1.00:{method}")["update"].value == 20
