"""Measures of a credit, from a few states worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from credit_lab.quality import measures
from credit_lab.quality.measures import BEST, CHANCE, CREDITS, LAST, load
from credit_lab.quality.table import build
from pcqc.errors import UserError
from pcqc.study import load_study


def column(*values):
    return pd.Series(values, dtype=float)


def test_rank_is_spearman_s_and_zero_without_differences():
    assert measures.spearman(column(1, 2, 3), column(0.1, 0.5, 0.4)) == pytest.approx(0.5)
    assert measures.spearman(column(1, 1, 1), column(0.1, 0.5, 0.4)) == 0


def test_equal_favourites_share_the_regret():
    value = column(0.9, 0.6, 0.5)
    assert measures.regret(column(0, 1, 0), value) == pytest.approx(30)
    assert measures.regret(column(1, 1, 0), value) == pytest.approx(15)


def test_a_sign_counts_where_the_value_differs_from_the_mean():
    value = column(0.9, 0.7, 0.5)  # the second is the mean
    assert measures.sign(column(1, -9, -1), value) == 100
    assert measures.sign(column(1, 5, 1), value) == 50
    assert measures.sign(column(0, 0, 0), value) == 50


def test_luck_is_the_share_of_variance_between_draws():
    rows = [
        {"policy": "p", "case_id": case, "turn": 1, "candidate": 0, "draw": draw, "grpo": value}
        for case, draw, value in (("a", 0, 1.0), ("a", 1, -1.0), ("b", 0, 1.0), ("b", 1, -1.0))
    ]
    assert measures.luck(pd.DataFrame(rows), "grpo") == pytest.approx(150.0)  # 2 of 4 / 3
    same = pd.DataFrame([{**row, "grpo": 1.0} for row in rows])
    assert measures.luck(same, "grpo") is None


def judged(study, better=0.8):
    """Two states of two questions: `pcqc` knows which is better, `grpo` has it the wrong way."""
    rows, asking = [], []
    for case, values in (("a", (0.6, better)), ("b", (0.5, 0.5))):
        for draw in (0, 1):
            place = {"policy": "pcqc", "case_id": case, "turn": 1, "draw": draw}
            for k, value in enumerate(values):
                credits = dict.fromkeys(CREDITS, 0.0) | {"pcqc": value, "grpo": -value}
                rows.append({**place, "candidate": k, "last": value, "best": value, **credits})
            asking.append({**place, "gain": 0.1, "grpo": 1.0})
    parts = ("candidates", "utilities", "imagined answers", "continuations")
    parts += ("scorer's beliefs", "actor's beliefs")
    costs = {"seconds": 1.0, "sampled": 100, "read": 300}
    manifest = {"states": 2, "continuations": 2}
    manifest |= {cost: dict.fromkeys(parts, amount) for cost, amount in costs.items()}
    return measures.judge(study, pd.DataFrame(rows), pd.DataFrame(asking), [manifest])


def test_only_states_whose_questions_differ_are_judged():
    quality = judged(load_study("clinic-mini"))
    assert (quality.states, quality.asking) == (2, 100.0)
    assert quality.differing == {LAST: 1, BEST: 1}
    assert quality.qualities["pcqc"].rank[BEST].mean == pytest.approx(1.0)
    assert quality.qualities["grpo"].rank[LAST].mean == pytest.approx(-1.0)
    assert quality.qualities["grpo"].regret[BEST].mean == pytest.approx(20.0)
    assert quality.qualities["pcqc"].regret[LAST].mean == pytest.approx(0.0)
    assert quality.qualities["grpo"].asking.mean == 100.0
    assert quality.qualities["pcqc"].asking is None
    assert np.isfinite(quality.qualities[CHANCE].rank[LAST].mean)
    # One of two continuations, half a second a state; all of them for VinePPO.
    assert quality.qualities["grpo"].costs["seconds"] == pytest.approx(0.5 + 0.25)
    assert quality.qualities["vineppo"].costs["seconds"] == pytest.approx(0.5 + 0.5)
    assert quality.qualities["pcqc"].costs == pytest.approx(
        {"seconds": 1.0, "sampled": 100, "read": 300}
    )


def test_without_a_state_whose_questions_differ_the_table_has_dashes():
    quality = judged(load_study("clinic-mini"), better=0.6)
    assert quality.differing == {LAST: 0, BEST: 0}
    row = next(row for row in build(quality).rows if row.key == "pcqc")
    assert row.cells[1:8] == ("—",) * 7


def test_the_caption_names_the_first_of_several_base_models():
    study = load_study("clinic-mini")
    several = build(judged(replace(study, replicates=("twin",)))).caption
    assert several == f"{build(judged(study)).caption} First of 2 base models."


def test_a_study_without_the_settings_says_so():
    with pytest.raises(UserError, match="has no settings 'credit_quality'; add the group"):
        load(load_study("paper"))
