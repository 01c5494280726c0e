"""Passes over the training material in full batches, each pass in a random order of its own."""

import numpy as np

from pcqc.seeds import generator


def batches_per_pass(count: int, size: int) -> int:
    """Full batches in one pass; fewer items than a batch make one.

    The items left over differ from pass to pass. So the paper's 4,157 conversations make 32 SFT
    updates an epoch, and its 222 RL updates are two passes over 14,256 cases.
    """
    return max(1, count // size)


def batch_of_step(step: int, count: int, size: int, seed: int, label: str) -> np.ndarray:
    """Indices of the items of a step.

    Args:
        step: number of the step, from 0.
        count: of items.
        size: of a batch.
        seed, label: name the order.
    """
    number, index = divmod(step, batches_per_pass(count, size))
    order = generator(seed, label, number).permutation(count)
    return order[index * size : (index + 1) * size]
