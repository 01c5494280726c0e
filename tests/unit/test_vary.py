"""`pcqc vary`: a named, recorded variation of a method, and what is refused."""

import shutil
import subprocess

import pytest

from analysis.tables.ablations import parent
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.cli import main
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study
from pcqc_study.study_file.vary import vary


def told(study, method):
    """What training a run of a method is told, as JSON has it."""
    return Jobs(study).job("train", method, "A").fingerprint.settings


@pytest.fixture
def own(tmp_path):
    """A study's file of its own, so that nothing is recorded in the repository."""
    path = tmp_path / "mine.yaml"
    shutil.copy(ROOT / "config" / "studies" / "clinic.yaml", path)
    return str(path)


def test_a_variation_is_its_method_but_for_the_setting(own):
    before = told(load_study(own), "pcqc")
    name, path = vary(own, "pcqc", ["rl.learning_rate=5e-4"])
    assert name == "pcqc_learning_rate_0_0005"
    study = load_study(own)
    made = study.method(name)
    assert (made.title, made.role, made.runs) == (
        "PCQC, rl.learning_rate 0.0005",
        "ablation",
        ("A",),
    )
    assert study.rl_of(made).learning_rate == 0.0005
    now = told(study, name)
    assert now["rl"].pop("learning_rate") != before["rl"].pop("learning_rate")
    assert now == before
    assert told(study, "pcqc")["rl"]["learning_rate"] == 0.0016
    assert parent(study, name) == ("pcqc", {"rl.learning_rate": (0.0016, 0.0005)})
    text = path.read_text()
    assert vary(own, "pcqc", ["rl.learning_rate=0.0005"]) == (name, path)
    assert path.read_text() == text
    for runs in (["B"], ["A"]):
        assert vary(own, "pcqc", ["rl.learning_rate=5e-4"], runs=runs) == (name, path)
        assert load_study(own).method(name).runs == ("A", "B")
    with pytest.raises(UserError, match="has a method 'pcqc_learning_rate_0_0005' already"):
        vary(own, "pcqc", ["beta=0.5"], name=name)


def test_settings_of_the_method_and_of_its_tree_vary_too(own):
    vary(own, "pcqc", ["beta=0.5", "updates=10"], name="weak", runs=["A", "B"])
    vary(own, "atpo", ["tree.budget=32"])
    study = load_study(own)
    assert (study.method("weak").beta, study.method("weak").updates) == (0.5, 10)
    assert study.method("weak").runs == ("A", "B")
    assert study.method("atpo_budget_32").tree.budget == 32
    assert parent(study, "weak")[0] == "pcqc"
    assert parent(study, "atpo_budget_32") == ("atpo", {"tree.budget": (16, 32)})


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("pcqc", "rl.lerning_rate=1", r"rl.lerning_rate: unknown setting; did you mean 'le"),
        ("pcqc", "rl.learning_rate=0", r"rl.learning_rate: must be greater than 0, not 0"),
        ("pcqc", "rl.learning_rate=0.0016", "pcqc has these values already"),
        ("pcqc", "bta=1", r"bta_1.bta: unknown setting; did you mean 'beta'"),
        ("pcqc", "rl.learning_rate=fast", r"fast: pcqc_.*rl.learning_rate: must be a valid number"),
        ("pcqc", "learning_rate=1", "unknown setting; did you mean 'rl.learning_rate'"),
        ("PCQC", "beta=2", "did you mean 'pcqc'"),
        ("pcqc", "title=Mine", "--set title: cannot be varied"),
        ("pcqc", "like=grpo", "--set like: cannot be varied"),
        ("pcqc", "beta", "--set beta: write it as setting=value"),
        ("pqcq", "beta=2", "no method 'pqcq' in study 'mine'; did you mean 'pcqc'"),
        ("shared_sft", "beta=2", "shared_sft has no runs of reinforcement learning to vary"),
        ("atpo_u1", "tree.budget=8", "atpo_u1 is a variation itself"),
    ],
)
def test_what_cannot_be_varied_is_refused_and_nothing_recorded(
    own, tmp_path, method, change, message
):
    with pytest.raises(UserError, match=message):
        vary(own, method, [change])
    assert not list(tmp_path.glob("variations/*"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("grpo", "the study has a method 'grpo' already"),
        ("all", "the name of a rule of the workflow"),
        ("a b", "made of letters"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_the_record_stays(own, name, message):
    _, path = vary(own, "pcqc", ["beta=0.5"])
    before = path.read_bytes()
    with pytest.raises(UserError, match=message):
        vary(own, "pcqc", ["beta=0.25"], name=name)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        ["beta=1", "beta=2"],
        ["rl=3", "rl.learning_rate=1e-4"],
        ["rl.learning_rate=1e-4", 'rl={"weight_decay": 0.5}'],
    ],
)
def test_a_setting_that_is_given_twice_is_refused(own, changes):
    with pytest.raises(UserError, match=r"--set [\w.]+: is set twice"):
        vary(own, "pcqc", changes)


def test_a_record_whose_entries_were_all_removed_is_none(own):
    _, path = vary(own, "pcqc", ["beta=0.5"])
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    assert "pcqc_beta_0_5" not in load_study(own).methods
    assert vary(own, "pcqc", ["beta=0.5"])[0] in load_study(own).methods


def test_a_variation_that_lost_its_title_is_named_with_its_own_line(own):
    name, path = vary(own, "pcqc", ["beta=0.5"])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "title:" not in line))
    line = lines.index(f"{name}:\n") + 1
    with pytest.raises(UserError, match=rf"^{path}:{line}: {name}.title: the title of 'pcqc' too"):
        load_study(own)


def test_the_command_says_how_to_make_it(own, capsys):
    assert main(["vary", "pcqc", "--set", "beta=0.5", "--study", own]) == 0
    assert capsys.readouterr().out.endswith(
        f"snakemake --cores all pcqc_beta_0_5 --config study={own}\n"
    )


def test_make_results_makes_a_variation_and_shows_it(own, tmp_path):
    """`pcqc` and `snakemake` are stand-ins that say how they were called."""
    called = tmp_path / ".venv" / "bin"
    called.mkdir(parents=True)
    for name, prints in (("pcqc", "pcqc_beta_0_5 is recorded"), ("snakemake", "")):
        script = f"#!/bin/sh\necho {name} $* >> {tmp_path}/calls\necho {prints}\n"
        (called / name).write_text(script)
        (called / name).chmod(0o755)
    given = ["SET=pcqc.beta=0.5 pcqc.rl.learning_rate=0.001", "CORES=2", "STUDY=mine"]
    command = ["make", "-f", str(ROOT / "Makefile"), "-o", "env", "results", *given]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "pcqc vary pcqc --study mine --set beta=0.5 --set rl.learning_rate=0.001",
        "snakemake --cores 2 pcqc_beta_0_5 pcqc --config study=mine",
        "pcqc answer mine pcqc_beta_0_5 pcqc",
    ]
