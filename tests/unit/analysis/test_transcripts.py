"""Transcripts: which consultations are there, and the numbers beside each question."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import simulated
import transcribed
from hand_made import clinic_file, finish_job, folder_of
from transcribed import AMBER, CORAL, WORLD

import pcqc
from analysis import transcripts
from analysis.transcripts.candidates import path_of
from analysis.transcripts.consultations import opening_candidates
from analysis.transcripts.exact import ExactValues
from pcqc_base.errors import UserError

UNIFORM = np.array([0.5, 0.5])


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return transcribed.write_study()


def test_a_continuation_study_of_doctors_that_ask_nothing_has_no_candidates(copied):
    study = simulated.load_study(simulated.STUDY)
    for name in ("candidates", "continuations"):
        path = folder_of(study, "continuation", "pcqc", "A") / f"{name}.parquet"
        pq.write_table(pq.read_schema(path).empty_table(), path)
    finish_job(study, "continuation", "pcqc", "A")
    run = pcqc.load(study.results, "pcqc", "A")
    assert opening_candidates(study, run) == {}


def data(study, name: str):
    """What a file of data gives the page."""
    text = (study.results / "transcripts" / "data" / f"{name}.js").read_text(encoding="utf-8")
    start = f'arrived("{name}",'
    assert text.startswith(start)
    assert text.endswith(");\n")
    return json.loads(text[len(start) : -3])


def in_training(study, method: str) -> dict:
    """The sampled training consultation of a method."""
    listed = data(study, "list")
    rows, place = listed["rows"], [name for name, _ in listed["places"]].index("training")
    runs = [name for name, _, _ in listed["runs"]]
    (number,) = [
        i for i, run in enumerate(rows["run"]) if runs[run] == method and rows["place"][i] == place
    ]
    assert rows["compared"][number]
    return data(study, "consultations-0")[number]


def test_a_state_says_what_is_known_and_what_is_best_to_ask():
    exact, case = ExactValues(WORLD, UNIFORM), transcribed.case(0, "x")
    assert exact.state(case, []) == {
        "right": 0.5,
        "now": 0.5,
        "best": 0.9,
        "ask": ["Any amber spots?"],
    }
    assert exact.state(case, [AMBER]) == {"right": 0.9, "now": 0.9, "best": 0.9, "ask": []}
    assert exact.value(case, [], "Any coral spots?") == 0.5
    assert exact.value(case, [], "Any amber or coral spots?") is None
    assert exact.value(case, [], None) is None


def test_every_evaluated_and_sampled_consultation_is_listed_once(study):
    transcripts.write(study, study.results)
    listed = data(study, "list")
    assert listed["runs"] == [["atpo", "ATPO", "A"], ["pcqc", "PCQC", "A"]]
    rows = listed["rows"]
    assert {len(values) for values in rows.values()} == {2 * (3 * len(study.benchmarks) + 1)}
    keys = set(zip(rows["run"], rows["case"], strict=True))
    assert len(keys) == len(rows["run"])
    atpo = [right for right, run in zip(rows["right"], rows["run"], strict=True) if run == 0]
    assert atpo.count(0) == len(study.benchmarks)
    assert data(study, "cases-0")[rows["case"][0]]["facts"] == [
        "amber spots present.",
        "coral spots absent.",
    ]


def test_candidates_of_pcqc_stand_with_all_that_is_known_of_them(study):
    transcripts.write(study, study.results)
    first, last = in_training(study, "pcqc")["turns"]
    state = first["state"]
    titles = [title for title, _, _ in state["columns"]]
    assert titles == ["Utility", "Gain", "Credit", "Executed-local credit", "Exact value"]
    assert [row[:3] for row in state["rows"]] == [
        ["Any amber spots?", "amber spots present.", True],
        ["Any coral spots?", "coral spots absent.", False],
    ]
    # Executed gains 0.4 and 0.2: the larger is 0.1 above their mean, their deviation 0.1414.
    assert state["numbers"] == [
        [0.9, 0.4, 0.7071, pytest.approx(0.7071, abs=1e-4), 0.9],
        [0.5, 0.0, -0.7071, None, 0.5],
    ]
    assert "0.900 (the utility); before them it was 0.500." in state["about"]
    assert "state" not in last


def test_a_control_stands_beside_the_credit_that_pcqc_would_have_given(study):
    pcqc = study.methods["pcqc"]
    control = replace(study.methods["executed_local"], title=pcqc.title, runs=pcqc.runs)
    study = replace(study, methods={**study.methods, "pcqc": control})
    transcripts.write(study, study.results)
    state = in_training(study, "pcqc")["turns"][0]["state"]
    titles = [title for title, _, _ in state["columns"]]
    assert titles == ["Utility", "Gain", "Credit", "Same-state credit", "Exact value"]
    same_state = [row[3] for row in state["numbers"]]
    assert same_state == pytest.approx([0.7071, -0.7071], abs=1e-4)


def test_branches_of_atpo_stand_with_their_advantage(study):
    transcripts.write(study, study.results)
    first, last = in_training(study, "atpo")["turns"]
    assert [row[0] for row in first["state"]["rows"]] == ["Any coral spots?", "Any amber spots?"]
    assert [row[2:] for row in first["state"]["rows"]] == [[False, "pruned"], [True, ""]]
    assert [row[3] for row in first["state"]["numbers"]] == [-0.5, 0.5]
    assert [row[0] for row in last["state"]["rows"]] == ["(no question) Final Answer: A"]


def test_the_same_runs_give_the_same_bytes_and_leave_nothing_old(study):
    folder = transcripts.write(study, study.results).parent
    before = {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    (folder / "data" / "consultations-9.js").write_text("old")
    transcripts.write(study, study.results)
    assert {path.name: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_a_case_that_the_data_do_not_have_is_named(study):
    path = clinic_file(study, "clinic_dev")
    path.write_text(path.read_text().replace("clinic_dev-00000", "clinic_dev-10000"))
    finish_job(study, "prepare", "clinic_dev")
    with pytest.raises(UserError, match=r"clinic_dev.jsonl: no case 'clinic_dev-00000', on which"):
        transcripts.write(study, study.results)


def test_nothing_evaluated_is_said(study):
    for path in study.results.glob("evaluation/*/*/latest"):
        path.unlink()
    with pytest.raises(UserError, match="has no evaluated method yet; run `snakemake"):
        transcripts.write(study, study.results)


def test_candidates_of_the_continuation_study_stand_with_what_came_of_them():
    rows = [
        {"question": turn["question"], "answer": turn["answer"], "executed": turn is AMBER}
        | {"utility": utility, "credit": credit, "success": success}
        for turn, utility, credit, success in ((AMBER, 0.9, 0.7, 1.0), (CORAL, 0.5, -0.7, 0.25))
    ]
    exact, case = ExactValues(WORLD, UNIFORM), transcribed.case(0, "x")

    def value(turns, question):
        return exact.value(case, turns, question)

    state = transcripts.candidates.continued(rows, value)
    assert [title for title, _, _ in state["columns"]][2:] == ["Ended right", "Exact value"]
    assert state["numbers"] == [[0.9, 0.7, 1.0, 0.9], [0.5, -0.7, 0.25, 0.5]]


def node(parent, response, visits):
    return {"parent": parent, "response": response, "visits": visits}


NODES = [
    node(None, None, 3),
    node(0, "Any fever?", 0),  # pruned: another branch asks the same
    node(0, "Any fever?", 3),
    node(2, "Final Answer: A", 1),
    node(2, "Final Answer: B", 2),
]


def test_of_equal_responses_the_branch_that_the_consultation_went_on_from_is_taken():
    assert path_of(NODES, ["Any fever?", "Final Answer: B"]) == [2, 4]
    assert path_of(NODES, ["Any fever?"]) == [2]


def test_a_consultation_of_another_tree_has_no_path():
    assert path_of(NODES, ["Any rash?", "Final Answer: B"]) == []
    assert path_of([], ["Any fever?"]) == []
