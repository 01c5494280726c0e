"""The continuation study's analysis on numbers made by hand."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import simulated
from built_tables import build
from matplotlib.container import ErrorbarContainer

from analysis import tables
from analysis.bayes_doctor import BayesDoctor, first_questions
from analysis.claims import claims
from analysis.continuation import Continued, continued, filtered, main_policy, policies
from analysis.drawing.style import house_style
from analysis.figures import continuation_gains, method_overview, teaser, utility_calibration
from clinic_env.posterior import posterior
from clinic_env.world import ask, read_findings
from pcqc_base.errors import UserError

UTILITY = np.array([[0.2, 0.6, 0.4], [0.5, 0.3, 0.1], [0.7, 0.7, 0.7], [0.1, 0.2, 0.9]])
SUCCESS = np.array([[0.25, 1.0, 0.5], [0.5, 0.5, 0.5], [0.0, 0.5, 1.0], [0.75, 0.5, 0.25]])
ELIGIBLE = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1]], bool)


def by_hand(utility=UTILITY, success=SUCCESS, eligible=ELIGIBLE):
    texts = np.full(utility.shape, "Any rash?", object)
    cases = [f"case-{i}" for i in range(len(utility))]
    return Continued(
        "PCQC run A", {}, cases, texts, texts, utility, np.zeros_like(utility), success, eligible
    )


def test_selection_and_gains():
    chosen = by_hand().selected()
    assert chosen["highest_utility"].tolist() == [100, 50, 0, 25]
    assert chosen["executed"].tolist() == [25, 50, 0, 75]
    assert chosen["uniform"] == pytest.approx([58.3333, 50, 50, 50], abs=1e-3)
    gain = by_hand().gain_over("executed")
    assert (gain.cases, gain.selected, gain.comparator, gain.value) == (4, 43.75, 37.5, 6.25)
    # The differences are +75, 0, 0 and -50: no resample's mean lies outside.
    assert -50 <= gain.interval.low < 6.25 < gain.interval.high <= 75


def test_grounded_comparisons_take_the_papers_cases():
    comparisons = by_hand().grounded()
    original = comparisons["original_highest_utility_vs_executed"]
    # Highest utility and executed question are both eligible in cases 0, 1 and 3.
    assert (original.cases, original.selected) == (3, pytest.approx(175 / 3))
    uniform = comparisons["eligible_highest_utility_vs_uniform"]
    # Cases 0, 2 and 3 have two eligible candidates; in case 2 the tie goes to the first drawn.
    assert (uniform.cases, uniform.selected) == (3, pytest.approx((100 + 50 + 25) / 3))
    assert uniform.comparator == pytest.approx((62.5 + 75 + 50) / 3)
    executed = comparisons["eligible_highest_utility_vs_executed"]
    assert (executed.cases, executed.selected, executed.comparator) == (2, 62.5, 50.0)
    # Case by case: 100 - 62.5, 50 - 75 and 25 - 50; over the executed 100 - 25 and 25 - 75.
    gains = {rival: by_hand().grounded_gains(rival) for rival in ("uniform", "executed")}
    assert gains["uniform"] == {"case-0": 37.5, "case-2": -25, "case-3": -25}
    assert gains["executed"] == {"case-0": 75, "case-3": -50}
    none = by_hand(eligible=np.zeros_like(ELIGIBLE)).grounded()
    assert set(none.values()) == {None}


def test_rank_correlation_leaves_out_constant_states():
    correlation = by_hand().rank_correlation()
    # Case 0 ranks alike, case 3 in reverse; in cases 1 and 2 one side is constant.
    assert (correlation.states, correlation.value) == (2, 0.0)
    assert by_hand(success=np.ones_like(SUCCESS)).rank_correlation() is None


def test_calibration_bins_hold_all_candidates():
    bins = by_hand().calibration()
    assert sum(b.candidates for b in bins) == UTILITY.size
    assert [b.utility for b in bins] == sorted(b.utility for b in bins)
    mean = sum(b.candidates * b.success for b in bins) / UTILITY.size
    assert mean == pytest.approx(SUCCESS.mean())
    assert all(b.interval.low <= b.success <= b.interval.high for b in bins)


def test_files_are_read_into_states_and_candidates(collected):
    policy = main_policy(collected)
    place = collected.study.results / "collected" / "latest" / "continuation" / "pcqc" / "A"
    rows = pd.read_parquet(place / "continuations.parquet")
    rows = rows[rows["set"] == "main"]
    mine = rows[(rows.case_id == policy.case_ids[3]) & (rows.candidate == 2)]
    assert policy.success[3, 2] == mine["correct"].mean()
    assert policy.utility.shape == (simulated.STATES, simulated.CANDIDATES)
    executed = rows[rows.candidate == 0].groupby("case_id")["correct"].mean().mean()
    table = build("continuation", collected)
    assert table.rows[1].cells[1].value == pytest.approx(100 * executed)


def test_first_questions_are_judged_by_exact_values(collected):
    """Which are best, how often utility picks them, and how far the scorer is from the truth."""
    policy, bayes = main_policy(collected), BayesDoctor(collected)
    world, first = bayes.world, first_questions(collected, policy)
    picks = first.picks["highest_utility"]
    for i, case_id in enumerate(policy.case_ids):
        case = bayes.cases[case_id]
        best = {ask(world.findings[f]) for f in simulated.best_first_questions(world, case)}
        assert picks[i] == (policy.questions[i][policy.utility[i].argmax()] in best)
        assert first.chance[i] == len(best) / len(world.findings)
        correct = list(case.options).index(case.answer)
        exact = [
            posterior(world, case, read_findings(world, a))[correct] for a in policy.answers[i]
        ]
        error = 100 * np.mean(np.abs(policy.utility[i] - exact))
        assert first.scorer_error[i] == pytest.approx(error)
    assert picks.mean() > first.picks["uniform"].mean()


def test_gains_are_drawn_for_all_and_for_grounded_candidates(collected):
    with house_style():
        figures = [continuation_gains.draw(collected), continuation_gains.draw_paper()]
    for figure in figures:
        assert sum(isinstance(c, ErrorbarContainer) for c in figure.axes[0].containers) == 4
    drawn = {c[0].get_xdata()[0] for c in figures[1].axes[0].containers}
    assert drawn == {4.20, 3.52, 5.47, 5.65}


def test_diagrams_show_what_was_run(collected):
    policy, state = teaser.telling_state(collected)
    assert len(set(policy.questions[state])) == max(
        len(set(row)) for p in policies(collected) if not p.early for row in p.questions
    )
    with house_style():
        shown = {t.get_text() for t in teaser.draw(collected).axes[0].texts}
        framework = " ".join(t.get_text() for t in method_overview.draw(collected).axes[0].texts)
        labels = {t.get_label() for t in utility_calibration.draw(collected).axes[0].containers}
    for k in range(simulated.CANDIDATES):
        assert f"$q_{k + 1}$: {policy.questions[state][k]}" in shown
        assert f"{policy.utility[state, k]:.2f}" in shown
    method = collected.study.method("pcqc")
    assert f"$G_T$ = {method.terminal_group} consultations" in framework
    assert "sees $q_i$, facts $z$" in framework
    assert labels == {"PCQC run A", "PCQC run A at update 20", "Shared SFT"}


def forget(folder):
    records = json.loads((folder / "runs.json").read_text())
    for record in records:
        record.pop("continuation", None)
    (folder / "runs.json").write_text(json.dumps(records))


def cut(folder):
    path = folder / "continuation" / "pcqc" / "A" / "candidates.parquet"
    pd.read_parquet(path).iloc[1:].to_parquet(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (forget, "no continuation study of pcqc run A; run the rule `continuation`"),
        (cut, "judged answers of pcqc run A do not belong together; run the rule"),
    ],
)
def test_incomplete_studies_are_refused(copied, reloaded, change, message):
    change(copied)
    with pytest.raises(UserError, match=message):
        continued(reloaded(), "pcqc", "A")


def test_the_filters_precision_and_recall_are_against_the_truth(collected):
    """Of four answers two were made to err; the filter takes one of them and one other."""
    truth = np.array([[True, True, False, False]])
    eligible = np.array([[False, True, False, True]])
    policy = replace(main_policy(collected), eligible=eligible, ungrounded=truth)
    assert policy.filter_quality() == (2, 0.5, 0.5)
    assert main_policy(collected).filter_quality() is None


def test_the_filter_has_states_of_its_own_and_no_claim_reads_them(collected):
    claimed, misled = main_policy(collected), filtered(collected)
    assert not set(claimed.case_ids) & set(misled.case_ids)
    assert (len(claimed.case_ids), len(misled.case_ids)) == (40, 20)
    assert claimed.ungrounded is None
    assert 0 < misled.ungrounded.sum() < misled.ungrounded.size
    assert "20 cases of Clinic-Dev" in build("grounded_continuation", collected).caption
    utility = next(claim for claim in claims(collected) if claim.key == "utility")
    assert {comparison.n for comparison in utility.comparisons} == {"40 states"}
    gain = claimed.gain_over("uniform").value
    assert utility.comparisons[0].effect.difference == pytest.approx(gain)


def test_gains_by_how_many_candidates_differ():
    """Two states of one question, one of two, one of three, each with its own gain."""
    questions = np.array([list("aaa"), list("abb"), list("abc"), list("ccc")], object)
    policy = replace(by_hand(), questions=questions)
    one, two, three = (policy.gain_over("uniform", count) for count in (1, 2, 3))
    # Cases 0 and 3: 100 and 25 where a uniform choice has 58.33 and 50.
    assert (one.cases, one.value) == (2, pytest.approx((41.6667 - 25) / 2, abs=1e-3))
    assert (two.cases, two.value) == (1, 0)
    assert (three.cases, three.value) == (1, -50)
    assert by_hand().gain_over("uniform", 2) is None


def test_the_table_of_gains_has_every_policy_and_adds_up(collected):
    table = build("gain_by_differing", collected)
    for number, title in enumerate(("PCQC run A", "PCQC run A at update 20", "Shared SFT")):
        assert table.cell(f"{number}:all", "policy") == title
        counts = [table.cell(f"{number}:{n}", "states").value for n in range(1, 5)]
        assert sum(counts) == table.cell(f"{number}:all", "states").value == 40


def test_a_persons_verdicts_change_the_grounded_comparisons(copied, reloaded):
    """Of one case two answers are let in: the executed question's, and the best candidate's."""
    place = copied / "continuation" / "pcqc" / "A"
    candidates = pd.read_parquet(place / "candidates.parquet")
    candidates = candidates[candidates["set"] == "ungrounded"].reset_index(drop=True)
    by_case = candidates.groupby("case_id", sort=False)
    best = by_case["utility"].idxmax()
    chosen = next(index for index in best if not candidates["executed"][index])
    executed = chosen - candidates["candidate"][chosen]
    keys = [tuple(candidates.loc[i, ["case_id", "candidate"]]) for i in (chosen, executed)]
    drawn = pd.read_parquet(place / "continuations.parquet")
    drawn = drawn[drawn["set"] == "ungrounded"].set_index(["case_id", "candidate"])
    success = [100 * drawn.loc[[key], "correct"].mean() for key in keys]

    frame = pd.read_csv(place / "grounding.csv").assign(eligible="no", judge="agreement")
    allowed = pd.MultiIndex.from_frame(frame[["case_id", "candidate"]]).isin(keys)
    frame.loc[allowed, ["eligible", "judge"]] = ["yes", "review"]
    frame.to_csv(place / "grounding.csv", index=False)
    table = tables.build("grounded_continuation", reloaded())
    numbers = {row.key: [cell.value for cell in row.cells[1:5]] for row in table.rows}
    gain = success[0] - success[1]
    assert numbers == {
        "original_highest_utility_vs_executed": pytest.approx([1, *success, gain]),
        "eligible_highest_utility_vs_uniform": pytest.approx(
            [1, success[0], sum(success) / 2, gain / 2]
        ),
        "eligible_highest_utility_vs_executed": pytest.approx([1, *success, gain]),
    }
    assert "2 of 80 candidates have an eligible answer" in table.caption
    assert "A person reviewed 2 of the answers" in table.caption
