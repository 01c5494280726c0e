"""Folders of weights are whole or refused."""

import pytest
from safetensors import SafetensorError

from pcqc.models.folder import (
    MANIFEST,
    check_folder,
    end_tokens,
    load_model,
    load_tokenizer,
    save_folder,
    settle,
)
from pcqc_base.errors import UserError
from pcqc_base.system.files import sha256_file


@pytest.mark.parametrize(
    ("written", "ends"),
    [
        (None, ()),
        ("{}", ()),
        ('{"eos_token_id": null}', ()),
        ('{"eos_token_id": 2, "top_k": 20}', (2,)),
        ('{"eos_token_id": [128001, 128008, 128009]}', (128001, 128008, 128009)),
    ],
)
def test_the_end_tokens_are_all_of_the_generation_config(tmp_path, written, ends):
    if written:
        (tmp_path / "generation_config.json").write_text(written)
    assert end_tokens(tmp_path) == ends


def test_end_tokens_that_are_no_numbers_are_refused(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": "</s>"}')
    with pytest.raises(UserError, match=r"generation_config.json: eos_token_id.*fetch the model"):
        end_tokens(tmp_path)


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


NO_SPACE = r"cannot write .*model: No space left .* free some space"


@pytest.mark.parametrize(
    ("problem", "told", "words"),
    [
        (OSError(28, "No space left on device"), UserError, NO_SPACE),
        (SafetensorError("I/O error: No space left (os error 28)"), UserError, NO_SPACE),
        (ZeroDivisionError("a fault of the program"), ZeroDivisionError, "a fault"),
    ],
)
def test_a_failed_write_leaves_the_old_folder(tmp_path, problem, told, words):
    path = tmp_path / "model"
    save_folder(path, write_two)

    def fail(folder):
        (folder / "half").write_text("x")
        raise problem

    with pytest.raises(told, match=words):
        save_folder(path, fail)
    check_folder(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_missing_models_are_named(tmp_path):
    with pytest.raises(UserError, match="none: no weights"):
        load_model(tmp_path / "none")
    with pytest.raises(UserError, match="none: no model"):
        load_tokenizer(tmp_path / "none")
