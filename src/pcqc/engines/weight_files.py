"""Weights handed to another process as safetensors files, in memory where the system can."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

FILE_BYTES = 2**30
MEMORY = Path("/dev/shm")


@contextmanager
def written(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Path]:
    """A folder of the weights' files, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pcqc-weights-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        held: dict[str, torch.Tensor] = {}
        for number, (name, tensor) in enumerate(weights):
            held[name] = tensor.to("cpu", copy=True).contiguous()
            if sum(t.nbytes for t in held.values()) >= FILE_BYTES:
                save_file(held, folder / f"{number:06d}.safetensors")
                held = {}
        if held:
            save_file(held, folder / "rest.safetensors")
        yield folder
    finally:
        shutil.rmtree(folder)


def read(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of such a folder."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                yield name, file.get_tensor(name)
