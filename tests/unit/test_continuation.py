"""The continuation study with scripted roles."""

import csv
import dataclasses
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hand_made import clinic_file, finish_clinic
from helpers import make_case, scripted_context, scripted_judge, scripted_scorer
from scripted_engine import ScriptedEngine
from small_worlds import WORLD

from pcqc.cases.case import write_cases
from pcqc.evaluation.choice import selected_success
from pcqc.evaluation.continuation import draw_candidates, draw_continuations
from pcqc.jobs import continuation as job
from pcqc_base.errors import UserError
from pcqc_base.settings.continuation import Continuation, Ungrounded
from pcqc_base.system.files import csv_text
from pcqc_base.system.manifest import read_manifest
from pcqc_clinic.jobs import grounding
from pcqc_clinic.world import save_world
from pcqc_study.run_job import run_job
from pcqc_study.study_file import load_study

CASES = [make_case(i) for i in range(3)]
NAME = "candidates.parquet"


def say(case, rollout, turn, k):
    """Case 1 does not ask with its third candidate; who asked `0` or `2` first finds the answer."""
    if turn == 0:
        return "Final Answer: A" if (case, k) == ("case-1", 2) else f"Question: {k}?"
    return f"Final Answer: {'AB'[rollout // 2 % 2 == 0]}"


def drawn():
    context = scripted_context(say, CASES, answer=lambda p: p[-40:], name="0/continuation")
    chances = {"0?": 0.2, "1?": 0.7, "2?": 0.4}

    def scores(prompt):
        asked = next((b for text, b in chances.items() if f"question: {text}" in prompt), 0.3)
        return [(1 - asked) / 3, asked, (1 - asked) / 3, (1 - asked) / 3]

    scorer = scripted_scorer(scores, context.chat)
    return context, draw_candidates(context, scorer, CASES, candidates=3, seed=0)


def test_candidates_are_scored_and_a_case_that_does_not_always_ask_is_replaced():
    _, groups = drawn()
    assert groups[1] is None
    for case, group in zip(CASES[::2], groups[::2], strict=True):
        assert [c.row()["executed"] for c in group] == [True, False, False]
        assert [c.question for c in group] == ["0?", "1?", "2?"]
        assert [c.utility for c in group] == pytest.approx([0.2, 0.7, 0.4])
        assert {c.case_id for c in group} == {case.case_id}
        credit = (np.array([0.2, 0.7, 0.4]) - 1.3 / 3) / np.std([0.2, 0.7, 0.4], ddof=1)
        assert [c.credit for c in group] == pytest.approx(credit, abs=1e-4)
        assert group[0].baseline == pytest.approx(0.3)


def test_every_candidate_is_continued_on_draws_of_its_own():
    context, groups = drawn()
    asked = len(context.patient.engine.prompts)
    rows = list(draw_continuations(context, CASES[:1], groups[:1], continuations=2, seed=0))
    # Their questions were answered before and are not asked again.
    assert len(context.patient.engine.prompts) == asked
    assert [(r["candidate"], r["continuation"]) for r in rows] == [
        (k, n) for k in range(3) for n in range(2)
    ]
    # Rollouts 0 and 1 belong to candidate 0, 2 and 3 to candidate 1: `say` tells them apart.
    assert [r["correct"] for r in rows] == [True, True, False, False, True, True]
    assert {r["turns"] for r in rows} == {1}
    assert {r["ending"] for r in rows} == {"answer"}


def test_selection_rules():
    utility = np.array([[0.1, 0.9, 0.5], [0.4, 0.4, 0.2]])
    success = np.array([[0.0, 0.75, 0.25], [0.5, 1.0, 0.0]])
    chosen = selected_success(utility, success)
    assert chosen["uniform"] == pytest.approx([1 / 3, 0.5])
    assert chosen["executed"].tolist() == [0.0, 0.5]
    assert chosen["highest_utility"].tolist() == [0.75, 0.5]
    eligible = np.array([[True, False, True], [False, False, False]])
    among = selected_success(utility, success, eligible)
    assert among["uniform"] == pytest.approx([0.125, np.nan], nan_ok=True)
    assert among["executed"] == pytest.approx([0.0, np.nan], nan_ok=True)
    assert among["highest_utility"] == pytest.approx([0.25, np.nan], nan_ok=True)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Six cases with scripted roles; of each odd one the third candidate does not ask."""
    monkeypatch.chdir(tmp_path)
    settings = Continuation(states=2, candidates=3, continuations=2)
    study = dataclasses.replace(load_study("clinic-mini"), continuation=settings)
    cases = [make_case(i) for i in range(6)]
    write_cases(clinic_file(study, study.development), cases)
    save_world(WORLD, clinic_file(study, "world"))
    finish_clinic(study)

    def spoken(case, *place):
        return say("case-1" if int(case[-1]) % 2 else "case-0", *place)

    context = scripted_context(spoken, cases, answer=lambda p: p[-40:], name="0/continuation")
    scorer = scripted_scorer(lambda prompt: (0.1, 0.7, 0.1, 0.1), context.chat)
    monkeypatch.setattr(job, "CASES_AT_ONCE", 1)
    monkeypatch.setattr(job, "selected_weights", lambda *names: (7, "digest", None))
    monkeypatch.setattr(job, "make_context", lambda *parts: context)
    monkeypatch.setattr(job, "make_scorer", lambda task: scorer)
    return study


def continued(study):
    """Run the continuation study; its folder."""
    return run_job(study, "continuation", "pcqc", "A").path


def test_a_killed_study_goes_on_where_it_was_and_ends_in_the_same_bytes(study, monkeypatch):
    folder = continued(study)
    manifest = read_manifest(folder)
    whole = manifest["files"]
    assert set(whole) == {"candidates.parquet", "continuations.parquet"}
    # Cases 0 and 2 ask; case 1 stands between them and is replaced.
    assert (manifest["states"], manifest["replaced"], manifest["trajectories"]) == (2, 1, 12)
    assert manifest["success"] == pytest.approx(
        {"uniform": 2 / 3, "executed": 1.0, "highest_utility": 1.0}
    )
    shutil.rmtree(folder)
    drawn, once = [], job.draw_continuations

    def killed(*roles, **sizes):
        if drawn:
            raise KeyboardInterrupt
        drawn.append(sizes)
        return once(*roles, **sizes)

    monkeypatch.setattr(job, "draw_continuations", killed)
    with pytest.raises(KeyboardInterrupt):
        continued(study)
    assert not (folder / "manifest.json").exists()
    *_, block = sorted((folder / "state").glob("main-continuations*.json"))
    kept = block.read_text()
    for text in ("{}", "[]", "{", kept.replace("true", "false", 1), kept[:-9]):
        block.write_text(text)
        with pytest.raises(UserError, match=rf"{block}.*; remove {block} and run the workflow"):
            continued(study)
    block.write_text(kept)
    again = []
    monkeypatch.setattr(
        job, "draw_continuations", lambda *roles, **sizes: again.append(1) or once(*roles, **sizes)
    )
    monkeypatch.setattr(job, "draw_candidates", None)  # all were drawn before the kill
    assert read_manifest(continued(study))["files"] == whole
    assert len(again) == 1
    continued(study)  # what it went on from goes once a later start has seen it finished
    assert not (folder / "state").exists()


def test_fewer_states_than_wanted_are_said_to_be_fewer(study):
    settings = dataclasses.replace(study.continuation, states=9)
    few = dataclasses.replace(study, continuation=settings)
    manifest = read_manifest(continued(few))
    assert (manifest["states"], manifest["replaced"]) == (3, 3)


def test_a_study_without_the_settings_is_refused(study):
    with pytest.raises(UserError, match="no settings 'continuation'; add the group"):
        continued(dataclasses.replace(study, continuation=None))


def ground(monkeypatch, study, judges, review=None):
    """Judge the answers by `judges`, with a person's review; the rows of both files."""
    settings = dataclasses.replace(study.continuation, review=review and str(review))

    def votes(task, items):
        return {name: judge.judge(items) for name, judge in judges.items()}

    monkeypatch.setattr(grounding, "by_rules", votes)
    changed = dataclasses.replace(study, continuation=settings)
    folder = run_job(changed, "grounding", "pcqc", "A").path
    return [list(csv.DictReader((folder / n).open())) for n in ("grounding.csv", "review.csv")]


def test_a_filled_review_sheet_is_read_by_the_next_run(study, tmp_path, monkeypatch):
    """Two judges differ on whether answers are confined; a person says yes to two of them."""
    continued(study)
    sure = scripted_judge(lambda prompt: "yes")
    strict = scripted_judge(lambda prompt: "no" if "only the information" in prompt else "yes")
    judges = {"sure": sure, "strict": strict}
    _, rows = ground(monkeypatch, study, judges)
    assert [row["priority"] for row in rows] == sorted(row["priority"] for row in rows)
    assert {row["confined"] for row in rows} == {""}
    for row in rows[:2]:
        row["confined"] = "yes"
    filled = tmp_path / "filled.csv"
    filled.write_text(csv_text(rows[0], [row.values() for row in rows]))
    judged, sheet = ground(monkeypatch, study, judges, filled)
    assert sum(row["judge"] == "review" for row in judged) == 2
    assert {row["confined"] for row in judged if row["judge"] == "review"} == {"yes"}
    assert sum(row["confined"] == "yes" for row in sheet) == 2


def test_the_truth_of_answers_is_written_where_some_are_made_to_err(study):
    """Case 4 is the first that comes after those of the claim and asks; its answers alone err."""
    wanted = Ungrounded(share=1.0, states=1)
    settings = dataclasses.replace(study.continuation, ungrounded=wanted)
    folder = continued(dataclasses.replace(study, continuation=settings))
    rows = pq.read_table(folder / "candidates.parquet").to_pylist()
    candidates = [(row["set"], row["case_id"], row["ungrounded"]) for row in rows]
    assert candidates == [
        *[("main", "case-0", False)] * 3,
        *[("main", "case-2", False)] * 3,
        *[("ungrounded", "case-4", True)] * 3,
    ]
    plain = pq.read_table(continued(study) / "candidates.parquet").to_pylist()
    assert rows[:6] == plain
    manifest = read_manifest(folder)
    assert (manifest["states"], manifest["replaced"]) == (2, 1)
    (further,) = manifest["further_sets"].values()
    assert (further["states"], further["replaced"], further["trajectories"]) == (1, 1, 6)


def test_an_early_checkpoint_is_studied_at_the_same_states(study, monkeypatch):
    loaded = []
    early = SimpleNamespace(load=lambda: SimpleNamespace(named_parameters=lambda: "early"))
    monkeypatch.setattr(job, "checkpoint_weights", lambda task, update: (f"at {update}", early))
    monkeypatch.setattr(ScriptedEngine, "load_weights", lambda self, named: loaded.append(named))
    settings = dataclasses.replace(study.continuation, early=2)
    changed = dataclasses.replace(study, continuation=settings)
    folder = continued(changed)
    rows = pq.read_table(folder / "candidates.parquet").to_pylist()
    assert loaded == ["early"]
    assert [row["case_id"] for row in rows if row["set"] == "early"] == [
        row["case_id"] for row in rows if row["set"] == "main"
    ]
    further = read_manifest(folder)["further_sets"]["early"]
    assert (further["update"], further["checkpoint"]) == (2, "at 2")
    # The reference has the states of the claim alone, and nobody judges the early answers.
    reference = pq.read_table(run_job(changed, "continuation", "shared_sft", "A").path / NAME)
    assert set(reference["set"].to_pylist()) == {"main"}
    judged, _ = ground(monkeypatch, changed, {"sure": scripted_judge(lambda prompt: "yes")})
    assert len(judged) == 6
