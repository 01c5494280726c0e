import errno
import json
from contextlib import closing

import pytest

from pcqc.jobs.run_files import RunRecord
from pcqc_base.errors import UserError
from pcqc_base.system.files import sha256_file


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, updates):
    with closing(RunRecord(path)) as record:
        for update in updates:
            record.append({"kind": "update", "update": update, "reward/mean": 0.25 * update})


def test_a_resumed_record_has_the_bytes_of_an_uninterrupted_one(tmp_path):
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    write(whole, range(1, 9))
    write(broken, range(1, 5))
    saved = broken.stat().st_size
    write(broken, range(5, 7))
    with broken.open("ab") as file:
        file.write(b'{"kind": "update", "upda')
    with closing(RunRecord(broken, keep_bytes=saved)) as record:
        for update in range(5, 9):
            record.append({"kind": "update", "update": update, "reward/mean": 0.25 * update})
    assert broken.read_bytes() == whole.read_bytes()
    size, sha256 = whole.stat().st_size, sha256_file(whole)
    assert record_of(broken) == {"bytes": size, "sha256": sha256}


def record_of(path):
    with closing(RunRecord(path)) as record:
        return record.written


class FullDisk:
    """A raw file that takes `room` more bytes and then reports a full disk."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(data[: self.room])
        self.room -= written
        return written

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_full_disk_leaves_whole_rows(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, [1])
    record = RunRecord(path)
    record._file = FullDisk(record._file, room=5)
    with pytest.raises(UserError, match="No space left"):
        record.append({"kind": "update", "update": 2})
    assert [row["update"] for row in rows(path)] == [1]
    record._file.room = 1000
    record.append({"kind": "update", "update": 2})
    assert [row["update"] for row in rows(path)] == [1, 2]
