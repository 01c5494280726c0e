"""Weights handed to a process on the same GPU without a copy in the host's memory: by CUDA IPC.

A handle is what `torch.multiprocessing` sends of a tensor. It is bytes and integers, so that vLLM's
process need not accept pickles, as it must for vLLM's own transfer by handles (vLLM 0.32.0). Its
transfer by NCCL wants learner and engine on different devices; here each learner has its engine
beside it, on any number of nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor
from torch.storage import TypedStorage

PART_BYTES = 2**28

Handle = list[Any]  # name, dtype, shape, strides, place in the storage, and the storage's handle


def parts(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[list[Handle]]:
    """Handles of copies of about `PART_BYTES`, which live until the next part is asked for."""
    copies: list[tuple[str, torch.Tensor]] = []
    for name, tensor in weights:
        copies.append((name, tensor.clone(memory_format=torch.contiguous_format)))
        if sum(copy.nbytes for _, copy in copies) >= PART_BYTES:
            yield _handles(copies)
            copies.clear()
    if copies:
        yield _handles(copies)
    copies.clear()
    torch.cuda.ipc_collect()


def _handles(copies: Sequence[tuple[str, torch.Tensor]]) -> list[Handle]:
    torch.cuda.synchronize()  # the other process reads what has been written
    made = []
    for name, copy in copies:
        _, (_, shape, strides, start, _, dtype, _, *storage) = reduce_tensor(copy)
        kind = str(dtype).removeprefix("torch.")
        made.append([name, kind, list(shape), list(strides), start, *storage])
    return made


def opened(part: Iterable[Handle]) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and copies of a part's tensors, in the other process: the first GPU that it sees."""
    for name, kind, shape, strides, start, *storage in part:
        dtype = getattr(torch, kind)
        place = shape, strides, start, TypedStorage, dtype, 0
        yield name, rebuild_cuda_tensor(torch.Tensor, *place, *storage).clone()
