"""The processes of one training job: which one is main, and how work is sharded among them.

Processes exchange this program's own objects, which torch.distributed pickles, and only with the
processes of the job that its launcher started. Nothing from a file or from outside is unpickled.
"""

import itertools
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pcqc_base.errors import UserError, reason

A = TypeVar("A")
B = TypeVar("B")
# How long one process waits for the others; an update's slowest rollouts set it.
TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class Processes:
    """Processes that run the same job together.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes.
        group: over which objects travel; None for a single process.
        store: where they count together, of `torch.distributed`; likewise.
        queues: numbers the calls of `queue`.
    """

    rank: int = 0
    count: int = 1
    group: Any = None
    store: Any = None
    queues: Iterator[int] = field(default_factory=itertools.count, compare=False)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def gather(self, value: A) -> list[A]:
        """The value of every process, by rank."""
        if self.count == 1:
            return [value]
        from torch.distributed import all_gather_object

        values: list[Any] = [None] * self.count
        all_gather_object(values, value, group=self.group)
        return values

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.gather(None)

    def apart(self) -> "Processes":
        """The same processes, for a thread beside the main one: what it sends is kept apart.

        All processes call this together.
        """
        if self.group is None:
            return self
        from torch.distributed import new_group

        return replace(self, group=new_group(backend="gloo", timeout=TIMEOUT))

    def map_sharded(
        self, work: Callable[[Sequence[A]], Sequence[B]], items: Sequence[A]
    ) -> list[B]:
        """`work(items)`, each process doing a shard; every process gets the whole result.

        Args:
            work: each of its results depends only on its own item.
            items: the same in every process. Neighbours stay together.
        """
        mine = self.part(len(items))
        results = self.gather(work(items[mine.start : mine.stop]))
        return [result for part in results for result in part]

    def part(self, count: int, rank: int | None = None) -> range:
        """Numbers of the items, of `count`, that are a process's part; by default this one's."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.count, count * (rank + 1) // self.count)

    def queue(self, count: int) -> Iterator[int]:
        """Numbers below `count`, each for a single process: those of its own part, then of others.

        A process that is ready early takes what another has not begun. All make the same calls.
        """
        if self.count == 1:
            yield from range(count)
            return
        name = f"queue/{next(self.queues)}"
        for later in range(self.count):
            rank = (self.rank + later) % self.count
            part = self.part(count, rank)
            while (taken := self.store.add(f"{name}/{rank}", 1)) <= len(part):
                yield part[taken - 1]


SINGLE_PROCESS = Processes()


def launched() -> bool:
    """Whether torchrun, or a launcher that sets its variables, started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def join(devices: Sequence[int]) -> Processes:
    """Join the other processes of this job.

    Args:
        devices: for each process, the index of its GPU on its machine.

    Raises:
        UserError: the launcher started another number of processes, or the machine lacks a device.
    """
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    count = int(os.environ["WORLD_SIZE"]) if launched() else 1
    if count != len(devices):
        raise UserError(
            f"{count} processes were launched, but placement.learner.devices names "
            f"{len(devices)} devices, one for each; change one of the two"
        )
    rank = int(os.environ["RANK"]) if launched() else 0
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed needs it
    backend = "nccl" if _take_device(devices[rank]) else "gloo"
    store: Any = dist.HashStore()
    if launched():
        store, *_ = next(rendezvous("env://", timeout=TIMEOUT))
    dist.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=count)
    return Processes(rank, count, dist.new_group(backend="gloo", timeout=TIMEOUT), store)


@contextmanager
def leaving(processes: Processes) -> Iterator[None]:
    """Leave the process group at the end of the block.

    After an error only a process without others does: it might wait for them. NCCL warns of a
    group that nobody left, below our own last line.
    """
    try:
        yield
    except Exception:
        if processes.count == 1:
            shutdown(processes)
        raise
    shutdown(processes)


def shutdown(processes: Processes) -> None:
    """Leave the process group, as all of its processes do."""
    if processes.group is not None:
        from torch.distributed import destroy_process_group

        destroy_process_group()


def require_gpu(kind: str) -> None:
    """Refuse to compute on the CPU where a study's placement names a GPU.

    Args:
        kind: `placement.device`.

    Raises:
        UserError: torch can use no GPU; names torch's reason.
    """
    import torch

    if kind == "CPU" or torch.cuda.is_available():
        return
    try:
        torch.cuda.init()
        why = "torch finds no device"
    except (AssertionError, RuntimeError) as problem:
        why = reason(problem).rstrip(".")
    raise UserError(
        f"placement.device is {kind}, but no GPU can be used here ({why}); run "
        "`make gpu`, update the driver, or set placement.device to CPU"
    )


def _take_device(number: int) -> bool:
    """Make a GPU this process's own, for DeepSpeed too; False if there is no GPU at all."""
    import torch

    if not torch.cuda.is_available():
        return False
    if number >= torch.cuda.device_count():
        raise UserError(
            f"placement.learner.devices names device {number}, but this machine shows "
            f"{torch.cuda.device_count()}; correct it, or CUDA_VISIBLE_DEVICES"
        )
    torch.cuda.set_device(number)
    os.environ["LOCAL_RANK"] = str(number)
    return True


def report_to_launcher(error: Exception) -> bool:
    """Hand an error to the launcher, which prints it once; False if there is no launcher."""
    if not (file := os.environ.get("TORCHELASTIC_ERROR_FILE")):
        return False
    expected = isinstance(error, UserError)
    message = str(error) if expected else "".join(traceback.format_exception(error))
    content = {"message": message, "expected": expected, "timestamp": int(time.time())}
    Path(file).write_text(json.dumps(content))
    return True
