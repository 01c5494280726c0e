"""Resumable state of several processes: each writes and hashes its own part."""

from pathlib import Path

import pytest
from helpers import in_processes

from pcqc.errors import UserError
from pcqc.models.folder import check_folder, settle
from pcqc.training.state import load_state, save_state


class Shard:
    """What one process saves."""

    def __init__(self, rank: int):
        self.name, self.content = f"part-{rank}.txt", ""

    def write(self, folder: Path) -> list[Path]:
        (folder / self.name).write_text(self.name)
        return [folder / self.name]

    def read(self, folder: Path) -> None:
        self.content = (folder / self.name).read_text()


def save(folder: Path, count: int, step: int) -> None:
    in_processes(
        count, lambda own: save_state(folder, {"actor": Shard(own.rank)}, {"step": step}, own)
    )


def test_each_process_hashes_what_it_wrote(tmp_path, monkeypatch):
    hashed = []

    def noting(folder, files):
        hashed.append([file.name for file in files])
        return settle(folder, files)

    monkeypatch.setattr("pcqc.training.state.settle", noting)
    save(tmp_path, 3, 1)
    assert sorted(hashed) == [[f"part-{rank}.txt"] for rank in range(3)]
    manifest = check_folder(tmp_path / "step-000001")
    parts = {f"actor/part-{rank}.txt" for rank in range(3)}
    assert set(manifest["files"]) == {"cursor.json", *parts}


def test_a_part_that_another_process_wrote_is_checked_too(tmp_path):
    save(tmp_path, 2, 1)
    save(tmp_path, 2, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]
    part = Shard(1)
    assert load_state(tmp_path, {"actor": part}) == {"step": 2}
    assert part.content == part.name
    (tmp_path / "step-000002" / "actor" / "part-1.txt").write_text("another")
    with pytest.raises(UserError, match=r"part-1\.txt: corrupted"):
        load_state(tmp_path, {"actor": part})
