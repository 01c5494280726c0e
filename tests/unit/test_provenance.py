"""Fingerprints follow what the source means; folders of weights are whole or refused."""

import importlib.metadata
import platform
from dataclasses import replace

import pytest
from safetensors import SafetensorError

from pcqc.errors import UserError
from pcqc.models.folder import (
    MANIFEST,
    check_folder,
    load_model,
    load_tokenizer,
    save_folder,
    settle,
)
from pcqc.study import load_study, provenance
from pcqc.study.provenance import (
    MadeFrom,
    job_settings,
    made_from,
    module_digests,
    run_settings,
    source_fingerprint,
)
from pcqc.system.files import sha256_file

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
    monkeypatch.setattr(provenance, "_PACKAGES", {"toy": folder})

    def fingerprints():
        provenance._file.cache_clear()
        provenance._read.cache_clear()
        return {name: source_fingerprint(f"toy.{name}") for name in "abc"}

    yield folder, fingerprints
    provenance._file.cache_clear()
    provenance._read.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changed"), [("a", "a"), ("b", "ab"), ("c", "c"), ("__init__", "abc")]
)
def test_an_edit_changes_the_fingerprint_of_what_needs_it(package, edited, changed):
    folder, fingerprints = package
    before = fingerprints()
    assert before == fingerprints()
    path = folder / f"{edited}.py"
    path.write_text(path.read_text() + "EDITED = 1\n")
    after = fingerprints()
    assert {name for name in "abc" if before[name] != after[name]} == set(changed)


@pytest.mark.parametrize("kind", SAME)
def test_what_does_not_change_the_meaning_does_not_change_the_fingerprint(package, kind):
    folder, fingerprints = package
    before = fingerprints()
    (folder / "c.py").write_text(SAME[kind])
    assert SAME[kind] != PLAIN
    assert fingerprints() == before


@pytest.mark.parametrize("kind", OTHER)
def test_what_changes_the_meaning_changes_the_fingerprint(package, kind):
    folder, fingerprints = package
    before = fingerprints()
    (folder / "c.py").write_text(OTHER[kind])
    assert OTHER[kind] != PLAIN
    assert fingerprints()["c"] != before["c"]


def test_changes_are_named_by_setting_module_and_input():
    then = MadeFrom({"rl": {"rate": 0.1, "old": 1}}, {"m": "1", "gone": "2"}, {"x": "3"})
    now = MadeFrom({"rl": {"rate": 0.2, "old": 1}}, {"m": "0", "new": "2"}, {"x": "4"})
    assert then.changes(then) == []
    assert then.changes(now) == [
        "setting rl.rate: 0.1 -> 0.2",
        "module gone is no longer read",
        "module m changed",
        "module new is new",
        "input x changed",
    ]


def test_jobs_do_not_depend_on_the_analysis():
    """An edited table must not retrain anything."""
    found = module_digests("pcqc.jobs.rl_loop", "pcqc.jobs.evaluate", "pcqc.jobs.sft")
    assert {"pcqc.jobs.rl_loop", "pcqc.consultation", "pcqc.training.policy"} <= found.keys()
    assert not any(f"{m}.".startswith(("analysis.", "data_prep.", "pcqc.cli.")) for m in found)


def test_a_run_is_made_from_the_modules_that_it_enters():
    study = load_study("clinic")
    atpo, turns = "pcqc.methods.atpo.tree", "pcqc.methods.turn_credit"
    entered = {
        "grpo": set(),
        "atpo": {atpo},
        "pcqc": {"pcqc.methods.pcqc"},
        "gigpo": {turns, "pcqc.methods.peer_credit"},
        "c3": {"pcqc.methods.pcqc", "pcqc.methods.peer_credit"},
        "expected_answer": {
            "pcqc.methods.pcqc",
            "pcqc.methods.peer_credit",
            "pcqc.clinic.expected",
        },
    }
    every = set().union(*entered.values())
    for method, own in entered.items():
        found = made_from(study, "train", method, "A").modules
        assert {"pcqc.jobs.rl_loop", "pcqc.methods.base", "pcqc.methods.sequences"} <= found.keys()
        assert every & found.keys() == own, method


def test_the_number_format_of_a_frozen_role_is_a_setting_of_the_jobs_that_ask_it():
    study = load_study("real")
    scorer = replace(study.models.scorer or study.models.actor, dtype="float32")
    other = replace(study, models=replace(study.models, scorer=scorer))
    assert study.dtype("scorer") != other.dtype("scorer") == "float32"
    assert run_settings(study, "pcqc", "A") != run_settings(other, "pcqc", "A")
    assert job_settings(study, "continuation") != job_settings(other, "continuation")
    assert job_settings(study, "evaluate") == job_settings(other, "evaluate")


def test_inputs_are_told_apart_by_content(tmp_path):
    study, path = load_study("clinic"), tmp_path / "a"
    path.write_text("x")
    before = made_from(study, "sft", inputs=[path])
    path.write_text("y")
    after = made_from(study, "sft", inputs=[path])
    assert before.recipe == after.recipe
    assert before.fingerprint != after.fingerprint


def write_two(folder):
    (folder / "one.txt").write_text("1")
    (folder / "sub").mkdir()
    (folder / "sub" / "two.txt").write_text("2")


def test_a_folder_is_written_whole_and_checked(tmp_path):
    path = tmp_path / "model"
    digest = save_folder(path, write_two, {"step": 3})
    manifest = check_folder(path)
    assert manifest["step"] == 3
    assert set(manifest["files"]) == {"one.txt", "sub/two.txt"}
    assert save_folder(path, write_two, {"step": 3}) == digest
    (path / "sub" / "two.txt").write_text("3")
    with pytest.raises(UserError, match=r"sub/two.txt: corrupted \(its digest differs\)"):
        check_folder(path)
    (path / "sub" / "two.txt").unlink()
    with pytest.raises(UserError, match=r"sub/two.txt: missing"):
        check_folder(path)


def test_files_that_were_settled_are_not_hashed_again(tmp_path, monkeypatch):
    hashed = []

    def count(path):
        hashed.append(path.name)
        return sha256_file(path)

    def write(folder):
        write_two(folder)
        return settle(folder, [folder / "sub" / "two.txt"])

    monkeypatch.setattr("pcqc.models.folder.sha256_file", count)
    digest = save_folder(tmp_path / "one", write)
    assert sorted(hashed) == [MANIFEST, "one.txt", "two.txt"]
    assert save_folder(tmp_path / "other", write_two) == digest
    check_folder(tmp_path / "one")


@pytest.mark.parametrize(
    "problem",
    [
        OSError(28, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left (os error 28)"),
    ],
)
def test_a_failed_write_leaves_the_old_folder(tmp_path, problem):
    path = tmp_path / "model"
    save_folder(path, write_two)

    def fail(folder):
        (folder / "half").write_text("x")
        raise problem

    with pytest.raises(UserError, match=r"cannot write .*model: No space left .* free some space"):
        save_folder(path, fail)
    check_folder(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_fault_of_the_program_keeps_its_name_and_leaves_the_old_folder(tmp_path):
    path = tmp_path / "model"
    save_folder(path, write_two)
    with pytest.raises(ZeroDivisionError):
        save_folder(path, lambda folder: 1 / 0)
    check_folder(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_missing_models_are_named(tmp_path):
    with pytest.raises(UserError, match="none: no weights"):
        load_model(tmp_path / "none")
    with pytest.raises(UserError, match="none: no model"):
        load_tokenizer(tmp_path / "none")


def test_a_manifest_says_on_which_machine_it_was_made():
    found = provenance.heading(load_study("clinic"), "pcqc", "A", 1, "0")["machine"]
    assert found["host"] == platform.node()
    assert found["torch"] == importlib.metadata.version("torch")
    assert found["processor"]
