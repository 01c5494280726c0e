"""Tensors that wait in the host's memory while a device needs its own for other things."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class HostMemory:
    """The host's copies of a device's tensors, in buffers that are kept for the next time."""

    def __init__(self) -> None:
        self.buffers: list[torch.Tensor] = []

    @contextmanager
    def holding(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        """Inside the context, the bytes of tensors are on the host and take no memory elsewhere.

        Afterwards every view of the same memory has them again.

        Args:
            tensors: all on one device.
        """
        # Views that begin at different places of a storage are moved with it, once.
        every = (tensor.untyped_storage() for tensor in tensors)
        storages = list({storage.data_ptr(): storage for storage in every}.values())
        sizes = [storage.nbytes() for storage in storages]
        if sizes != [buffer.nbytes for buffer in self.buffers]:
            pinned = torch.cuda.is_available()
            self.buffers = [torch.empty(n, dtype=torch.uint8, pin_memory=pinned) for n in sizes]
        for storage, buffer in zip(storages, self.buffers, strict=True):
            buffer.untyped_storage().copy_(storage)
            storage.resize_(0)
        try:
            yield
        finally:
            for storage, buffer in zip(storages, self.buffers, strict=True):
                storage.resize_(buffer.nbytes)
                storage.copy_(buffer.untyped_storage())
