"""Resumable state of several processes: each writes and hashes its own part."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from pcqc.errors import UserError
from pcqc.models.folder import check_folder
from pcqc.system.processes import Processes
from pcqc.training.state import load_state, save_state


@dataclass(frozen=True)
class Threads(Processes):
    """Processes that are threads here; `group` is a barrier and what each gave last."""

    def gather(self, value: Any) -> list[Any]:
        barrier, given = self.group
        given[self.rank].append(value)
        barrier.wait(timeout=60)
        values = [one[-1] for one in given]
        barrier.wait(timeout=60)
        return values


class Shard:
    """What one process saves."""

    def __init__(self, rank: int):
        self.name, self.found = f"part-{rank}.txt", ""

    def write(self, folder: Path) -> list[Path]:
        (folder / self.name).write_text(self.name)
        return [folder / self.name]

    def read(self, folder: Path) -> None:
        self.found = (folder / self.name).read_text()


def saved(folder: Path, count: int, step: int) -> list[list[Any]]:
    """Save a state; what each process gave to the others."""
    given: list[list[Any]] = [[] for _ in range(count)]
    group = (Barrier(count), given)

    def save(rank: int) -> None:
        save_state(folder, {"actor": Shard(rank)}, {"step": step}, Threads(rank, count, group))

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(save, range(count)))
    return given


def test_each_process_hashes_what_it_wrote(tmp_path):
    given = saved(tmp_path, 3, 1)
    for rank, values in enumerate(given):
        assert list(values[-1]) == [f"actor/part-{rank}.txt"]
    manifest = check_folder(tmp_path / "step-000001")
    parts = {f"actor/part-{rank}.txt" for rank in range(3)}
    assert set(manifest["files"]) == {"cursor.json", *parts}


def test_a_part_that_another_process_wrote_is_checked_too(tmp_path):
    saved(tmp_path, 2, 1)
    saved(tmp_path, 2, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]
    part = Shard(1)
    assert load_state(tmp_path, {"actor": part}) == {"step": 2}
    assert part.found == part.name
    (tmp_path / "step-000002" / "actor" / "part-1.txt").write_text("another")
    with pytest.raises(UserError, match=r"part-1\.txt: corrupted"):
        load_state(tmp_path, {"actor": part})
