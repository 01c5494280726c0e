"""Trials of settings: which come next, what they choose, and what the reported studies take."""

import json
import re
from dataclasses import replace

import pytest
from hand_made import finish_job

from analysis.copied_tables import excerpt, shown
from analysis.table_formats import render
from analysis.tables import tuning as table
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.cli import main
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study
from pcqc_study.trials import RATE, Outcome, Trial, read_archive, value_of, write_archive
from pcqc_study.tuning import Trials, Tried, Tuning, load_tuning, trials_file, trials_here

PROTOCOL = load_tuning()
CLINIC = load_study("clinic")
TUNING = Tuning(
    rates=(0.1, 0.2, 0.4),
    checkpoints=2,
    studies={"clinic": Tried(runs={"T": 21}, methods=("grpo", "atpo"))},
    further={"atpo": {"tree.budget": (16, 32), "tree.advantage": ("backed_up", "return")}},
)


def outcome(trial, *accuracies, base="clinic", run="T", study="clinic"):
    return Outcome(study, trial.method, trial.settings, base, run, accuracies, 4.0, 960)


def known(method, accuracies, **more):
    """Outcomes of rates: rate -> accuracy at both of the last checkpoints."""
    return [outcome(Trial(method, {RATE: r}), a, a, **more) for r, a in accuracies.items()]


def rates(method, accuracies):
    trials = Trials(CLINIC, TUNING, known(method, accuracies))
    return [trial.changes[RATE] for trial in trials.rates(method)]


@pytest.mark.parametrize(
    ("accuracies", "tried"),
    [
        ({}, [0.1, 0.2, 0.4]),
        ({0.1: 70, 0.2: 80}, [0.1, 0.2, 0.4]),
        ({0.1: 70, 0.2: 80, 0.4: 75}, [0.1, 0.2, 0.4]),
        ({0.1: 90, 0.2: 80, 0.4: 75}, [0.05, 0.1, 0.2, 0.4]),
        ({0.1: 70, 0.2: 80, 0.4: 85}, [0.1, 0.2, 0.4, 0.8]),
        ({0.1: 70, 0.2: 80, 0.4: 85, 0.8: 60}, [0.1, 0.2, 0.4, 0.8]),
        ({0.1: 70, 0.2: 80, 0.4: 85, 0.8: 86}, [0.1, 0.2, 0.4, 0.8, 1.6]),
        # Of equal rates the lower one is taken, which here is the lowest of all.
        ({0.1: 80, 0.2: 80, 0.4: 75}, [0.05, 0.1, 0.2, 0.4]),
    ],
)
def test_a_grid_grows_until_its_best_rate_is_inside(accuracies, tried):
    assert rates("grpo", accuracies) == pytest.approx(tried)


def test_the_last_checkpoints_of_all_runs_on_all_base_models_judge_a_trial():
    study, runs = load_study("clinic-full"), {"T": 21, "U": 22}
    both = replace(TUNING, studies={"clinic-full": Tried(runs, ("grpo",))})
    bases = ("clinic-full", "clinic-full-2", "clinic-full-3")
    trial, places = Trial("grpo", {RATE: 0.2}), [(base, run) for base in bases for run in runs]
    rows = [
        outcome(trial, 10, 60 + n, 70 + n, base=base, run=run, study="clinic-full")
        for n, (base, run) in enumerate(places)
    ]
    assert Trials(study, both, rows).score(trial) == pytest.approx(65 + 2.5)
    assert Trials(study, both, rows[1:]).score(trial) is None


def test_further_settings_are_tried_one_by_one_at_the_best_rate():
    trials = Trials(CLINIC, TUNING, known("atpo", {0.1: 70, 0.2: 80, 0.4: 75}))
    further = [
        Trial("atpo", {RATE: 0.2, "tree.budget": 32}),
        Trial("atpo", {RATE: 0.2, "tree.advantage": "return"}),
    ]
    assert trials.of("atpo")[3:] == further
    assert {(trial.method, trial.settings) for trial, *_ in trials.missing()} == {
        ("grpo", "rl.learning_rate=0.1"),
        ("grpo", "rl.learning_rate=0.2"),
        ("grpo", "rl.learning_rate=0.4"),
        ("atpo", "rl.learning_rate=0.2 tree.budget=32"),
        ("atpo", 'rl.learning_rate=0.2 tree.advantage="return"'),
    }
    assert trials.chosen("atpo") is None
    rows = [*trials.known, outcome(further[0], 79, 79), outcome(further[1], 81, 81)]
    assert Trials(CLINIC, TUNING, rows).chosen("atpo") == further[1]


def of_study(rate, **tree):
    atpo = CLINIC.method("atpo")
    atpo = replace(atpo, rl={**atpo.rl, "learning_rate": rate}, tree=replace(atpo.tree, **tree))
    return replace(CLINIC, methods={**CLINIC.methods, "atpo": atpo})


def test_what_a_study_reports_with_and_its_trials_do_not_choose_is_named():
    rows = known("atpo", {0.1: 70, 0.2: 80, 0.4: 75})
    rows += [outcome(Trial("atpo", {RATE: 0.2, "tree.budget": 32}), 90, 90)]
    rows += [outcome(Trial("atpo", {RATE: 0.2, "tree.advantage": "return"}), 60, 60)]

    def said(study):
        trials = Trials(study, TUNING, rows)
        return [*trials.at_the_edge(), *trials.contradictions()]

    assert said(of_study(0.2, budget=32)) == []
    assert said(of_study(0.2)) == ["atpo: tree.budget is 16, the best of its trials 32"]
    assert said(of_study(0.4, budget=32)) == [
        "atpo: rl.learning_rate is 0.4, tried 0.1, 0.2, 0.4",
        "atpo: rl.learning_rate is 0.4, the best of its trials 0.2",
    ]


@pytest.mark.parametrize("name", PROTOCOL.studies)
def test_no_reported_rate_stands_at_the_edge_of_its_grid(name):
    """Of the archived trials, once there are some."""
    trials = Trials(load_study(name), PROTOCOL, read_archive())
    assert [*trials.at_the_edge(), *trials.contradictions()] == []


@pytest.mark.parametrize("name", PROTOCOL.studies)
def test_every_method_has_as_many_rates_and_atpo_more_trials_than_any_other(name):
    trials = Trials(load_study(name), PROTOCOL, [])
    counts = {method: len(trials.rates(method)) for method in trials.methods}
    assert set(counts.values()) == {len(PROTOCOL.rates)}
    for method in trials.methods:
        further = trials.further(method, Trial(method, {RATE: 0.1}))
        own = trials.study.method(method).method == "atpo"
        assert (len(further) > counts[method]) if own else not further


@pytest.mark.parametrize("name", PROTOCOL.studies)
def test_every_method_that_a_study_reports_is_tuned(name):
    methods, tried = load_study(name).methods, PROTOCOL.studies[name]
    reported = {n for n, m in methods.items() if m.kind == "rl" and m.runs and not m.on_demand}
    assert reported <= {*tried.methods}
    peers = {n for n, m in methods.items() if m.role == "peer"}
    assert name == "clinic" or peers <= {*tried.on_first_base}


@pytest.mark.parametrize("name", PROTOCOL.studies)
def test_no_reported_run_has_a_trials_seed(name):
    assert not {*PROTOCOL.studies[name].runs.values()} & {*load_study(name).runs.values()}


def test_a_trial_is_trained_as_reported_runs_are_but_for_what_it_tries(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trials = Trials(CLINIC, PROTOCOL, [])
    (path,) = trials.write_studies()
    assert path == trials_file("clinic")
    study = load_study(path)
    assert {run for m in study.methods.values() for run in m.runs} == {"T", "U", "V"}
    for method in trials.methods:
        for trial in trials.of(method):
            own = study.method(trial.name)
            told, reported = (
                Jobs(of).job("train", name, run).fingerprint.settings
                for of, name, run in ((study, trial.name, "T"), (CLINIC, method, "A"))
            )
            assert value_of(study, trial.name, RATE) == told["rl"].pop("learning_rate")
            assert (told.pop("seed"), reported.pop("seed")) == (21, 1)
            reported["rl"].pop("learning_rate")
            for setting in PROTOCOL.further.get(CLINIC.method(method).method, {}):
                group, name = setting.split(".")
                for settings in (told, reported):
                    settings["method"][group].pop(name, None)
            assert told == reported
            assert own.role == "ablation"


def finish_trial(path, name, run, *accuracies):
    """A finished training of a trials' study with these accuracies at its checkpoints."""
    checkpoints = [{"validation": {"accuracy": a, "turns": 4.5}} for a in accuracies]
    entries = {"checkpoints": checkpoints, "totals": {"trajectories": 1152}}
    finish_job(load_study(path), "train", name, run, entries=entries)


def test_outcomes_are_read_from_finished_trainings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pcqc_study.trials.read_archive", lambda: [])
    trials = Trials(CLINIC, PROTOCOL, [])
    (path,) = trials.write_studies()
    finish_trial(path, "pcqc_0_0008", "U", 0.5, 0.625)
    (read,) = trials.read()
    assert read == Outcome(
        "clinic", "pcqc", "rl.learning_rate=0.0008", "clinic", "U", (50.0, 62.5), 4.5, 1152
    )
    assert main(["tune", "clinic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "clinic: 1 of 72 runs of trials known"
    assert lines[-1].endswith(f"`snakemake --cores all trials --config study={path}`")


def test_what_was_trained_here_or_elsewhere_decides_which_trials_are_left(tmp_path, monkeypatch):
    """The grid of one method grows twice by runs that no archive has; the other's is archived."""
    monkeypatch.chdir(tmp_path)
    archived = known("grpo", {0.1: 70, 0.2: 80, 0.4: 75})
    for rate, accuracy in {0.1: 0.7, 0.2: 0.8, 0.4: 0.85, 0.8: 0.9, 1.6: 0.6}.items():
        left = trials_here(CLINIC, TUNING, archived)
        assert ("atpo", rate) in {(t.method, t.changes[RATE]) for t, *_ in left.missing()}
        path = trials_file("clinic")
        assert "grpo_0_1" not in load_study(path).methods
        finish_trial(path, f"atpo_{rate}".replace(".", "_"), "T", 0.2, accuracy, accuracy)
    trials = trials_here(CLINIC, TUNING, archived)
    assert [t.changes[RATE] for t in trials.rates("atpo")] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.6]
    )
    assert {trial.settings for trial, *_ in trials.missing()} == {
        "rl.learning_rate=0.8 tree.budget=32",
        'rl.learning_rate=0.8 tree.advantage="return"',
    }
    names = load_study(trials_file("clinic")).methods
    assert not {"atpo_0_8", "grpo_0_2"} & {*names}
    assert "atpo_0_8_budget_32" in names


def test_the_archive_holds_what_was_written_and_other_studies_stay(tmp_path):
    path, rows = tmp_path / "tuning.csv", known("grpo", {0.1: 70, 0.2: 80.25})
    others = known("grpo", {0.1: 60}, study="clinic-full")
    write_archive("clinic-full", others, path)
    write_archive("clinic", rows, path)
    write_archive("clinic", rows[:1], path)
    assert read_archive(path) == [rows[0], *others]
    assert read_archive(tmp_path / "none.csv") == []
    broken = path.read_text().replace("70 70", "seventy")
    path.write_text(broken)
    with pytest.raises(UserError, match=r"tuning\.csv:2: not a row of a trial; get the file again"):
        read_archive(path)


def test_the_page_has_every_trial_and_marks_the_best():
    rows = known("grpo", {0.1: 70, 0.2: 80, 0.4: 75})
    built = table.build(TUNING, rows)
    assert [row.cells[2] for row in built.rows] == [f"{RATE}={rate}" for rate in (0.1, 0.2, 0.4)]
    assert [row.cells[3].best for row in built.rows] == [False, True, False]
    assert built.rows[1].cells[4] == "80.0"
    assert table.build(TUNING, []).caption == "No trial has been made yet."


def test_the_page_shows_what_is_archived():
    text = render("md", [table.build(PROTOCOL, read_archive())]).strip()
    assert shown(table.PAGE, table.OWNER, "trials") == text


def test_the_rows_of_atpos_page_are_those_of_the_archive():
    trials = render("md", [table.build(PROTOCOL, read_archive())]).replace("**", "")
    rows = excerpt(ROOT / "docs" / "atpo.md", table.OWNER, "trials").splitlines()[2:]
    assert len(rows) == len(PROTOCOL.further["atpo"]["tree.advantage"])
    for row in rows:
        _, advantage, numbers = row.split("|", 2)
        (name,) = re.findall(r"^ `(\w+)`", advantage)
        settings = "" if name == "backed_up" else f' tree.advantage="{name}"'
        assert f"rl.learning_rate=0.0002{settings} |{numbers}" in trials.replace("\\_", "_")


def test_a_rate_that_another_setting_replaces_cannot_be_tuned():
    with pytest.raises(UserError, match=r"methods\.atpo\.tree\.actor_learning_rate stands in"):
        Trials(of_study(0.2, actor_learning_rate=0.1), TUNING, [])
    with pytest.raises(UserError, match="tunes no study 'clinc'; did you mean 'clinic'"):
        Trials(replace(CLINIC, name="clinc"), TUNING, [])


def test_settings_are_written_as_json():
    trial = Trial("atpo", {RATE: 0.0004, "tree.advantage": "return"})
    assert trial.settings == 'rl.learning_rate=0.0004 tree.advantage="return"'
    assert trial.name == "atpo_0_0004_advantage_return"
    assert json.loads(trial.settings.split("=")[1].split()[0]) == 0.0004


@pytest.mark.parametrize("name", PROTOCOL.studies)
def test_every_trial_has_a_name_that_a_study_may_have(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study(name)
    accuracies = dict(zip(PROTOCOL.rates, (70, 80, 75, 70), strict=True))
    rows = [
        each
        for method in study.methods
        for base in Trials(study, PROTOCOL, []).bases("grpo")
        for run in PROTOCOL.studies[name].runs
        for each in known(method, accuracies, base=base, run=run, study=name)
    ]
    trials = Trials(study, PROTOCOL, rows)
    assert {trial.method for trial, *_ in trials.missing()} == {"atpo"}
    names = {n for path in trials.write_studies() for n in load_study(path).methods}
    assert {trial.name for trial, *_ in trials.missing()} <= names
