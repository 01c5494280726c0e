"""New weights on their way to engines in other processes: written once a node, where they fit."""

import threading
from collections import namedtuple

import pytest
import torch
from helpers import in_processes

from pcqc_base.errors import UserError
from pcqc_base.system.locks import hold
from pcqc_gpu.engines.weight_transfer import by_files

WEIGHTS = [("a", torch.arange(4.0)), ("b", torch.ones(2, 3))]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(by_files, "MEMORY", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("hosts", "written"), [("xx", 1), ("xxyy", 2), ("xyxy", 2)])
def test_one_process_of_a_node_writes_and_all_read(memory, monkeypatch, hosts, written):
    own = threading.local()
    monkeypatch.setattr(by_files.socket, "gethostname", lambda: own.host)

    def work(processes):
        own.host, gathered = hosts[processes.rank], []
        weights = (gathered.append(name) or (name, tensor) for name, tensor in WEIGHTS)
        with by_files.written(weights, processes) as folder:
            tensors = dict(by_files.read(folder))
        # Sharded weights are gathered by all together.
        assert gathered == list(tensors) == ["a", "b"]
        assert all(torch.equal(tensors[name], tensor) for name, tensor in WEIGHTS)
        return folder

    folders = in_processes(len(hosts), work)
    assert len(set(folders)) == written == len(set(zip(hosts, folders, strict=True)))
    assert list(memory.iterdir()) == []


def test_who_tidies_up_while_a_folder_is_made_leaves_it_alone(memory, monkeypatch):
    hold = by_files.hold

    def interrupted(path, what):
        path.touch()
        by_files._remove_leftovers(memory)
        return hold(path, what)

    monkeypatch.setattr(by_files, "hold", interrupted)
    with by_files.written(iter(WEIGHTS)) as folder:
        assert [name for name, _ in by_files.read(folder)] == ["a", "b"]
    assert list(memory.iterdir()) == []


def test_weights_that_do_not_fit_end_in_one_line_and_leave_nothing(memory, monkeypatch):
    monkeypatch.setattr(by_files.shutil, "disk_usage", lambda path: Usage(64, 44, 20))
    with (
        pytest.raises(UserError, match=r"0\.00 GiB free, .* larger --shm-size") as caught,
        by_files.written(iter(WEIGHTS)),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert list(memory.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_a_living_ones_stays(memory):
    left, living = (memory / f"{by_files.PREFIX}{name}" for name in ("left", "living"))
    for folder in (left, living):
        folder.mkdir()
        (folder / by_files.LOCK).touch()
    lock = hold(living / by_files.LOCK, "handing over weights")
    with by_files.written(WEIGHTS) as folder:
        assert {path.name for path in memory.iterdir()} == {living.name, folder.name}
        assert [name for name, _ in by_files.read(folder)] == ["a", "b"]
    assert [path.name for path in memory.iterdir()] == [living.name]
    lock.close()
