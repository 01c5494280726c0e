"""Strict settings: what is wrong is named, with the nearest thing that would be right."""

import copy
import dataclasses
import math
import typing

import pytest
import yaml

from pcqc.config import ROOT, Study, digest, load_study, tracking_uri
from pcqc.errors import UserError
from pcqc.settings import read_yaml

CLINIC = read_yaml(ROOT / "config" / "studies" / "clinic.yaml")


@pytest.fixture
def load(tmp_path):
    """Load the clinic's settings after `change` (a function of the mapping) has been applied."""

    def load_changed(change=lambda data: None):
        data = copy.deepcopy(CLINIC)
        change(data)
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return load_study(path)

    return load_changed


def setting(path: str, value):
    """A change that puts `value` at `a.b.c`."""

    def change(data):
        *groups, last = path.split(".")
        for group in groups:
            data = data.setdefault(group, {})
        data[last] = value

    return change


def removed(path: str):
    def change(data):
        *groups, last = path.split(".")
        for group in groups:
            data = data[group]
        del data[last]

    return change


def test_a_study_is_named_by_its_file(load, tmp_path):
    study = load()
    assert study.name == "small"
    assert study.results.parts == ("results", "small")
    assert study.benchmarks[study.development].role == "development"
    (tmp_path / "small.yaml").rename(tmp_path / "two words.yaml")
    with pytest.raises(
        UserError, match=r"two words\.yaml: a study's file must be named by letters"
    ):
        load_study(tmp_path / "two words.yaml")


def test_one_run_is_common_to_all_that_are_compared(load):
    def runs(**given):
        return lambda data: [setting(f"methods.{m}.runs", r)(data) for m, r in given.items()]

    assert load().common_runs == ["A", "B", "C"]
    assert load(runs(terminal_only=["C", "B"], atpo_u1=["A"])).common_runs == ["B", "C"]
    assert load(runs(terminal_only=[])).common_runs == ["A", "B", "C"]
    with pytest.raises(UserError, match="no run is common to all that have any"):
        load(runs(grpo=["B"], terminal_only=["A"]))
    compared = [name for name, method in load().methods.items() if method.role != "ablation"]
    with pytest.raises(UserError, match="none has runs, but for ablations"):
        load(runs(**{name: [] for name in compared}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("rl.cases_per_updat", 4), r"rl: unknown setting 'cases_per_updat'; did you mean"),
        (setting("titel", "x"), r"unknown setting 'titel'; did you mean 'title'\?"),
        (setting("zzz", 1), "unknown setting 'zzz'; known are "),
        (removed("rl.learning_rate"), "rl: the setting 'learning_rate' is missing"),
        (removed("runs"), "the setting 'runs' is missing"),
        (setting("rl.cases_per_update", "8"), "rl.cases_per_update: must be a whole number"),
        (setting("rl.cases_per_update", True), "must be a whole number, not True"),
        (setting("rl.cases_per_update", 1.5), "must be a whole number, not 1.5"),
        (
            setting("rl.learning_rate", "1e-3"),
            r"rl.learning_rate: must be a number, not '1e-3'; write 1\.0e-3$",
        ),
        (setting("rl.clip", "2.5E6"), r"must be a number, not '2.5E6'; write 2\.5e\+6$"),
        (setting("rl.clip", "x"), "must be a number, not 'x'$"),
        (setting("synthetic", 1), "synthetic: must be true or false, not 1"),
        (setting("title", 3), "title: must be a text, not 3"),
        (
            lambda data: data.update(
                placement={"device": "CPU", "learner": {"devices": [0]}}, engine={"kind": "vllm"}
            ),
            r"engine\.process: 'learner' leaves vLLM .* set it to 'own'",
        ),
        (setting("rl", [1]), r"rl: must be a group of settings, not \[1\]"),
        (setting("benchmarks", [1]), "benchmarks: must be a group of settings"),
        (setting("clinic.sft_questions", 3), "clinic.sft_questions: must be a list, not 3"),
        (setting("clinic.sft_questions", [1, "x"]), r"sft_questions\[1\]: must be a whole number"),
        (setting("clinic.sft_questions", []), r"must be a list of at least one, not \[\]"),
        (setting("benchmarks.clinic_dev.options", []), "clinic_dev.options: must be a list of at"),
        (setting("runs", {False: 1}), "runs: must be named by texts"),
        (setting("runs", {"a/b": 1}), "small.yaml: runs: must be named by letters.* not 'a/b'"),
        (setting("benchmarks", {"../x": {}}), "benchmarks: must be named by letters"),
        (setting("name", "other"), "unknown setting 'name'"),
        (
            setting("benchmarks.clinic_dev.role", "train"),
            "clinic_dev.role: 'train' is not one of development, held_out, independent_source",
        ),
        (setting("protocol.earlier_thinking", "maybe"), "'maybe' is not one of keep, drop"),
    ],
)
def test_wrong_settings_are_named(load, change, message):
    with pytest.raises(UserError, match=message):
        load(change)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rl.cases_per_update", 0, "must be at least 1, not 0"),
        ("rl.cases_per_update", -4, "must be at least 1, not -4"),
        ("rl.checkpoint_every", 0, "must be at least 1, not 0"),
        ("rl.learning_rate", 0.0, "must be above 0, not 0.0"),
        ("rl.learning_rate", -0.001, "must be above 0, not -0.001"),
        ("rl.learning_rate", math.nan, "must be a finite number, not nan"),
        ("rl.clip", math.inf, "must be a finite number, not inf"),
        ("rl.weight_decay", -0.1, "must be at least 0, not -0.1"),
        ("sft.epochs", 0, "must be at least 1, not 0"),
        ("sft.batch_size", -1, "must be at least 1, not -1"),
        ("protocol.max_turns", 0, "must be at least 1, not 0"),
        ("actor_decoding.temperature", -1.0, "must be at least 0, not -1.0"),
        ("actor_decoding.top_p", 0, "must be above 0 and at most 1, not 0"),
        ("patient_decoding.top_p", 1.2, "must be above 0 and at most 1, not 1.2"),
        ("clinic.noise", 1.5, "must be at least 0 and at most 1, not 1.5"),
        ("benchmarks.clinic_dev.cases", 0, "must be at least 1, not 0"),
        ("engine.batch_size", 0, "must be at least 1, not 0"),
        ("tracking.timeout_seconds", 0, "must be above 0, not 0"),
        ("continuation.candidates", 1, "must be at least 2, not 1"),
        ("methods.pcqc.beta", -1, "must be at least 0, not -1"),
        ("methods.pcqc.terminal_group", 0, "must be at least 1, not 0"),
    ],
)
def test_numbers_out_of_range_are_refused_with_file_and_setting(load, name, value, message):
    with pytest.raises(UserError) as refused:
        load(setting(name, value))
    assert str(refused.value) == f"small.yaml: {name}: {message}"


def test_every_number_among_the_settings_has_a_range():
    """But for rewards and seeds, `runs` among them, which may be any number."""
    unbounded = {path for path, hint in numbers(Study) if hint in (int, float)}
    named = [path for path in unbounded if "seed" not in path and ".reward_" not in path]
    assert named == ["study.runs"]


def numbers(hint, path="study"):
    """Path and annotation of every number below a type of settings."""
    if hint in (int, float) or getattr(hint, "__origin__", None) in (int, float):
        yield path, hint
    elif dataclasses.is_dataclass(hint):
        for name, inner in typing.get_type_hints(hint, include_extras=True).items():
            yield from numbers(inner, f"{path}.{name}")
    else:
        for inner in typing.get_args(hint):
            yield from numbers(inner, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("benchmarks.clinic_dev.role", "held_out"), "exactly one must have the role"),
        (setting("benchmarks.clinic_wide.role", "development"), "exactly one must have the role"),
        (setting("methods.grpo", {"runs": ["Q"]}), "method 'grpo' names the run 'Q'"),
        (removed("clinic"), "needs the settings 'clinic' and 'scratch_model'"),
        (setting("protocol.response_tokens", 1), "action_tokens exceeds"),
        (setting("actor_decoding.max_tokens", 7), "must equal protocol.action_tokens"),
        (setting("sft.patient_epochs", 9), "sft.patient_epochs exceeds sft.epochs"),
        (setting("clinic.typical", 99), "clinic.typical exceeds clinic.findings"),
        (setting("benchmarks.clinic_dev.options", [99]), "options must lie between 2 and"),
        (removed("benchmarks.clinic_dev.cases"), "clinic_dev: the setting 'cases' is missing"),
        (setting("benchmarks.train", CLINIC["benchmarks"]["clinic_wide"]), "'train' is the name"),
        (setting("benchmarks.mean", CLINIC["benchmarks"]["clinic_wide"]), "'mean' is the name of"),
        (setting("runs", {"A": 1, "B": 2, "C": 1}), "runs: A and C have the same seed 1"),
        (setting("methods.grpo", {"runs": ["A", "A"]}), r"'grpo' names a run twice \(A, A\)"),
        (setting("methods.shared_sft", {"runs": []}), "reference: method 'shared_sft' has no runs"),
        (setting("methods.pcqc", {"runs": ["B", "C"]}), "method 'pcqc' has no run 'A'"),
    ],
)
def test_contradictions_are_refused(load, change, message):
    with pytest.raises(UserError, match=message):
        load(change)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"question_group": 1}, "question credit needs question_group >= 2"),
        ({"question_credit": "none"}, "question_credit is none"),
        ({"question_credit": "executed_local"}, "set supervise: executed"),
        ({"bta": 1.0}, "unknown setting 'bta'; did you mean 'beta'"),
        ({"question_credit": "other"}, "'other' is not one of none, same_state, executed_local"),
        ([1], "methods.pcqc: must be a group of settings"),
    ],
)
def test_wrong_methods_are_named(load, entry, message):
    with pytest.raises(UserError, match=message):
        load(setting("methods.pcqc", entry))


def test_an_override_changes_one_setting_of_one_method(load):
    changed, before = load(setting("methods", {"pcqc": {"beta": 0.5}})), load(removed("methods"))
    assert changed.methods["pcqc"].beta == 0.5
    assert changed.methods["pcqc"].question_group == before.methods["pcqc"].question_group
    assert changed.methods["same_state_q1"] == before.methods["same_state_q1"]


def test_unknown_names_come_with_the_nearest(load):
    with pytest.raises(UserError, match="unknown method 'pcqcc'; did you mean 'pcqc'"):
        load(setting("methods", {"pcqcc": {}}))
    with pytest.raises(UserError, match="no method 'gropo' in study 'small'; did you mean 'grpo'"):
        load().method("gropo")
    with pytest.raises(UserError, match="no run 'Z' in study 'small'"):
        load().seed("Z")
    with pytest.raises(UserError, match=r"no study 'clinc' .*did you mean 'clinic'"):
        load_study("clinc")


def test_methods_are_those_of_the_paper(load):
    methods = load(removed("methods")).methods
    assert list(methods)[:4] == ["shared_sft", "grpo", "atpo", "pcqc"]
    tree = methods["atpo"].tree
    assert (tree.budget, tree.candidates, tree.threshold) == (128, 4, 1.2)
    assert (tree.critic_learning_rate, tree.critic_updates) == (1e-5, 4)
    assert (methods["atpo"].kl_coefficient, tree.clip_high) == (0.01, 0.28)
    assert (tree.reward_correct, tree.reward_wrong, tree.reward_none) == (3.0, 0.0, -1.0)
    assert methods["grpo"].terminal_group == 32
    pcqc = methods["pcqc"]
    assert (pcqc.terminal_group, pcqc.question_group, pcqc.beta) == (4, 4, 1.0)
    assert methods["terminal_only"].beta == 0
    assert methods["same_state_q1"].supervise == methods["executed_local"].supervise == "executed"
    assert {m.kl_coefficient for m in methods.values() if not m.tree} == {0.001}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: a\ntitle: b\n", r"doubled.yaml:1: the key 'title' stands twice"),
        ("rl:\n  clip: 1\n  clip: 2\n", "doubled.yaml:2: the key 'clip' stands twice"),
        ("a: [1\nb: 2\n", "doubled.yaml:2"),
        ("- 1\n", "must hold settings"),
        ("", "must hold settings"),
    ],
)
def test_broken_yaml_names_file_and_line(tmp_path, text, message):
    path = tmp_path / "doubled.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_yaml(path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"none.yaml: cannot be read \(No such file"):
        load_study(tmp_path / "none.yaml")


def test_every_setting_moves_the_fingerprint(load):
    before = digest(load().to_dict())
    assert before == digest(load().to_dict())
    assert before != digest(load(setting("rl.clip", 0.3)).to_dict())
    assert before != digest(load(setting("methods.pcqc", {"beta": 0.5})).to_dict())


def test_the_environment_names_the_tracking_store(load, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(load()) == "sqlite:///results/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri(load()) == "http://127.0.0.1:5000"


def test_an_entry_may_be_like_another_but_for_what_it_names(load):
    study = load(setting("methods.atpo", {"updates": 7, "tree": {"budget": 9}}))
    whole, part = study.methods["atpo"], study.methods["atpo_u1"]
    assert (whole.tree.budget, whole.tree.candidates) == (9, 4)
    assert (part.updates, part.runs, part.role) == (7, ("A",), "ablation")
    assert part.tree == dataclasses.replace(whole.tree, variance_weight=0.0)
    with pytest.raises(UserError, match="must name a method like no other"):
        load(setting("methods.atpo_u1", {"like": "atpo_u2"}))
    with pytest.raises(UserError, match="a tree search has no question group"):
        load(setting("methods.atpo", {"question_group": 4}))
