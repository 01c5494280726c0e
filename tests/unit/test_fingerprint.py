"""Fingerprints follow what settings and source mean."""

import ast
import dataclasses
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined
from pythons import pythons

from pcqc_base.settings import data as settings_data
from pcqc_base.settings import every_method as settings_method
from pcqc_base.settings import models as settings_models
from pcqc_base.settings import training as settings_training
from pcqc_base.settings.tracking import Tracking
from pcqc_study import source_digests
from pcqc_study.fingerprint import FIRST, Fingerprint, as_json, first_default
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds.runs import rollouts
from pcqc_study.source_digests import module_digests
from pcqc_study.study_file import load_study

PLAIN = """import os
from a import b
from a import c


def f(x):
    for i in range(3):
        x += i
    return x
"""
SAME = {
    "a comment": PLAIN.replace("    return x", "    # done\n    return x  # here"),
    "docstrings": PLAIN.replace("import os", '"""Module."""\nimport os').replace(
        "    for", '    """What it does."""\n    for'
    ),
    "formatting": PLAIN.replace("range(3)", "range(\n        3,\n    )").replace("x += i", "x+=i"),
    "the order of imports": PLAIN.replace("import os\n", "").replace("def", "import os\n\n\ndef"),
    "imports in one line": PLAIN.replace("from a import b\nfrom a import c", "from a import c, b"),
    "where an import stands": PLAIN.replace("import os\n", "").replace(
        "    for", "    import os\n\n    for"
    ),
    "an import for types": PLAIN.replace(
        "\n\n\ndef", "\nif TYPE_CHECKING:\n    from toy.b import g\n\n\ndef"
    ),
}
OTHER = {
    "a constant": PLAIN.replace("range(3)", "range(4)"),
    "a string": PLAIN.replace("return x", "return 'x'"),
    "an import": PLAIN.replace("import b", "import d"),
    "a statement": PLAIN.replace("    return x", "    x -= 1\n    return x"),
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `toy`: a imports b inside a function; c stands alone."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("def f():\n    from toy.b import g\n    return g\n")
    (folder / "b.py").write_text("def g(): pass\n")
    (folder / "c.py").write_text(PLAIN)
    monkeypatch.setattr(source_digests, "_PACKAGES", {"toy": folder})

    def digests():
        forget_source()
        return {name: module_digests(f"toy.{name}") for name in "abc"}

    yield folder, digests
    forget_source()


def forget_source():
    module_digests.cache_clear()
    source_digests._file.cache_clear()
    source_digests._source.cache_clear()
    source_digests._other_packages.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changed"), [("a", "a"), ("b", "ab"), ("c", "c"), ("__init__", "abc")]
)
def test_an_edit_changes_what_reaches_the_module(package, edited, changed):
    folder, digests = package
    before, path = digests(), folder / f"{edited}.py"
    text = path.read_text()
    path.write_text(text + "EDITED = 1\n")
    after = digests()
    assert {name for name in "abc" if before[name] != after[name]} == set(changed)
    path.write_text(text)
    assert digests() == before


@pytest.mark.parametrize("kind", [*SAME, *OTHER])
def test_a_digest_is_of_what_a_module_does(package, kind):
    folder, digests = package
    before = digests()
    (folder / "c.py").write_text((SAME | OTHER)[kind])
    assert (digests() == before) == (kind in SAME)


def test_changes_are_named_by_setting_module_and_input():
    before = Fingerprint(
        "job", {"rl": {"rate": 0.1, "old": 1}}, {"m": "1", "gone": "2"}, {"x": "3"}
    )
    after = Fingerprint("job", {"rl": {"rate": 0.2, "old": 1}}, {"m": "0", "new": "2"}, {"x": "4"})
    assert before.changes(before) == []
    assert before.changes(after) == [
        "setting rl.rate: 0.1 -> 0.2",
        "module gone is no longer read",
        "module m changed",
        "module new is new",
        "input x changed",
    ]


def fingerprints(study) -> dict[str, str]:
    return {job.name: job.fingerprint.short for job in Jobs(study).all()}


def changed(before: dict[str, str], other) -> set[str]:
    """Jobs whose fingerprint is another one in the study `other`."""
    after = fingerprints(other)
    return {name for name in before if before[name] != after[name]}


def shared(study) -> set[str]:
    """Jobs before all trainings."""
    return {job.name for job in Jobs(study).shared()}


def of(method: str, runs: str, *kinds: str) -> set[str]:
    return {f"{kind} {method} {run}" for run in runs for kind in kinds}


END = {"collect", "report", "publish"}
RUN = ("train", "select", "evaluate")


@pytest.fixture(scope="module")
def clinic():
    return load_study("clinic")


def with_method(study, name, **changes):
    methods = {**study.methods, name: replace(study.methods[name], **changes)}
    return replace(study, methods=methods)


def test_a_setting_changes_just_the_jobs_that_are_told_it_and_those_after(clinic):
    grpo = "".join(clinic.method("grpo").runs)
    before = fingerprints(clinic)
    mine = of("grpo", grpo, *RUN) | {"mirror grpo"} | END
    assert changed(before, with_method(clinic, "grpo", kl_coefficient=0.5)) == mine
    assert changed(before, with_method(clinic, "grpo", title="G")) == {"mirror grpo"} | END
    run = with_method(clinic, "grpo", runs=(*clinic.method("grpo").runs, "Z"))
    assert changed(before, replace(run, runs={**clinic.runs, "Z": 99})) == {"mirror grpo"} | END
    clip = replace(clinic, rl=replace(clinic.rl, clip=0.1))
    start = of("shared_sft", "A", "select", "evaluate", "continuation", "grounding")
    assert changed(before, clip) == before.keys() - shared(clinic) - start - {"mirror shared_sft"}
    sampling = replace(clinic, patient_decoding=replace(clinic.patient_decoding, top_p=0.5))
    again = changed(before, sampling)
    assert not again & shared(clinic)
    assert again >= of("shared_sft", "A", "evaluate")
    assert changed(before, replace(clinic, title="Another")) == {"report", "publish"}
    assert changed(before, replace(clinic, name="another")) <= END | {
        f"mirror {name}" for name in clinic.methods
    }


def test_jobs_that_are_told_the_same_have_fingerprints_of_their_own(clinic):
    """Else a folder that was exchanged with the other's would be taken for it."""
    names = list(fingerprints(clinic).values())
    assert len(set(names)) == len(names)


def test_where_a_job_runs_changes_none(clinic):
    placed = load_study("clinic-mini-engines")
    assert placed.placement
    spread = replace(placed.placement, learner=replace(placed.placement.learner, devices=(0, 1, 2)))
    assert changed(fingerprints(placed), replace(placed, placement=spread)) == {"report", "publish"}


def test_who_is_told_of_runs_changes_none(clinic):
    told = replace(clinic, tracking=Tracking(report_to=("wandb",)))
    assert told.to_dict()["tracking"]["report_to"] == ("wandb",)
    assert changed(fingerprints(clinic), told) == set()
    for kind in ("peers", "lost_points_table"):
        assert Jobs(told).job(kind).fingerprint == Jobs(clinic).job(kind).fingerprint


ENTERED = {
    "grpo": set(),
    "atpo": {"turn_credit.tree"},
    "pcqc": {"pcqc.methods.pcqc"},
    # Not what else the package of credits holds: a new credit must not retrain another's runs.
    "gigpo": {"pcqc_peers.turn_credit", "turn_credit.turns"},
    "c3": {"pcqc.methods.pcqc"},
    "expected_answer": {"pcqc.methods.pcqc", "pcqc_clinic.known_world"},
}


@pytest.mark.parametrize("method", ENTERED)
def test_a_run_depends_on_the_modules_that_it_enters(clinic, method):
    modules = Jobs(clinic).job("train", method, "A").fingerprint.modules
    assert {"pcqc.jobs.rl_loop", "pcqc.methods.base", "pcqc.methods.sequences"} <= modules.keys()
    assert set().union(*ENTERED.values()) & modules.keys() == ENTERED[method]
    assert not {"turn_credit", "turn_credit.turns_process"} & modules.keys()
    # An edited table or mirror must not retrain anything.
    outside = (
        "analysis.",
        "data_prep.",
        "pcqc_study.cli.",
        "pcqc_study.mlflow_mirror.write_runs",
        "pcqc_base.settings.",
    )
    assert not any(f"{module}.".startswith(outside) for module in modules)


def test_an_edited_table_makes_the_report_anew_and_nothing_before_it(clinic):
    table = "analysis.tables.main_results"
    jobs = [job for job in Jobs(clinic).all() if table in job.fingerprint.modules]
    assert [job.name for job in jobs] == ["report"]


def test_runs_on_real_cases_do_not_depend_on_the_clinic():
    jobs = Jobs(load_study("real"))
    for kind in ("train", "evaluate", "continuation", "grounding"):
        job = jobs.job(kind, "pcqc", "A")
        modules = module_digests(*job.entries, unused=job.unused)
        assert not [name for name in modules if "clinic" in name]


def test_the_number_format_of_a_frozen_role_is_told_to_the_jobs_that_ask_it():
    study = load_study("real")
    scorer = replace(study.models.scorer or study.models.actor, dtype="float32")
    other = replace(study, models=replace(study.models, scorer=scorer))
    told, told_other = (Jobs(each).job("sft").settings for each in (study, other))
    assert told == told_other
    told, told_other = (rollouts(each) for each in (study, other))
    assert told != told_other


def test_the_table_of_peers_is_another_once_more_is_made(tmp_path, monkeypatch):
    """It may be written early, or from an archive, and must not be taken for the whole later."""
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-full")
    assert Jobs(study).job("peers").inputs == {}
    workflow = Jobs(study, ["peers"]).job("peers").inputs.keys()
    assert {"evaluate shared_sft A", "evaluate pcqc E", "evaluate infopo C"} <= workflow
    assert "evaluate terminal_only A" not in workflow  # no row of the table
    made = Jobs(study).job("evaluate", "infopo", "C")
    made.path.mkdir(parents=True)
    made.manifest.write_text("{}")
    assert list(Jobs(study).job("peers").inputs) == ["evaluate infopo C"]


def first_defaults() -> dict[str, object]:
    """`Group.setting` -> its default when results were first made, of groups that jobs are told."""
    kept = {}
    for module in (settings_data, settings_method, settings_models, settings_training):
        for name, group in vars(module).items():
            if dataclasses.is_dataclass(group) and group.__module__ == module.__name__:
                for field in dataclasses.fields(group):
                    default = first_default(field)
                    if default not in (dataclasses.MISSING, PydanticUndefined):
                        kept[f"{name}.{field.name}"] = default
    return json.loads(json.dumps(kept))


def test_a_default_that_changed_keeps_its_first_value_in_the_field():
    """A setting at its default is in no fingerprint: unsaid, a new default would remake nothing.

    To change one, give the field `metadata={FIRST: OLD}`. A new setting is added to the file.
    """
    path = Path(__file__).with_name("first_defaults.json")
    assert first_defaults() == json.loads(path.read_text())


def test_a_new_default_is_in_the_fingerprint_and_the_first_is_not():
    @dataclasses.dataclass(frozen=True)
    class Group:
        size: int = dataclasses.field(default=3, metadata={FIRST: 2})

    assert as_json(Group(), defaults=False) == {"size": 3}
    assert as_json(Group(size=2), defaults=False) == {}


WRITTEN = """
@cached
def f(a, /, *b, c: int = 1, **d) -> dict[str, int]:
    e, *g = [h async for h in a if h], lambda: {**d, u"i": f"{a!r:>3}"}
    try:
        return a[1:2, ...] @ -b
    except* ValueError as j:
        pass
class K(L, m=2): pass
"""


def test_a_change_of_python_makes_no_result_anew():
    """`ast.dump` itself says other things in 3.12 and 3.13 than in 3.11."""
    if sys.version_info[:2] == (3, 11):
        tree = ast.parse(WRITTEN)
        assert source_digests._Source("")._dump(tree) == ast.dump(tree)
    code = f"""
import sys, types, pathlib
for name in ("", ".settings", ".settings.every_method", ".system", ".system.checkout"):
    module = sys.modules["pcqc_base" + name] = types.ModuleType(name)
    module.GROUP, module.ROOT = "", pathlib.Path({str(source_digests.ROOT)!r})
from source_digests import _Source
print(*(_Source(text).digest for text in (sys.argv[1], pathlib.Path(sys.argv[2]).read_text())))
"""
    path = Path(source_digests.__file__)
    texts = (WRITTEN, path.read_text())
    own = " ".join(source_digests._Source(text).digest for text in texts)
    for version, python in pythons((11, 12, 13, 14)).items():
        command = [python, "-c", code, WRITTEN, str(path)]
        environment = {"PYTHONPATH": str(path.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.stdout == own + "\n", (version, done.stderr)
