"""Resumable state of several processes: each writes its own part, beside the training."""

import errno
import threading
import time
from pathlib import Path

import pytest
import torch
from helpers import in_processes
from safetensors.torch import load_file
from small_runs import killed_at

from pcqc.models import folder as folders
from pcqc.models.folder import check_folder, settle
from pcqc.training import state
from pcqc.training.state import States, load_state
from pcqc_base.errors import UserError


class Shard:
    """What one process saves: a tensor, which training changes in place."""

    def __init__(self, rank: int):
        self.name, self.tensor = f"part-{rank}", torch.zeros(3)

    def files(self) -> dict[str, dict[str, torch.Tensor]]:
        return {self.name: {"tensor": self.tensor.clone()}}

    def read(self, folder: Path) -> None:
        self.tensor = load_file(folder / f"{self.name}.safetensors")["tensor"]


def save(folder: Path, count: int, step: int) -> None:
    """All processes save a state and go on while it is written."""

    def work(own) -> None:
        shard = Shard(own.rank)
        states = States(folder, {"actor": shard}, own)
        shard.tensor += step
        states.save(cursor := {"step": step})
        shard.tensor += 100
        cursor["step"] += 100
        states.finish()

    in_processes(count, work)


def test_each_process_hashes_what_it_wrote(tmp_path, monkeypatch):
    hashed = []

    def noting(folder, files):
        hashed.append([file.name for file in files])
        return settle(folder, files)

    monkeypatch.setattr("pcqc.training.state.settle", noting)
    save(tmp_path, 3, 1)
    assert sorted(hashed) == [[f"part-{rank}.safetensors"] for rank in range(3)]
    manifest = check_folder(tmp_path / "step-000001")
    parts = {f"actor/part-{rank}.safetensors" for rank in range(3)}
    assert set(manifest["files"]) == {"cursor.json", *parts}


def test_a_part_that_another_process_wrote_is_checked_too(tmp_path):
    save(tmp_path, 2, 1)
    save(tmp_path, 2, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]
    part = Shard(1)
    assert load_state(tmp_path, {"actor": part}) == {"step": 2}
    assert part.tensor.tolist() == [2, 2, 2]
    (tmp_path / "step-000002" / "actor" / "part-1.safetensors").write_text("another")
    with pytest.raises(UserError, match=r"part-1\.safetensors: corrupted"):
        load_state(tmp_path, {"actor": part})


def test_a_state_waits_for_the_part_of_every_process(tmp_path, monkeypatch):
    save_file, early = state.save_file, []

    def slow(tensors, path):
        if path.name == "part-1.safetensors":
            time.sleep(0.2)
            early.append((tmp_path / "step-000001").exists())
        save_file(tensors, path)

    monkeypatch.setattr(state, "save_file", slow)
    save(tmp_path, 2, 1)
    assert early == [False]
    parts = {f"actor/part-{rank}.safetensors" for rank in range(2)}
    assert set(check_folder(tmp_path / "step-000001")["files"]) == {"cursor.json", *parts}


STAGES = {
    "before a file": (state, "save_file", False),
    "after a file": (state, "save_file", True),
    "before the digests": (state, "settle", False),
    "before the manifest": (folders, "write_json", False),
    "before the state has its name": (folders.os, "replace", False),
    "after the state has its name": (folders, "sync", False),
    "before the old state goes": (state.shutil, "rmtree", False),
}
# Of these functions' calls, the one whose last path has this name.
OF = {"replace": "step-000002", "sync": "states", "rmtree": "step-000001"}


@pytest.mark.parametrize(("module", "name", "after"), STAGES.values(), ids=STAGES)
def test_a_kill_leaves_the_old_state_or_the_new(tmp_path, module, name, after):
    """And it is not in the way of the next."""
    folder = tmp_path / "states"
    save(folder, 1, 1)

    def is_of_the_state(*arguments) -> bool:
        return name not in OF or Path(arguments[-1]).name == OF[name]

    with killed_at(module, name, is_of_the_state, after=after):
        save(folder, 1, 2)
    part = Shard(0)
    cursor = load_state(folder, {"actor": part})
    assert cursor == {"step": 2 if name in ("sync", "rmtree") else 1}
    assert part.tensor.tolist() == [cursor["step"]] * 3
    save(folder, 1, 2)
    save(folder, 1, 3)
    assert [path.name for path in folder.iterdir()] == ["step-000003"]
    assert load_state(folder, {"actor": part}) == {"step": 3}
    assert part.tensor.tolist() == [3, 3, 3]


def test_training_goes_on_while_a_state_is_written(tmp_path, monkeypatch):
    """A full disk is told at the next state, or at the end; a single process of torch waits."""
    written, goes_on = threading.Event(), threading.Event()

    def slow(*arguments):
        assert goes_on.wait(60)
        written.set()
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(state, "save_file", slow)

    def work(own) -> None:
        states = States(tmp_path, {"actor": Shard(0)}, own)
        states.save({"step": 1})
        assert not written.is_set()
        goes_on.set()
        with pytest.raises(UserError, match="No space left on device"):
            states.save({"step": 2})

    in_processes(1, work)
    with pytest.raises(UserError, match="No space left on device"):
        States(tmp_path, {"actor": Shard(0)}).save({"step": 1})
