"""Whole files or none: pcqc_base.system.files."""

import errno
import fcntl
import os
import shutil
import stat
import threading

import pytest

from pcqc_base.errors import UserError, describe
from pcqc_base.system.files import (
    no_formula,
    read_bytes,
    read_json,
    read_jsonl,
    sha256_file,
    write_atomic,
    write_json,
    write_jsonl,
)
from pcqc_base.system.locks import hold


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_write_atomic_makes_folders_and_writes_text_as_utf8(tmp_path):
    path = tmp_path / "new" / "folder" / "note.txt"
    write_atomic(path, "Fieber, 39 °C")
    assert path.read_bytes() == "Fieber, 39 °C".encode()
    assert names(path.parent) == ["note.txt"]


def test_written_files_follow_the_umask(tmp_path):
    previous = os.umask(0o027)
    try:
        write_atomic(tmp_path / "shared", b"")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("failing", "code", "words"),
    [
        ("fsync", errno.ENOSPC, "No space left.*free some space"),
        ("replace", errno.ENOSPC, "No space left.*free some space"),
        ("replace", errno.EACCES, "Permission denied; make the folder writable"),
    ],
)
def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path, monkeypatch, failing, code, words
):
    path = tmp_path / "predictions.parquet"
    write_atomic(path, b"old")

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UserError, match=rf"predictions\.parquet.*{words}"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["predictions.parquet"]


def test_a_file_where_the_folder_belongs_is_named(tmp_path):
    (tmp_path / "results").write_text("in the way")
    remedy = "a file, or a link to nothing, stands where a folder is needed"
    with pytest.raises(UserError, match=rf"cannot write .*results/table\.csv: .*{remedy}"):
        write_atomic(tmp_path / "results" / "table.csv", b"")


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "table.csv", b"x")
    assert names(tmp_path) == []


def test_json_bytes_depend_on_the_value_alone(tmp_path):
    write_json(tmp_path / "one.json", {"b": [1, 2.5], "a": "ü"})
    write_json(tmp_path / "two.json", {"a": "ü", "b": [1, 2.5]})
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert read_json(tmp_path / "one.json") == {"a": "ü", "b": [1, 2.5]}


def test_not_a_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "metrics.json", {"kl": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_jsonl(tmp_path / "events.jsonl", [{"kl": float("inf")}])
    assert names(tmp_path) == []


def test_broken_json_names_line_and_column(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(UserError, match=r"manifest\.json, line 2 column 7: not JSON"):
        read_json(path)


def test_jsonl_keeps_rows_and_counts_blank_lines(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text('{"a": 1}\n\n{"a": "line\u2028separator"}\n', encoding="utf-8")
    assert list(read_jsonl(path)) == [(1, {"a": 1}), (3, {"a": "line\u2028separator"})]


@pytest.mark.parametrize("text", ["=1+1", "-x", "@a", "+", "\tx", "'", "'=", "plain", "", "'a'"])
def test_no_cell_starts_a_formula_and_its_text_is_kept(text):
    cell = no_formula(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert text in (cell, cell[1:])


def test_unusual_but_valid_json_is_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "\\ud83d\\ude00 NaN 1e999", "b": 1.5E+300}\n')
    assert list(read_jsonl(path)) == [(1, {"a": "\U0001f600 NaN 1e999", "b": 1.5e300})]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"a": 1', "not JSON"),
        (b"[1, 2]", "expected an object {...}, found list"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON (Unexpected UTF-8 BOM"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate key 'b'"),
        (b'{"a": "\\ud83d"}', "lone surrogate"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "a number is too large"),
        (b'{"a": 1' + b"0" * 400 + b".5}", "a number is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number is too large"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path, line, complaint):
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 3}\n')
    rows = read_jsonl(path)
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(UserError) as caught:
        next(rows)
    assert f"{path}, line 2: " in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "read", [read_bytes, sha256_file, read_json, lambda path: list(read_jsonl(path))]
)
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(UserError, match=r"cannot read .*absent\.json: No such.*check the path"):
        read(tmp_path / "absent.json")


def test_a_held_lock_is_refused_or_waited_for(tmp_path):
    lock = tmp_path / "locks" / "job"
    holder = hold(lock, "a job")
    with pytest.raises(UserError, match="a job is already under way"):
        hold(lock, "a job")
    threading.Timer(0.2, holder.close).start()
    hold(lock, "a job", patience=30).close()


def test_what_a_killed_writer_left_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path):
    left, living = (tmp_path / f".out [1].json.{name}.tmp" for name in ("left", "living"))
    other = tmp_path / ".other.json.left.tmp"
    empty = tmp_path / ".out [1].json.empty.tmp"  # killed before its first byte
    for path in (left, living, other):
        path.write_bytes(b"half")
    empty.touch()
    with hold(living, "writing"):
        write_atomic(tmp_path / "out [1].json", b"whole")
    assert {p.name for p in tmp_path.iterdir()} == {"out [1].json", living.name, other.name}


def test_a_writer_whose_empty_file_was_taken_for_a_dead_ones_writes_all_the_same(
    tmp_path, monkeypatch
):
    """Between making its file and locking it a living writer looks as a killed one does."""
    taken, lock = [], fcntl.flock

    def late(file, operation):
        if not taken:  # another writer comes before the first lock
            taken.extend(tmp_path.glob(".table.csv.*.tmp"))
            write_atomic(tmp_path / "table.csv", b"other")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    write_atomic(tmp_path / "table.csv", b"mine")
    assert taken
    assert (tmp_path / "table.csv").read_bytes() == b"mine"
    assert names(tmp_path) == ["table.csv"]


def test_what_a_full_disk_did_to_a_copied_folder_is_one_clause(tmp_path, monkeypatch):
    """`shutil` tells it as a list of files, each with an error's text."""
    for name in ("one", "two"):
        write_atomic(tmp_path / "models" / name, b"weights")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "models/one")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(shutil.Error) as problem:
        shutil.copytree(tmp_path / "models", tmp_path / "copy", copy_function=full)
    assert describe(problem.value) == (
        "No space left on device; free some space on that disk and run again"
    )
    odd = shutil.Error([("a", "b", "`b` is a named pipe")])
    assert describe(odd) == "`b` is a named pipe"
