"""Checkpoints at equal budgets, from training records made by hand."""

import pytest
from budgeted import SPENT, fifths, two_methods
from built_tables import build


@pytest.fixture
def table(collected):
    return build("equal_budgets", two_methods(collected, fifths))


def cells(table, key):
    (row,) = [row for row in table.rows if row.key == key]
    return dict(zip([c.key for c in table.columns], row.cells, strict=True))


def test_the_last_checkpoint_within_the_budget_counts(table):
    """PCQC's 200 consultations are the most that both reach; GRPO has them after 10 updates."""
    found = cells(table, "trajectories:largest:pcqc"), cells(table, "trajectories:largest:grpo")
    assert [one["update"].value for one in found] == [20, 10]
    assert [one["accuracy"].value for one in found] == pytest.approx([20, 10])
    assert [one["best"].value for one in found] == pytest.approx([50, 25])
    # The root of 100 * 200 is 141: PCQC spends 140 by update 14, validated at 10, GRPO at 5.
    assert cells(table, "trajectories:middle:grpo")["budget"] == "141 consultations"
    assert cells(table, "trajectories:middle:pcqc")["update"].value == 10
    assert cells(table, "trajectories:middle:grpo")["turns"].value == 5


def test_the_least_budget_is_where_every_run_has_a_checkpoint(table):
    """GRPO's first checkpoint is at 100 consultations, PCQC's at 50."""
    assert cells(table, "trajectories:least:grpo")["budget"] == "100 consultations"
    assert cells(table, "trajectories:least:grpo")["update"].value == 5
    assert cells(table, "trajectories:least:pcqc")["update"].value == 10
    assert "—" not in [cell for row in table.rows for cell in row.cells]


def test_what_was_spent_stands_beside_the_accuracy(table):
    """By its update 10 PCQC has 100 consultations, 50,000 tokens and 5 hours."""
    found = cells(table, "trajectories:least:pcqc")
    spent = [found[name].text() for name in ("trajectories", "sampled_tokens", "device_hours")]
    assert spent == ["100", "0.050", "5.0000"]


def test_equal_time_is_another_order(table):
    """Both spend half an hour and 5,000 tokens an update."""
    for cost in ("device_hours", "sampled_tokens"):
        for method in SPENT:
            assert cells(table, f"{cost}:largest:{method}")["update"].value == 20


def test_a_method_without_a_checkpoint_in_the_budget_has_none(collected):
    """GRPO is first validated after 300 consultations, of which PCQC has 200 in all."""
    late = two_methods(collected, lambda method, u: u == (15 if method == "grpo" else 20))
    table = build("equal_budgets", late)
    rows = [row.key for row in table.rows if row.key.startswith("trajectories")]
    assert rows == ["trajectories:largest:grpo", "trajectories:largest:pcqc"]
    assert cells(table, "trajectories:largest:grpo")["accuracy"] == "—"
    assert cells(table, "trajectories:largest:pcqc")["update"].value == 20


def test_equal_least_and_largest_budgets_are_one(collected):
    """Both are validated at their last update alone, after ten hours."""
    table = build("equal_budgets", two_methods(collected, lambda method, update: update == 20))
    rows = [row.key for row in table.rows if row.key.startswith("device_hours")]
    assert rows == ["device_hours:largest:grpo", "device_hours:largest:pcqc"]
    assert "—" not in cells(table, "device_hours:largest:grpo").values()


def test_what_no_run_recorded_has_no_budget(collected):
    table = build("equal_budgets", two_methods(collected, fifths, ("trajectories",)))
    assert {row.key.partition(":")[0] for row in table.rows} == {"trajectories"}
    assert cells(table, "trajectories:least:grpo")["device_hours"] == "—"
