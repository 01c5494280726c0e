"""Checkpoints at equal budgets, from training records made by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from budgeted import SPENT, fifths, two_methods
from built_tables import build, cells

from analysis.budgets import Budgets, budgets, rule


@pytest.fixture
def table(collected):
    return build("equal_budgets", two_methods(collected, fifths))


def test_the_largest_budget_is_what_the_cheapest_run_spends_in_all(table):
    """PCQC spends 200 consultations by its last update, GRPO by its tenth."""
    pair = cells(table)["trajectories:whole:pcqc"], cells(table)["trajectories:whole:grpo"]
    assert pair[1]["budget"] == "200 consultations"
    assert [row["update"].value for row in pair] == [20, 10]
    assert [row["accuracy"].value for row in pair] == pytest.approx([20, 10])
    assert [row["best"].value for row in pair] == pytest.approx([50, 25])


def test_between_checkpoints_lies_the_straight_line(table, collected):
    """At 50 consultations PCQC is at its fifth update, GRPO half way from the start to its own."""
    assert cells(table)["trajectories:quarter:grpo"]["budget"] == "50 consultations"
    assert cells(table)["trajectories:quarter:pcqc"]["accuracy"].value == pytest.approx(5)
    row = cells(table)["trajectories:quarter:grpo"]
    start = {
        m: collected.average("shared_sft", ["clinic_dev"], m).mean for m in ("accuracy", "turns")
    }
    assert row["update"].value == 2.5
    assert row["accuracy"].value == pytest.approx((start["accuracy"] + 5) / 2)
    assert row["turns"].value == pytest.approx((start["turns"] + 5) / 2)
    assert row["best"] == "—"  # Shared SFT's evaluation does not say


def test_what_was_spent_stands_beside_the_accuracy(table):
    """By its update 10 PCQC has 100 consultations, 50,000 tokens and 5 TFLOPs."""
    row = cells(table)["trajectories:half:pcqc"]
    spent = [row[name].text() for name in ("trajectories", "sampled_tokens", "compute")]
    assert spent == ["100", "0.050", "5.000"]


def test_equal_compute_is_another_order(table):
    """Both spend half a TFLOP and 5,000 tokens an update."""
    for cost in ("compute", "sampled_tokens"):
        for method in SPENT:
            assert cells(table)[f"{cost}:whole:{method}"]["update"].value == 20


def test_a_late_first_checkpoint_is_no_gap(collected):
    """GRPO is first validated after 300 consultations, of which PCQC has 200 in all."""
    late = two_methods(collected, lambda method, u: u in ((15,) if method == "grpo" else (10, 20)))
    table = build("equal_budgets", late)
    start = collected.average("shared_sft", ["clinic_dev"]).mean
    assert cells(table)["trajectories:whole:grpo"]["update"].value == pytest.approx(10)
    accuracy = cells(table)["trajectories:whole:grpo"]["accuracy"].value
    assert accuracy == pytest.approx(start / 3 + 15 * 2 / 3)


def with_second_run(collected, **changed):
    """Two methods, and a second run of GRPO that differs from its first in some columns."""
    runs = two_methods(collected, fifths)
    second = runs.updates[runs.updates["method"] == "grpo"].assign(run="B", **changed)
    updates = pd.concat([runs.updates, second], ignore_index=True)
    return replace(runs.with_runs({"grpo": ("A", "B")}), updates=updates)


def test_a_share_that_one_run_lacks_is_not_known_of_the_method(collected):
    """GRPO's second run asked nothing in its validations, which leaves no share of best ones."""
    both = with_second_run(collected, best_questions=None)
    row = cells(build("equal_budgets", both))["trajectories:whole:grpo"]
    assert row["best"] == "—"
    assert row["accuracy"].value == pytest.approx(10)


def test_a_run_on_a_slow_machine_has_spent_as_much_as_one_on_a_fast(collected):
    """GRPO's second run does the work of its first in three times the hours."""
    both = with_second_run(collected, device_hours=3.0)
    (spent,) = budgets(both, "compute").spent
    assert spent["grpo", "B"] == spent["grpo", "A"]
    assert spent["grpo", "A"][20] == 10e12  # FLOPs


def test_what_no_run_recorded_has_no_budget(collected):
    table = build("equal_budgets", two_methods(collected, fifths, ("trajectories",)))
    assert {row.key.partition(":")[0] for row in table.rows} == {"trajectories"}
    assert cells(table)["trajectories:quarter:grpo"]["compute"] == "—"


def levelled(collected, *methods):
    """Two methods, of which some end after half their updates, levelled off."""
    runs = two_methods(collected, fifths)
    kept = ~runs.updates["method"].isin(methods) | (runs.updates["update"] <= 10)
    training = {"training": {"ended": "levelled off"}}
    records = runs.records | {(m, "A"): runs.records[m, "A"] | training for m in methods}
    return replace(runs, updates=runs.updates[kept], records=records)


def test_a_run_that_levelled_off_stays_what_it_was(collected):
    """PCQC ends after 100 consultations; GRPO makes all its updates, 400 consultations."""
    table = build("equal_budgets", levelled(collected, "pcqc"))
    rows = {m: cells(table)[f"trajectories:whole:{m}"] for m in SPENT}
    assert rows["grpo"]["budget"] == "400 consultations"
    assert [rows[m]["update"].value for m in ("pcqc", "grpo")] == [10, 20]
    assert [rows[m]["accuracy"].value for m in ("pcqc", "grpo")] == pytest.approx([10, 20])
    assert rows["pcqc"]["trajectories"].text() == "100"


def test_where_all_levelled_off_the_longest_sets_the_budget(collected):
    table = build("equal_budgets", levelled(collected, "pcqc", "grpo"))
    rows = [cells(table)[f"trajectories:whole:{m}"] for m in ("grpo", "pcqc")]
    assert "200 consultations" in [row["budget"] for row in rows]
    assert [row["update"].value for row in rows] == [10, 10]


@pytest.mark.parametrize(
    ("levelled", "words"),
    [
        ((False, False), "the cheapest run cost"),
        ((False, True), "the cheapest run that made all its updates cost"),
        ((True, True), "the dearest run cost"),
    ],
)
def test_captions_say_which_run_sets_the_largest_budget(levelled, words):
    text = rule([Budgets({}, (), levelled)])
    assert words in text
    assert ("keeps its last checkpoint" in text) == any(levelled)
