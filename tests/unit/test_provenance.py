"""Fingerprints follow what is imported; folders of weights are whole or refused."""

from dataclasses import replace

import pytest
from safetensors import SafetensorError

from pcqc import provenance
from pcqc.config import load_study
from pcqc.errors import UserError
from pcqc.models import check_folder, load_model, load_tokenizer, save_folder
from pcqc.provenance import inputs_fingerprint, job_settings, run_settings, source_fingerprint


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `toy`: a imports b inside a function; c stands alone."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("def f():\n    from toy.b import g\n    return g\n")
    (folder / "b.py").write_text("def g(): pass\n")
    (folder / "c.py").write_text("import json\n")
    monkeypatch.setattr(provenance, "_PACKAGES", {"toy": folder})

    def fingerprints():
        provenance._file.cache_clear()
        provenance._imports.cache_clear()
        return {name: source_fingerprint(f"toy.{name}") for name in "abc"}

    yield folder, fingerprints
    provenance._file.cache_clear()
    provenance._imports.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changed"), [("a", "a"), ("b", "ab"), ("c", "c"), ("__init__", "abc")]
)
def test_an_edit_changes_the_fingerprint_of_what_needs_it(package, edited, changed):
    folder, fingerprints = package
    before = fingerprints()
    assert before == fingerprints()
    path = folder / f"{edited}.py"
    path.write_text(path.read_text() + "# edited\n")
    after = fingerprints()
    assert {name for name in "abc" if before[name] != after[name]} == set(changed)


def test_jobs_do_not_depend_on_the_analysis():
    """An edited table must not retrain anything."""
    closure, waiting = set(), ["pcqc.jobs.train", "pcqc.jobs.evaluate", "pcqc.jobs.sft"]
    while waiting:
        module = waiting.pop()
        if module not in closure and provenance._file(module):
            closure.add(module)
            waiting += provenance._imports(module)
    assert "pcqc.credit.question" in closure
    assert "pcqc.training.rl" in closure
    assert not any(m.startswith(("analysis", "data_prep", "pcqc.cli")) for m in closure)


def test_the_number_format_of_a_frozen_role_is_a_setting_of_the_jobs_that_ask_it():
    study = load_study("real")
    scorer = replace(study.models.scorer or study.models.actor, dtype="float16")
    other = replace(study, models=replace(study.models, scorer=scorer))
    assert study.dtype("scorer") != other.dtype("scorer") == "float16"
    assert run_settings(study, "pcqc", "A") != run_settings(other, "pcqc", "A")
    assert job_settings(study, "continuation") != job_settings(other, "continuation")
    assert job_settings(study, "evaluate") == job_settings(other, "evaluate")


def test_inputs_are_told_apart_by_content(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("x")
    b.write_text("y")
    before = inputs_fingerprint([a, b])
    b.write_text("z")
    assert inputs_fingerprint([a, b]) != before


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
    with pytest.raises(UserError, match="none: no weights there"):
        load_model(tmp_path / "none")
    with pytest.raises(UserError, match="none: no model there"):
        load_tokenizer(tmp_path / "none")
