"""Claims at equal budgets, from validations made by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from budgeted import fifths, two_methods
from built_tables import build

# (method, update) -> cases right, of ten. After ten updates GRPO has PCQC's 200 consultations.
RIGHT = {("pcqc", 10): 5, ("pcqc", 20): 8, ("grpo", 5): 1, ("grpo", 10): 4, ("grpo", 20): 9}
COSTS = {"trajectories": 40.0, "sampled_tokens": -10.0, "compute": -10.0}


def validations():
    """Of one run of each method, on ten cases."""
    return pd.DataFrame(
        {
            "case_id": f"case-{case}",
            "benchmark": "clinic_dev",
            "method": method,
            "run": "A",
            "update": update,
            "correct": case < right,
            "turns": update,
            "actor_tokens": 9,
        }
        for (method, update), right in RIGHT.items()
        for case in range(10)
    )


@pytest.fixture
def budgeted(collected):
    return two_methods(collected, fifths, validations=validations())


def test_who_is_ahead_depends_on_what_is_equal(budgeted):
    """At 200 consultations 8 of 10 are right against 4; after ten TFLOPs 8 against 9."""
    table = build("claims_at_budgets", budgeted)
    estimates = {cost: table.cell(f"accuracy:0:{cost}", "estimate").value for cost in COSTS}
    assert estimates == pytest.approx(COSTS)
    assert table.cell("accuracy:0:trajectories", "where") == "200 consultations"
    # PCQC asks 20 questions, GRPO 10 at equal consultations and 20 at equal compute.
    assert table.cell("turns:0:trajectories", "estimate").value == -10
    assert table.cell("turns:0:compute", "estimate").value == 0


def test_the_selected_checkpoints_stand_first(budgeted):
    table = build("claims_at_budgets", budgeted)
    gain = [budgeted.average(method, ["clinic_dev"]).mean for method in ("pcqc", "grpo")]
    selected = table.cell("accuracy:0:selected", "estimate").value
    assert selected == pytest.approx(gain[0] - gain[1])
    assert [row.key.rsplit(":", 1)[1] for row in table.rows][:2] == ["selected", "trajectories"]
    # Only comparisons of methods that were run.
    assert {row.key.split(":")[0] for row in table.rows} == {"accuracy", "turns"}


def test_without_validations_the_selected_checkpoints_stand_alone(collected):
    none = replace(two_methods(collected, fifths), validations=None)
    keys = {row.key.rsplit(":", 1)[1] for row in build("claims_at_budgets", none).rows}
    assert keys == {"selected"}


def test_every_base_model_counts_at_the_same_budget(budgeted):
    """Under the second one PCQC is right in no case."""
    worse = budgeted.validations.copy()
    worse.loc[worse["method"] == "pcqc", "correct"] = False
    both = replace(budgeted, others=(replace(budgeted, validations=worse),))
    table = build("claims_at_budgets", both)
    assert table.cell("accuracy:0:trajectories", "estimate").value == pytest.approx((40 - 40) / 2)


def test_a_cheap_rival_sets_the_budget_of_its_own_comparison_alone(budgeted):
    """ATPO ends after 100 consultations, 3 of 10 right; PCQC had 5 then, and 8 after 200."""
    grpo = budgeted.updates[budgeted.updates["method"] == "grpo"]
    short = grpo[grpo["update"] <= 5].assign(method="atpo")
    ten_of_pcqc = {"trajectories": 20 * short["update"]}
    ten_of_pcqc |= {cost: 2 * short[cost] for cost in ("sampled_tokens", "compute")}
    validated = budgeted.validations[budgeted.validations["update"] == 5].assign(method="atpo")
    right = validated["case_id"].isin([f"case-{case}" for case in range(3)])
    cheap = replace(
        budgeted.with_runs({"atpo": ("A",)}),
        updates=pd.concat([budgeted.updates, short.assign(**ten_of_pcqc)]),
        validations=pd.concat([budgeted.validations, validated.assign(correct=right)]),
    )
    table = build("claims_at_budgets", cheap)
    assert table.cell("accuracy:0:trajectories", "where") == "200 consultations"
    assert table.cell("accuracy:0:trajectories", "estimate").value == pytest.approx(40)
    assert table.cell("accuracy:1:trajectories", "where") == "100 consultations"
    assert table.cell("accuracy:1:trajectories", "estimate").value == pytest.approx(20)
