"""Strict settings: what is wrong is named in one line, with file, line and remedy."""

import copy
import dataclasses
import re
import typing

import pytest
import yaml
from annotated_types import Ge, Gt, Le

from clinic_env.world import COMPLAINTS, FINDINGS
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.job_kinds import KINDS
from pcqc_study.study_file import Study, load_study, report_to, tracking_uri
from pcqc_study.study_file.consistency import TARGETS

STUDIES = sorted(path.stem for path in (ROOT / "config" / "studies").glob("*.yaml"))
TEXT = {name: (ROOT / f"config/studies/{name}.yaml").read_text() for name in STUDIES}
RAW = "raw value"  # replaced in the file's text by YAML that a dump would not write
GONE = object()
COMPILED = {"placement.learner.compile": True, "placement.learner.zero": 1}


@pytest.fixture
def write(tmp_path):
    """Write a study's settings with changes, setting -> value (GONE removes it)."""

    def write_changed(changes, study="clinic", raw=None):
        data = yaml.safe_load(TEXT[study])
        for path, value in changes.items():
            *groups, last = path.split(".")
            group = data
            for name in groups:
                group = group.setdefault(name, {})
            if value is GONE:
                del group[last]
            else:
                group[last] = copy.deepcopy(value)  # an object met twice is dumped as an alias
        path = tmp_path / "small.yaml"
        text = yaml.safe_dump(data, sort_keys=False)
        path.write_text(text.replace(RAW, raw) if raw else text)
        return path

    return write_changed


@pytest.fixture
def load(write):
    return lambda changes={}, **kind: load_study(write(changes, **kind))


# Setting, its value as YAML (- removes it), and words of the error. Each kind of bound, type and
# choice that pydantic checks has one row.
WRONG = """
titel | x | unknown setting; did you mean 'title'?
zzz | 1 | unknown setting; known are
name | other | unknown setting; a study is named by its file
rl.cases_per_updat | 4 | unknown setting; did you mean 'cases_per_update'?
methods.pcqc.bta | 1.0 | unknown setting; did you mean 'beta'?
methods.pcqcc | {} | unknown method; did you mean 'pcqc'?
rl.learning_rate | - | missing; add it
benchmarks.clinic_dev.cases | - | missing; add it
clinic | - | synthetic: needs 'clinic', and either 'models' or 'scratch_model'
synthetic | false | synthetic: false needs the settings 'data' and 'models'
title | 3 | must be a valid string, not 3
title | "a\\nb" | must be one line of text, not empty
methods.grpo.title | PCQC | the title of 'grpo' too; give each its own
benchmarks.clinic_wide.title | Clinic-Dev | the title of 'clinic_dev' too
synthetic | 1 | must be true or false, not 1
rl | [1] | must be a group of settings, not [1]
methods | [1] | must be a group of methods
methods.pcqc | null | must be a group of settings, not None
methods.atpo_u1.like | atpo_u2 | must name a method that is like no other, not 'atpo_u2'
runs | {} | no run 'A'
runs | {"a\\nb": 1} | must be made of letters
runs | {NO: 1} | the name False is not a string; put it in quotes
runs | {A: 1, A: 2} | duplicate key 'A'; keep one
runs | {A: 1, B: 2, C: 1} | the same seed as run 'A'; give each its own
benchmarks | {$(touch x): {}} | must be made of letters
benchmarks.train | {title: T, role: held_out, cases: 3} | the name of another file or row
benchmarks.train-1 | {title: T, role: held_out, cases: 3} | the name of another file or row
benchmarks.clinic_dev.role | train | must be 'development', 'held_out' or 'independent_source'
benchmarks.clinic_dev.role | held_out | exactly one must have the role 'development'
benchmarks.clinic_dev.cases | 0 | must be greater than or equal to 1, not 0
benchmarks.clinic_dev.cases | 1000000000000 | must be less than or equal to 1000000
benchmarks.clinic_dev.options | [] | must be a list of at least one, not []
benchmarks.clinic_dev.options | 4 | must be a list, not 4
benchmarks.clinic_dev.options | [9] | must be less than or equal to 8, not 9
benchmarks.clinic_dev.raw | {file: x.csv} | a synthetic study invents its cases; remove 'raw'
data | {training: [{file: x}]} | a synthetic study does not use it; remove it
protocol.response_tokens | 1 | exceeds protocol.response_tokens; lower it
actor_decoding.max_tokens | 7 | must equal protocol.action_tokens
actor_decoding.top_p | 0 | must be greater than 0, not 0
sft.patient_epochs | 9 | exceeds sft.epochs; lower it
sft.batch_size | 5000 | exceeds clinic.sft_conversations; lower it
sft.learning_rate | 1e-6 | must be a valid number, not '1e-6'; write 1.0e-6
rl.clip | 2.5E6 | must be a valid number, not '2.5E6'; write 2.5e+6
rl.clip | .inf | must be a finite number, not inf
rl.cases_per_update | 8.0 | must be a valid integer, not 8.0
rl.cases_per_update | 5000 | exceeds clinic.training_cases; lower it
rl.cases_per_update | 2024-13-45 | must be a valid integer, not '2024-13-45'
rl.cases_per_update | !!int abc | 'abc' cannot be read as int
rl.cases_per_update | !!python/name:os.system | is not for settings; remove it
clinic.noise | 1.5 | must be less than 0.5, not 1.5
clinic.sft_questions | [1, 17] | there are fewer findings to ask about; lower them
placement | {device: CPU, learner: {devices: [0], zero: 4}} | must be 1, 2 or 3, not 4
servers | {patient: {url: 127.0.0.1}} | must be an address such as http://127.0.0.1:8000
servers | {patient: {url: "http://u:secret@h"}} | without user, password or query
servers | {patient: {url: "http://h?token=secret"}} | without user, password or query
tracking.uri | 'sqlite:///results/' | must be sqlite:///FILE
tracking.uri | postgresql://u:secret@h/db | without user, password or query
tracking.uri | https://u:secret@h | MLFLOW_TRACKING_USERNAME
tracking.report_to | [wandb, trackoi] | no tracker 'trackoi'; did you mean 'trackio'?
tracking.report_to | wandb | must be a list, not 'wandb'
tracking.report_too | [wandb] | unknown setting; did you mean 'report_to'?
also_evaluate | {pcqcc: [30]} | no method 'pcqcc'; did you mean 'pcqc'?
also_evaluate | {pcqc: [7]} | no checkpoint at update 7; they are every rl.checkpoint_every (12)
also_evaluate | {pcqc: [45]} | no checkpoint at update 45
also_evaluate | {shared_sft: [15]} | no checkpoint at update 15
also_evaluate | {pcqc: [15, 15]} | an update twice; name each once
continuation.method | pcqcc | no method 'pcqcc'; did you mean 'pcqc'?
continuation.early | 3 | no checkpoint at update 3; they are every rl.checkpoint_every
continuation.run | Z | method 'pcqc' has no run 'Z'; give it that run, or name one that it has
methods.grpo.runs | [Q] | no run 'Q'
methods.grpo.runs | [A, A] | a run twice; name each once
methods.grpo.runs | ["Q\\x1b[2J"] | no run 'Q\\x1b[2J'
methods.pcqc.question_group | 1 | must be greater than or equal to 2, not 1
methods.pcqc.method | pcqcc | No module named 'pcqc.methods.pcqcc'); did you mean 'pcqc'?
methods.pcqc.method | 3 | must name a module of pcqc.methods
methods.grpo.supervise | executed | unknown setting
methods.executed_local.supervise | all | must be 'executed', not 'all'
methods.igpo.turn_credit | gipo | 'gigpo' or 'mt_grpo', not 'gipo'
methods.igpo.continuations | 2 | continuations are for turn_credit: vineppo
methods.gigpo.belief | actor | belief is for turn_credit: igpo, tips, mt_grpo
methods.grpo.rl | {learning_rat: 1.0} | unknown setting; did you mean 'learning_rate'?
methods.grpo.rl | {cases_per_update: 5000} | exceeds clinic.training_cases; lower it
"""
TABLE = [tuple(part.strip() for part in line.split(" | ")) for line in WRONG.strip().splitlines()]


@pytest.mark.parametrize(("setting", "value", "words"), TABLE, ids=lambda part: part[:24])
def test_a_wrong_setting_is_one_line_with_file_line_and_remedy(write, setting, value, words):
    path = write({setting: GONE if value == "-" else RAW}, raw=value)
    with pytest.raises(UserError) as refused:
        load_study(path)
    message = str(refused.value)
    assert words in message
    assert message.isprintable()
    assert "secret" not in message.replace("secrets", "")
    file, line, place = re.fullmatch(r"(.+\.yaml):(\d+): (?:([\w.\[\]-]+): )?.+", message).groups()
    assert file in (str(path), "config/methods.yaml")
    text = (path if file == str(path) else ROOT / file).read_text().splitlines()[int(line) - 1]
    names = re.findall(r"[^.\[\]]+", place or "") + setting.split(".")
    assert line == "1" or any(name in text for name in names)


def test_a_methods_error_names_the_file_in_which_the_setting_stands(load):
    """Where the study sets it, and else in the file of all methods."""
    with pytest.raises(UserError, match=r"small.yaml:\d+: methods.vineppo: continuations are for"):
        load({"methods.vineppo.continuations": 0})
    with pytest.raises(UserError, match=r"config/methods.yaml:\d+: shared_sft.runs: no run 'A'"):
        load({"runs": {"Q": 1}})


def test_a_local_model_whose_configuration_names_no_architecture_is_refused(load, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": ["qwen3"]}')
    with pytest.raises(UserError, match=f"{config}: model_type: .*; name another model"):
        load({"models.actor": {"source": str(tmp_path)}})


def test_a_local_tokenizer_without_a_word_for_unknown_ones_is_refused(load, tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text('{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}}')
    with pytest.raises(UserError, match=f"{tokenizer}: no word stands for unknown ones; name"):
        load({"models.actor": {"source": str(tmp_path)}})


def test_what_the_continuation_starts_from_has_a_run(load):
    with pytest.raises(UserError, match="'shared_sft' has no runs; give it one, or set reference"):
        load({"methods.shared_sft.runs": [], "continuation.reference": "shared_sft"})


def test_a_study_is_named_by_its_file(load, tmp_path):
    study = load()
    assert study.name == "small"
    assert study.results.parts == ("results", "small")
    assert study.benchmarks[study.development].role == "development"
    (tmp_path / "small.yaml").rename(tmp_path / "d$(touch x).yaml")
    with pytest.raises(UserError, match="name: must be made of letters, digits"):
        load_study(tmp_path / "d$(touch x).yaml")


def test_settings_that_only_a_real_study_has_are_checked(load):
    for changes, words in (
        ({"rl.cases_per_update": 99999}, "rl.cases_per_update: exceeds data.training_cases"),
        ({"benchmarks.medqa.raw": GONE}, "benchmarks.medqa.raw: missing; add it"),
        ({"clinic": yaml.safe_load(TEXT["clinic"])["clinic"]}, "clinic: a study of real cases"),
        ({"models": GONE}, "synthetic: false needs the settings 'data' and 'models'"),
        ({"models.doctor": {}}, "models.doctor: unknown setting; did you mean 'actor'?"),
        ({"models.actor.gguf": "x"}, "models.actor: 'revision' is of a repository and 'gguf'"),
        ({"data.training": []}, "data.training: must be a list of at least one"),
        ({"engine.process": "learner"}, "'learner' leaves vLLM in a process that DeepSpeed ends"),
        ({"placement.learner.compile": True}, "compile: gradients are added up in order at ZeRO 1"),
        ({**COMPILED, "placement.deterministic": True}, "compile: a resumed run may get other"),
        (
            {**COMPILED, "engine.kind": "transformers"},
            "compile: the engine computes with the learn",
        ),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            load(changes, study="paper")


def test_a_methods_own_checkpoints_are_those_that_can_be_evaluated(load):
    own = {"methods.pcqc.rl": {"checkpoint_every": 7}}
    assert load({**own, "also_evaluate": {"pcqc": [7]}}).also_evaluate == {"pcqc": (7,)}
    with pytest.raises(UserError, match=r"at update 6; they are every rl.checkpoint_every \(7\)"):
        load({**own, "also_evaluate": {"pcqc": [6]}})


def test_one_run_is_common_to_all_that_are_compared(load):
    compared = [
        name
        for name, method in load().methods.items()
        if method.kind == "rl" and not method.on_demand
    ]

    def runs(**given):
        lettered = {method: ["A", "B", "C"] for method in compared} | given
        changes = {f"methods.{method}.runs": letters for method, letters in lettered.items()}
        return load(changes, study="clinic-full-2")

    assert runs().common_runs == ["A", "B", "C"]
    assert runs(terminal_only=["C", "B"], atpo_u1=["A"]).common_runs == ["B", "C"]
    assert runs(terminal_only=[]).common_runs == ["A", "B", "C"]
    with pytest.raises(UserError, match="no run is common to all methods that have any"):
        runs(grpo=["B"], terminal_only=["A"])
    with pytest.raises(UserError, match="none has runs, except for ablations"):
        runs(**{name: [] for name in [*compared, "shared_sft"]})


def test_names_and_sizes_that_others_fix_are_the_settings_too():
    """Names of the clinic's diseases, findings and complaints; rules of the workflow."""
    bounds = typing.get_type_hints(Study, include_extras=True)["clinic"].__args__[0]
    hints = typing.get_type_hints(bounds, include_extras=True)
    most = {n: hints[n].__metadata__[0].metadata[-1].le for n in ("diseases", "complaints")}
    assert most == {"diseases": len(FINDINGS), "complaints": len(COMPLAINTS)}
    files = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    named = {r for file in files for r in re.findall(r"^ *rule (\w+):", file.read_text(), re.M)}
    assert named == {*TARGETS, *(each.rule or kind for kind, each in KINDS.items())}


def test_a_study_on_gpus_is_one_that_its_placement_puts_there():
    """`real-smoke-gpu` is a test of the path, which needs none where nothing is placed."""
    names = ("clinic", "clinic-mini-engines", "own-cases", "real-smoke", "real-smoke-gpu", "real")
    assert [load_study(n).on_gpus for n in names] == [False, False, False, False, True, True]


def test_an_override_changes_one_setting_of_one_method(load):
    changed, before = load({"methods": {"pcqc": {"beta": 0.5}}}), load({"methods": GONE})
    assert changed.methods["pcqc"].beta == 0.5
    assert changed.methods["pcqc"].question_group == before.methods["pcqc"].question_group
    assert changed.methods["same_state_q1"] == before.methods["same_state_q1"]


def test_an_update_that_a_run_may_not_reach_is_not_evaluated_further(load):
    """PCQC and what is like it may level off by a setting of their own, at update 12 soonest."""
    settings = {"updates": 18, "rl": {"level_after": 1}}
    own = {"also_evaluate": {"grpo": [6], "pcqc": [12]}, "methods": {"pcqc": settings}}
    own |= {"rl.checkpoint_every": 6}
    study = load(own)
    may = {name for name, m in study.methods.items() if study.may_level_off(m)}
    assert may == {"pcqc", "c3", "expected_answer"}  # which are like it
    with pytest.raises(UserError, match="a run that levels off may end before"):
        load(own | {"also_evaluate": {"pcqc": [18]}})


def test_the_environment_names_the_tracking_store(load, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(load()) == "sqlite:///results/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri(load()) == "http://127.0.0.1:5000"


def test_the_environment_names_the_trackers(load, monkeypatch):
    monkeypatch.delenv("PCQC_REPORT_TO", raising=False)
    assert report_to(load()) == []
    study = load({"tracking.report_to": ["wandb", "trackio"]})
    assert report_to(study) == ["wandb", "trackio"]
    for given, names in (("tensorboard", ["tensorboard"]), ("wandb, wandb", ["wandb"]), ("", [])):
        monkeypatch.setenv("PCQC_REPORT_TO", given)
        assert report_to(study) == names
    monkeypatch.setenv("PCQC_REPORT_TO", "wandbb")
    with pytest.raises(
        UserError, match="PCQC_REPORT_TO: no tracker 'wandbb'; did you mean 'wandb'"
    ):
        report_to(study)


def numbers(hint, path):
    """(path, whether it has a bound) of every number below a type of settings."""
    if hint in (int, float):
        yield path, False
    elif typing.get_origin(hint) is typing.Annotated:
        bounds = [bound for info in hint.__metadata__ for bound in getattr(info, "metadata", ())]
        bounded = any(isinstance(bound, Ge | Gt | Le) for bound in bounds)
        yield from ((place, bounded or own) for place, own in numbers(hint.__origin__, path))
    elif dataclasses.is_dataclass(hint):
        for name, inner in typing.get_type_hints(hint, include_extras=True).items():
            yield from numbers(inner, f"{path}.{name}")
    else:
        for inner in typing.get_args(hint):
            yield from numbers(inner, path)


def test_every_number_among_the_settings_has_a_range():
    """But for seeds and rewards; a method's own `rl` is checked as the study's is."""
    methods = {type(m) for name in STUDIES for m in load_study(name).methods.values()}
    every = [pair for hint in (Study, *methods) for pair in numbers(hint, hint.__name__)]
    assert len(every) > 100
    named = {path for path, bounded in every if not bounded}
    assert [path for path in named if not re.search(r"seed|\.runs$|\.reward_|\.rl$", path)] == []
