"""The whole workflow on the miniature study: from nothing to the report, and what reruns when."""

import dataclasses
import re

import pyarrow.parquet as pq
import pytest
from workplace import STUDY, Workplace, digests

from analysis.tables_and_figures import contents
from credit_lab.quality.credits import QUESTIONS, TURNS
from pcqc.study import ROOT, load_study
from pcqc.system.files import read_json, read_jsonl
from pcqc.tracking.mlflow_store import SQLITE

STATE_CREDITS = (*QUESTIONS, *TURNS)
SETTINGS = f"config/studies/{STUDY}.yaml"
PUBLISH = "Publish the report in MLflow"
REPORT = "Tables, figures, transcripts and report"
END = ["Collect all runs from MLflow", PUBLISH, REPORT]
WORDS = {
    "train": "Train",
    "choose": "Choose the checkpoint of",
    "evaluate": "Evaluate",
    "continue": "Continue from the candidates of",
    "judge": "Judge the answers of",
}
CONTINUED = {"shared_sft": "A", "pcqc": "A"}
RUNS = {
    "shared_sft": "A",
    "grpo": "AB",
    "atpo": "A",
    "pcqc": "AB",
    "terminal_only": "A",
    "executed_local": "A",
    "same_state_q1": "A",
}


def jobs(methods, steps):
    """Messages of the steps of methods' runs."""
    found = [f"Mirror {method} in MLflow" for method in methods if "mirror" in steps]
    for step in set(steps) - {"mirror"}:
        for method in methods:
            runs = CONTINUED.get(method, "") if step in ("continue", "judge") else RUNS[method]
            if (step, method) != ("train", "shared_sft"):
                found += [f"{WORDS[step]} {method}, run {run}" for run in runs]
    return found


def test_everything_is_made(mini):
    study = load_study(STUDY)
    items = [item for part in contents(study) for item in part.items]
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
    events = [row for _, row in read_jsonl(folder / "events.jsonl")]
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


def test_a_run_says_which_job_starts_and_how_far_it_is(said):
    assert "Train pcqc, run B" in said
    assert re.search(r"^\d+ of \d+ steps \(100%\) done$", said, re.MULTILINE)
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d pcqc B: 4/4 updates", said, re.MULTILINE)
    assert max(len(line) for line in said.splitlines()) < 250
    assert said.splitlines()[-1] == f"The report: results/{STUDY}/report.html"


def test_a_second_run_starts_no_job_and_changes_no_byte(mini):
    before, said = digests(mini.results), mini.make()
    assert "Nothing to be done" in said
    assert not re.search(r"^(Job|rule) ", said, re.MULTILINE)
    assert digests(mini.results) == before


LOCAL = jobs(["executed_local"], ["train", "choose", "evaluate", "mirror"])


def test_a_setting_of_a_control_reruns_it_and_what_depends_on_it(copy):
    copy.edit(SETTINGS, "executed_local: {", "executed_local: {beta: 0.5, ")
    assert copy.planned() == sorted([*LOCAL, *END])
    said = copy.make("--dry-run").splitlines()
    assert said[-1] == "stale (setting method.beta: 1.0 -> 0.5): train executed_local A"
    # A rerun that fails leaves no results of the old settings.
    assert copy.run([*copy.workflow(), "launcher=false"]).returncode != 0
    assert copy.planned() == sorted([*LOCAL, *END])


def test_a_title_retrains_nothing_and_another_run_trains_that_run_alone(copy):
    copy.edit(SETTINGS, "executed_local: {", "executed_local: {title: Local, ")
    copy.edit(SETTINGS, "only: {updates: 4, runs: [A]}", "only: {updates: 4, runs: [A, B]}")
    steps = ("Train", "Choose the checkpoint of", "Evaluate")
    mine = [f"{step} terminal_only, run B" for step in steps]
    mirrored = jobs(["executed_local", "terminal_only"], ["mirror"])
    assert copy.planned() == sorted([*mine, *mirrored, *END])


ALL = list(RUNS)
AFTER_CHOICE = ["evaluate", "continue", "judge", "mirror"]
BY_GRPO = [method for method in ALL[1:] if method != "atpo"]
SCORED = ["continue", "judge", "mirror"]  # candidates are scored as PCQC's are
CREDIT = "packages/turn_credit/src/turn_credit/"
EDITS = {
    CREDIT + "arithmetic.py": [
        *jobs(BY_GRPO, ["train", "choose", *AFTER_CHOICE]),
        *jobs(["shared_sft"], SCORED),
        *END,
    ],
    "analysis/tables/main_results.py": [PUBLISH, REPORT],
    "src/pcqc/cli.py": [],
}


def test_an_edited_module_reruns_what_imports_it_and_loses_nothing(copy):
    before = digests(copy.results)
    for path, expected in EDITS.items():
        text = (copy.folder / path).read_text()
        (copy.folder / path).write_text(text + "\nEDITED = 1\n")
        assert copy.planned() == sorted(expected), path
        (copy.folder / path).write_text(text + "\n# A comment.\n")
    assert copy.planned() == []
    assert digests(copy.results) == before


def explained(place, method, run):
    """The jobs on the way to a run that `pcqc explain` says would run again, as messages."""
    said = place.run(place.command("explain", STUDY, method, run))
    assert said.returncode == 0, said.stderr
    words = {
        "training": "Train",
        "the choice of a checkpoint": "Choose the checkpoint of",
        "evaluation": "Evaluate",
        "the continuation study": "Continue from the candidates of",
        "the judgement of its answers": "Judge the answers of",
    }
    again = re.findall(r"^(.*) would run(?: again)?: ", said.stdout, re.MULTILINE)
    return sorted({f"{words[one]} {method}, run {run}" for one in again if one in words})


def test_explain_and_the_workflow_agree_before_and_after_an_edit_is_accepted(copy):
    file = copy.folder / "src/pcqc/system/files.py"
    text = file.read_text()
    file.write_text(text + "\nEDITED = 1\n")
    planned = [job for job in copy.planned() if job.endswith(" pcqc, run A")]
    assert planned == explained(copy, "pcqc", "A") != []
    done = copy.run(copy.command("accept", STUDY, "pcqc", "A", "--because", "no number needs it"))
    assert done.returncode == 0, done.stderr
    assert explained(copy, "pcqc", "A") == []
    planned = copy.planned()
    assert "Evaluate grpo, run A" in planned
    assert not [job for job in planned if job.endswith(" pcqc, run A")]
    assert "Shared SFT: actor and patient" not in planned
    # Afterwards the edit is taken back: every path is the old one.
    file.write_text(text)
    assert copy.planned() == []
    assert explained(copy, "pcqc", "A") == []


def test_an_edit_leaves_the_old_run_and_taking_it_back_leads_to_it(copy):
    before = digests(copy.results / "runs")
    copy.edit(SETTINGS, "executed_local: {", "executed_local: {beta: 0.5, ")
    last = copy.make("executed_local").splitlines()[-1]
    found, _, limit = last.partition(" One run of each: ")
    assert re.fullmatch(r"Executed-local − Shared SFT: \S+ turns \[.*\]\.", found)
    assert limit == "the interval covers cases alone."
    after = digests(copy.results / "runs")
    assert before.items() < after.items()
    copy.edit(SETTINGS, "executed_local: {beta: 0.5, ", "executed_local: {")
    assert copy.planned() == []
    said = copy.run(copy.command("clean", STUDY)).stdout
    assert "(train executed_local A, " in said
    assert "4 results of earlier recipes" in said
    done = copy.run(copy.command("clean", STUDY, "--remove", "--yes"))
    assert done.returncode == 0, done.stderr
    assert digests(copy.results / "runs") == before
    assert copy.planned() == []


def test_a_lost_store_is_mirrored_anew(copy):
    (copy.folder / load_study(STUDY).tracking.uri.removeprefix(SQLITE)).unlink()
    assert copy.planned() == sorted([*jobs(ALL, ["mirror"]), *END])


def test_a_method_alone_by_its_name(tmp_path):
    place = Workplace(tmp_path / "fresh")
    models = ["Base model, from scratch", "Cases and SFT conversations of the clinic"]
    models += ["Shared SFT: actor and patient"]
    assert place.planned("executed_local") == sorted([*models, *LOCAL])
    assert not place.results.exists()


def test_ablations_and_peers_are_made_when_asked_for_alone(copy):
    study = load_study(STUDY)
    roles = {
        role: [n for n, m in study.methods.items() if m.role == role]
        for role in ("ablation", "peer")
    }
    assert {role: len(names) for role, names in roles.items()} == {"ablation": 4, "peer": 8}
    planned = copy.planned("atpo_ablations", "peers")
    steps = ("Train", "Choose the checkpoint of", "Evaluate")
    mine = {f"{step} {name}, run A" for step in steps for name in roles["ablation"]}
    assert mine <= set(planned)
    names = [*roles["ablation"], *roles["peer"]]
    mirrored = [job for job in planned if job.startswith("Mirror")]
    assert mirrored == sorted(f"Mirror {name} in MLflow" for name in names)
    # Each ablation is ATPO but for one setting of the search.
    whole = dataclasses.asdict(study.method("atpo").tree)
    for name in roles["ablation"]:
        own = dataclasses.asdict(study.method(name).tree)
        assert sum(own[key] != whole[key] for key in whole) == 1


def test_credits_are_compared_at_the_states_of_what_is_there(copy):
    done = copy.run(copy.workflow("credit_quality"))
    assert done.returncode == 0, done.stderr
    folder = copy.results / "credit_quality"
    rows = (copy.results / "credits/latest/credit_quality.csv").read_text().splitlines()
    assert len(rows) > len(STATE_CREDITS)
    assert "| Expected answer | 1.00 |" in done.stderr  # the exact one: nothing ranks better
    for method in ("shared_sft", "pcqc"):
        questions = pq.read_table(folder / method / "A/latest/questions.parquet").to_pandas()
        assert set(STATE_CREDITS) < set(questions.columns)
        assert questions.groupby(["case_id", "turn", "draw"]).size().eq(2).all()
        costs = read_json(folder / method / "A/latest/manifest.json")
        assert costs["sampled"]["utilities"] == 0 < costs["read"]["utilities"]
        assert 0 < costs["sampled"]["imagined answers"] < costs["read"]["imagined answers"]
        assert 0 < costs["sampled"]["candidates"] < costs["read"]["candidates"]
    assert copy.planned("credit_quality") == []


def test_what_is_wrong_or_misspelt_stops_the_workflow_in_a_line(tmp_path):
    place = Workplace(tmp_path / "fresh")
    dry = place.workflow("--dry-run")
    for command, said in (
        ([*dry, "stdy=real"], "pcqc: error: --config stdy: unknown key; did you mean 'study'?"),
        (place.workflow("--dry-run", "executed_locl"), "did you mean 'executed_local'?"),
        (["make", "-C", str(ROOT), "-n", "results", "study=real"], "unknown variable study; known"),
    ):
        done = place.run(command)
        assert done.returncode != 0
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    place.edit(SETTINGS, "learning_rate: 0.01", "leaning_rate: 0.01")
    done = place.run(dry)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("Using workflow")]
    assert line.startswith(f"pcqc: error: {SETTINGS}:")
    assert "did you mean 'learning_rate'?" in line
