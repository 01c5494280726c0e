"""The whole workflow on the miniature study, from nothing to the report."""

import dataclasses
import re
import runpy

import pandas as pd
import pytest
from helpers import free_port
from kills import essence, unstarted
from workplace import CONTINUED, RUNS, SETTINGS, STUDY, Workplace

from analysis.tables_and_figures import fillable_parts
from clinic_env.players import measure
from pcqc.logged.updates import read_updates
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_study.graph import Jobs
from pcqc_study.run_job import run_job
from pcqc_study.study_file import load_study


def test_everything_is_made(mini):
    study = load_study(STUDY)
    items = [item for part in fillable_parts(study) for item in part.items]
    made = [path for item in items for path in item.paths(mini.results)]
    assert len(made) > 30
    for path in [*made, *(mini.results / n for n in ("report.html", "transcripts/index.html"))]:
        assert path.stat().st_size > 0, path
    shown = {n: "".join(m.runs) for n, m in study.methods.items() if not m.on_demand}
    assert shown == RUNS
    for method, runs in RUNS.items():
        for run in runs:
            evaluation = read_json(
                mini.results / "evaluation" / method / run / "latest/manifest.json"
            )
            assert set(evaluation["benchmarks"]) == set(study.benchmarks)
            if method in CONTINUED:
                folder = mini.results / "collected/latest/continuation" / method / run
                assert (run == "A") == (folder / "grounding.csv").is_file()
            if method != "shared_sft":
                manifest = read_json(mini.results / "runs" / method / run / "latest/manifest.json")
                assert [c["update"] for c in manifest["checkpoints"]] == [2, 4]
                # A processor with AVX-512 is held to AVX2, so that it ends in the same bytes.
                assert manifest["machine"]["instructions"] in ("AVX2", "DEFAULT")
    assert sorted(p.name for p in mini.folder.iterdir() if p.name.startswith("res")) == ["results"]


def test_the_miniature_doctor_asks_and_its_questions_are_credited(mini):
    for method, supervised in (("pcqc", 4), ("same_state_q1", 1), ("executed_local", 1)):
        path = mini.results / "runs" / method / "A" / "latest/candidate_groups.jsonl"
        groups = [row for _, row in read_jsonl(path)]
        assert groups
        candidates = [c for group in groups for c in group["candidates"]]
        assert len(candidates) == 4 * len(groups)
        assert any(c["credit"] for c in candidates)
        assert all(sum(c["supervised"] for c in g["candidates"]) <= supervised for g in groups)
    path = mini.results / "evaluation/pcqc/A/latest/clinic_dev.jsonl"
    assert any(turn["question"] for _, row in read_jsonl(path) for turn in row["turns"])


TREES = "runs/atpo/A/latest"


def test_a_run_of_atpo_leaves_its_whole_record(mini):
    folder = mini.results / TREES
    manifest = read_json(folder / "manifest.json")
    assert "trees.jsonl" in manifest["files"]
    assert not (folder / "candidate_groups.jsonl").exists()
    events = list(read_updates(folder / "events.jsonl", folder / "times.jsonl"))
    updates = [e for e in events if e["kind"] == "update"]
    assert [e["update"] for e in updates] == [1, 2, 3, 4]
    wanted = {"tree/nodes", "tree/pruned_share", "critic/loss", "seconds/critic", "reward/mean"}
    assert all(wanted <= e.keys() for e in updates)
    # The critic learns alone in the first update.
    assert ["loss/terminal" in e for e in updates] == [False, True, True, True]
    assert updates[-1]["gap/max"] < 1e-4
    assert manifest["totals"]["trajectories"] == updates[-1]["trajectories"] > 4 * 4
    # A tree keeps every response that was sampled; its questions are answered.
    assert all(e["sampled/actor"] == e["tokens/actor_all"] for e in updates)
    sampled = sum(e["sampled/actor"] + e["sampled/patient"] for e in updates)
    assert manifest["totals"]["sampled_tokens"] == sampled > manifest["totals"]["actor_tokens"]


def test_the_recorded_trees_hold_every_number(mini):
    rows = [row for _, row in read_jsonl(mini.results / TREES / "trees.jsonl")]
    assert [row["update"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        nodes = row["nodes"]
        assert nodes[0]["parent"] is None
        ends = [node for node in nodes if node["terminal"] and not node["pruned"]]
        assert nodes[0]["visits"] == len(ends)
        for node in nodes[1:]:
            assert node["response"] is not None
            assert node["terminal"] == (node["ending"] is not None)
            if node["visits"]:
                gain = node["reward"] + node["value"] - nodes[node["parent"]]["value"]
                assert node["advantage"] == pytest.approx(gain / node["visits"])


def test_a_run_says_which_job_starts_and_how_far_it_is(printed):
    assert "Train pcqc, run B" in printed
    assert re.search(r"^\d+ of \d+ steps \(100%\) done$", printed, re.MULTILINE)
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d pcqc B: 4/4 updates", printed, re.MULTILINE)
    assert max(len(line) for line in printed.splitlines()) < 250
    assert printed.splitlines()[-1] == f"The report: results/{STUDY}/report.html"


def before_mlflow(place: Workplace) -> dict[str, object]:
    """What the study's jobs made that need no MLflow."""
    folders = ("data", "models", "runs", "selection", "evaluation", "continuation", "grounding")
    made = {folder: essence(place.results / folder) for folder in folders}
    assert all(made.values())
    return made


# It makes the study anew; `test_write_curves.py` has the server that dies in a training.
@pytest.mark.slow
def test_a_dead_tracking_server_changes_no_byte(mini, tmp_path):
    """All runs are made and their mirrors fail in one line each; with a store the rest follows."""
    address = f"http://127.0.0.1:{free_port()}"
    place = unstarted(mini, tmp_path / "dead")
    done = place.run(place.workflow(), MLFLOW_TRACKING_URI=address)
    assert done.returncode != 0
    errors = {line for line in done.stderr.splitlines() if line.startswith("pcqc: error: ")}
    assert errors
    assert all(f"MLflow at {address} did not answer" in line for line in errors)
    assert before_mlflow(place) == before_mlflow(mini)
    assert not (place.results / "collected").exists()
    place.make()
    assert essence(place.results) == essence(mini.results)


def test_ablations_and_peers_are_made_when_asked_for_alone(copy):
    study = load_study(STUDY)
    roles = {
        role: [n for n, m in study.methods.items() if m.role == role]
        for role in ("ablation", "peer")
    }
    assert {role: len(names) for role, names in roles.items()} == {"ablation": 5, "peer": 11}
    planned = copy.planned("atpo_ablations", "peers", "lost_points")
    steps = ("Train", "Choose the checkpoint of", "Evaluate")
    mine = {f"{step} {name}, run A" for step in steps for name in roles["ablation"]}
    assert mine <= set(planned)
    names = [*roles["ablation"], *roles["peer"]]
    mirrored = [job for job in planned if job.startswith("Mirror")]
    assert mirrored == sorted(f"Mirror {name} in MLflow" for name in names)
    split = {f"Split what {name}, run {run}, loses by place" for name in RUNS for run in RUNS[name]}
    assert split <= set(planned)
    # Each ablation is ATPO but for one setting of the search.
    whole = dataclasses.asdict(study.method("atpo").tree)
    for name in roles["ablation"]:
        own = dataclasses.asdict(study.method(name).tree)
        assert sum(own[key] != whole[key] for key in whole) == 1


@pytest.mark.slow  # it draws a report; `test_lost_points.py` counts the points
def test_lost_points_are_those_of_the_evaluation_and_join_the_report(copy, monkeypatch):
    monkeypatch.chdir(copy.folder)
    study = load_study(STUDY)
    for job in Jobs(study).lost_points():
        run_job(study, "lost_points", *job.arguments)
    points = pd.read_parquet(copy.results / "lost_points/shared_sft/A/latest/points.parquet")
    own = pd.read_parquet(copy.results / "evaluation/shared_sft/A/latest/clinic_dev.parquet")
    assert [*points.case_id] == [*own.case_id]
    assert [*points.policy] == [*own.correct.astype(float)]
    lost = points[["asking", "remembering", "concluding", "stopping"]].sum(axis=1)
    assert [*lost] == pytest.approx([*(points.exact - points.policy)])
    assert points.exact.mean() > points.policy.mean()
    assert "Lost points" not in (copy.results / "report.html").read_text()
    run_job(study, "lost_points_table")
    run_job(study, "report")
    assert "Where points are lost: Miniature clinic" in (copy.results / "report.html").read_text()


def test_selected_checkpoints_play_on_the_clinic_s_leaderboard(mini, monkeypatch):
    monkeypatch.chdir(mini.folder)
    names = runpy.run_path(str(ROOT / "examples" / "clinic" / "doctors.py"))
    doctors = names["selected"](STUDY, ["pcqc"])
    assert list(doctors) == [f"Shared SFT (`{STUDY}`)", f"PCQC, run A (`{STUDY}`)"]
    choice = read_json(mini.results / "selection/pcqc/A/latest/selection.json")["selected"]
    assert doctors[f"PCQC, run A (`{STUDY}`)"].name == f"{choice['update']:06d}"
    scores = {
        name: measure(names["in_first_clinic"](folder), 3) for name, folder in doctors.items()
    }
    assert all(score.episodes == 3 for score in scores.values())
    with pytest.raises(SystemExit, match="doctors: error: no method 'pcqcc'"):
        names["selected"](STUDY, ["pcqcc"])


DASHES = str.maketrans("−–—", "---")


@pytest.mark.slow
def test_the_answer_is_the_same_on_a_terminal_without_its_signs_and_without_docstrings(mini):
    place = mini.cold()
    command = place.command("answer", STUDY)
    printed = place.run(command).stdout
    assert "−" in printed
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONOPTIMIZE": "2"}):
        done = place.run(command, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.replace("+-", "±").translate(DASHES) == printed.translate(DASHES)


def test_what_is_wrong_or_misspelt_stops_the_workflow_in_a_line(tmp_path):
    place = Workplace(tmp_path / "fresh")
    dry = place.workflow("--dry-run")
    for command, message in (
        ([*dry, "stdy=real"], "pcqc: error: --config stdy: unknown key; did you mean 'study'?"),
        (place.workflow("--dry-run", "executed_locl"), "did you mean 'executed_local'?"),
        (["make", "-C", str(ROOT), "-n", "results", "study=real"], "unknown variable study; known"),
    ):
        done = place.run(command)
        assert done.returncode != 0
        assert message in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    place.edit(SETTINGS, "learning_rate: 0.01", "leaning_rate: 0.01")
    done = place.run(dry)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("Using workflow")]
    assert line.startswith(f"pcqc: error: {SETTINGS}:")
    assert "did you mean 'learning_rate'?" in line
