"""New weights on their way to engines in other processes: written once a node, where they fit."""

import threading
from collections import namedtuple

import pytest
import torch

from pcqc.engines import weight_files
from pcqc.errors import UserError
from pcqc.system.files import hold

WEIGHTS = [("a", torch.arange(4.0)), ("b", torch.ones(2, 3))]
Usage = namedtuple("Usage", "total used free")


class Rank:
    """One of several processes, as a thread: `gather` meets the others."""

    def __init__(self, rank, slots, barrier):
        self.rank, self.slots, self.meet = rank, slots, barrier

    def gather(self, value):
        self.slots[self.rank] = value
        self.meet.wait(10)
        found = list(self.slots)
        self.meet.wait(10)
        return found

    def barrier(self):
        self.gather(None)


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files, "MEMORY", tmp_path)
    return tmp_path


def load(processes, hosts, monkeypatch):
    """What each of some processes reads, from which folder, and how often each went through."""
    names = threading.local()
    monkeypatch.setattr(weight_files.socket, "gethostname", lambda: names.host)
    slots, barrier = [None] * processes, threading.Barrier(processes)
    folders, read, passed = ([None] * processes for _ in range(3))

    def work(rank):
        names.host = hosts[rank]
        gone = []
        weights = (gone.append(name) or (name, tensor) for name, tensor in WEIGHTS)
        with weight_files.written(weights, Rank(rank, slots, barrier)) as folder:
            folders[rank], read[rank] = folder, dict(weight_files.read(folder))
        passed[rank] = gone

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return folders, read, passed


@pytest.mark.parametrize(("hosts", "written"), [("xx", 1), ("xxyy", 2), ("xyxy", 2)])
def test_one_process_of_a_node_writes_and_all_read(memory, monkeypatch, hosts, written):
    folders, read, passed = load(len(hosts), hosts, monkeypatch)
    assert len(set(folders)) == written == len(set(zip(hosts, folders, strict=True)))
    for found in read:
        assert list(found) == ["a", "b"]
        assert all(torch.equal(found[name], tensor) for name, tensor in WEIGHTS)
    # Sharded weights are gathered by all together.
    assert passed == [["a", "b"]] * len(hosts)
    assert list(memory.iterdir()) == []


def test_weights_that_do_not_fit_end_in_one_line_and_leave_nothing(memory, monkeypatch):
    monkeypatch.setattr(weight_files, "FILE_BYTES", 16)
    monkeypatch.setattr(weight_files.shutil, "disk_usage", lambda path: Usage(64, 44, 20))
    with (
        pytest.raises(UserError, match=r"0\.00 GiB free, .* larger --shm-size") as caught,
        weight_files.written(iter(WEIGHTS)),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert list(memory.iterdir()) == []


def test_large_weights_are_several_files(monkeypatch):
    monkeypatch.setattr(weight_files, "FILE_BYTES", 16)
    with weight_files.written(iter(WEIGHTS)) as folder:
        assert len(list(folder.glob("*.safetensors"))) == 2
        assert sorted(dict(weight_files.read(folder))) == ["a", "b"]


def test_what_a_killed_process_left_is_removed_and_a_living_ones_stays(memory):
    left, living = (memory / f"{weight_files.PREFIX}{name}" for name in ("left", "living"))
    for folder in (left, living):
        folder.mkdir()
        (folder / weight_files.LOCK).touch()
    lock = hold(living / weight_files.LOCK, "handing over weights")
    with weight_files.written(WEIGHTS) as folder:
        assert {path.name for path in memory.iterdir()} == {living.name, folder.name}
        assert [name for name, _ in weight_files.read(folder)] == ["a", "b"]
    assert [path.name for path in memory.iterdir()] == [living.name]
    lock.close()
