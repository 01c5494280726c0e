"""The processes of one training job: who leads, and how work is shared out among them.

What processes tell each other are this program's own objects, pickled by torch.distributed between
processes of one job that the launcher started and that share one secret-free network of their own;
nothing is ever unpickled that came from a file or from outside.
"""

import json
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pcqc.errors import UserError

A, B = TypeVar("A"), TypeVar("B")
# How long one process waits for the others: the slowest of an update's rollouts sets it.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Processes:
    """Processes that run the same job side by side, each as far as it goes by itself.

    Attributes:
        rank: number of this one, from 0.
        count: of all.
        group: over which objects travel; None for a process on its own.
    """

    rank: int = 0
    count: int = 1
    group: Any = None

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def gather(self, value: A) -> list[A]:
        """The value of every process, by rank."""
        if self.count == 1:
            return [value]
        from torch.distributed import all_gather_object

        values = [None] * self.count
        all_gather_object(values, value, group=self.group)
        return values

    def meet(self) -> None:
        """Wait until all processes are here."""
        self.gather(None)

    def spread(self, work: Callable[[Sequence[A]], list[B]], items: Sequence[A]) -> list[B]:
        """`work(items)`, of which each process does a part; every process has the whole result.

        Args:
            work: of which each result depends on its own item alone.
            items: the same in every process. Neighbours stay together.
        """
        bounds = [len(items) * rank // self.count for rank in range(self.count + 1)]
        mine = items[bounds[self.rank] : bounds[self.rank + 1]]
        return [result for part in self.gather(work(mine)) for result in part]


ALONE = Processes()


def launched() -> bool:
    """Whether a launcher (torchrun, or what speaks its variables) started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def join(devices: Sequence[int]) -> Processes:
    """Meet the other processes of this job.

    Args:
        devices: per process, the number of its GPU among those that its machine shows.

    Raises:
        UserError: the launcher started another number of processes.
    """
    import torch.distributed as dist

    there = int(os.environ["WORLD_SIZE"]) if launched() else 1
    if there != len(devices):
        raise UserError(
            f"{there} processes were launched, but placement.learner.devices names "
            f"{len(devices)} devices, one for each; change the one or the other"
        )
    rank = int(os.environ["RANK"]) if launched() else 0
    os.environ.setdefault("LOCAL_RANK", "0")  # which DeepSpeed asks for
    backend = "nccl" if _take_device(devices[rank]) else "gloo"
    alone = {} if launched() else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(backend, timeout=PATIENCE, **alone)
    return Processes(rank, there, dist.new_group(backend="gloo", timeout=PATIENCE))


def leave(processes: Processes) -> None:
    """Part from the others at the end of a job that went well."""
    if processes.group is not None:
        from torch.distributed import destroy_process_group

        destroy_process_group()


def _take_device(number: int) -> bool:
    """Make a GPU the one that this process computes on, DeepSpeed too; whether there are any."""
    import torch

    if not torch.cuda.is_available():
        return False
    torch.cuda.set_device(number)
    os.environ["LOCAL_RANK"] = str(number)
    return True


def told_launcher(error: Exception) -> bool:
    """Leave an error to the launcher, which says it once for all; whether there is one."""
    if not (file := os.environ.get("TORCHELASTIC_ERROR_FILE")):
        return False
    expected = isinstance(error, UserError)
    message = str(error) if expected else "".join(traceback.format_exception(error))
    content = {"message": message, "expected": expected, "timestamp": int(time.time())}
    Path(file).write_text(json.dumps(content))
    return True
