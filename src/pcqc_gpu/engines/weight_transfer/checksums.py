"""What proves that an engine got the learner's weights: a checksum of each tensor's bytes."""

from collections.abc import Iterable, Iterator

import torch

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by their bytes
PART = 2**22  # words added up at a time


def checksum(tensor: torch.Tensor) -> int:
    """The sum of each word times its odd place modulo 2^64, the same on every device.

    Odd numbers have an inverse there, so a change of any one word changes the sum.
    """
    words = tensor.detach().contiguous().flatten().view(WORDS[tensor.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for start in range(0, len(words), PART):
        part = words[start : start + PART].long()
        places = torch.arange(start, start + len(part), device=words.device)
        total += (part * (2 * places + 1)).sum()
    return int(total)


def noted(
    weights: Iterable[tuple[str, torch.Tensor]], checksums: dict[str, int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The same names and tensors; the checksum of each is noted as it passes."""
    for name, tensor in weights:
        checksums[name] = checksum(tensor)
        yield name, tensor
