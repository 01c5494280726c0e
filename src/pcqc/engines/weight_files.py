"""Weights handed to other processes as safetensors files, in memory where the system can."""

import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pcqc.errors import UserError
from pcqc.system.files import held, hold
from pcqc.system.processes import SINGLE_PROCESS, Processes

FILE_BYTES = 2**30
MEMORY = Path("/dev/shm")
PREFIX, LOCK = "pcqc-weights-", "lock"


@contextmanager
def written(
    weights: Iterable[tuple[str, torch.Tensor]], processes: Processes = SINGLE_PROCESS
) -> Iterator[Path]:
    """A folder of the weights' files, removed once all processes have left the context.

    Args:
        weights: the same in every process; each must go through them, as shards are gathered.
        processes: of each node the first writes, for all there.

    Raises:
        UserError: the weights do not fit into the folder's memory or disk.
    """
    nodes = processes.gather(socket.gethostname())
    writer = nodes.index(nodes[processes.rank])
    folder = lock = None
    try:
        if writer == processes.rank:
            above = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
            _remove_leftovers(above)
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
            lock = hold(folder / LOCK, "handing over weights")
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


def _remove_leftovers(above: Path) -> None:
    """Folders of processes that were killed: as large as a model, and nobody holds their lock."""
    for lock in above.glob(f"{PREFIX}*/{LOCK}"):
        if not held(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)


def _write(weights: Iterable[tuple[str, torch.Tensor]], folder: Path) -> None:
    """Files of about `FILE_BYTES`, so that no more is held twice."""
    held: dict[str, torch.Tensor] = {}
    for number, (name, tensor) in enumerate(weights):
        held[name] = tensor.to("cpu", copy=True).contiguous()
        if sum(t.nbytes for t in held.values()) >= FILE_BYTES:
            _save(held, folder / f"{number:06d}.safetensors")
            held = {}
    if held:
        _save(held, folder / "rest.safetensors")


def _save(held: dict[str, torch.Tensor], file: Path) -> None:
    needed = sum(tensor.nbytes for tensor in held.values())
    free = shutil.disk_usage(file.parent).free
    if free < needed:
        raise UserError(
            f"{file.parent}: {free / 2**30:.2f} GiB free, too little for new weights of vLLM (the "
            f"next {needed / 2**30:.2f} GiB); start the container with a larger --shm-size, or "
            "free some"
        )
    save_file(held, file)


def read(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of such a folder."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                yield name, file.get_tensor(name)
