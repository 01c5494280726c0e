"""Weights handed to other processes as safetensors files, in memory where the system can.

What a machine without GPUs does, and one where handles (`by_handles.py`) cannot be opened.
"""

import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pcqc_base.errors import UserError
from pcqc_base.system.locks import held, hold
from pcqc_base.system.processes import SINGLE_PROCESS, Processes

MEMORY = Path("/dev/shm")
PREFIX, LOCK = "pcqc-weights-", "lock"


@contextmanager
def written(
    weights: Iterable[tuple[str, torch.Tensor]], processes: Processes = SINGLE_PROCESS
) -> Iterator[Path]:
    """A folder of the weights' files, removed once all processes have left the context.

    Args:
        weights: the same in every process; each must iterate over them, as shards are gathered.
        processes: the first of each node writes for all of its node.

    Raises:
        UserError: the weights do not fit into the folder's memory or disk.
    """
    nodes = processes.gather(socket.gethostname())
    writer = nodes.index(nodes[processes.rank])
    folder = lock = None
    try:
        if writer == processes.rank:
            parent = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
            _remove_leftovers(parent)
            # Another process removes what it sees and nobody holds: it sees the folder once held.
            folder = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
            lock = hold(folder / LOCK, "handing over weights")
            folder = folder.rename(parent / folder.name.removeprefix("."))
            _write(weights, folder)
        else:
            for _ in weights:
                pass
        yield Path(processes.gather(str(folder))[writer])
        processes.barrier()
    finally:
        if folder:
            shutil.rmtree(folder)
        if lock:
            lock.close()


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders of killed processes: as large as a model, and nobody holds their lock."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        if not held(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)


def _write(weights: Iterable[tuple[str, torch.Tensor]], folder: Path) -> None:
    """Write a file for each weight, so that no more is in memory twice."""
    for number, (name, tensor) in enumerate(weights):
        free = shutil.disk_usage(folder).free
        if free < tensor.nbytes:
            raise UserError(
                f"{folder}: {free / 2**30:.2f} GiB free, too little for new weights of vLLM (the "
                f"next {tensor.nbytes / 2**30:.2f} GiB); start the container with a larger "
                "--shm-size, or free some"
            )
        copy = tensor.to("cpu", copy=True).contiguous()
        save_file({name: copy}, folder / f"{number:06d}.safetensors")


def read(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of such a folder."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                yield name, file.get_tensor(name)
