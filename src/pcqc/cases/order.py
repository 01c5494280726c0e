"""Passes over the training data in full batches; each pass has its own random order."""

import numpy as np

from pcqc.seeds import generator


def batches_per_pass(count: int, size: int) -> int:
    """Full batches in one pass, at least one.

    The items left out differ from pass to pass. The paper's 4,157 conversations are 32 SFT updates
    an epoch, and its 222 RL updates are two passes over 14,256 cases.
    """
    return max(1, count // size)


def batch_of_step(step: int, count: int, size: int, seed: int, label: str) -> np.ndarray:
    """Indices of the items of a step.

    Args:
        step: number of the step, from 0.
        count: number of items.
        size: items in a batch.
        seed, label: name the order.
    """
    number, index = divmod(step, batches_per_pass(count, size))
    order = generator(seed, label, number).permutation(count)
    return order[index * size : (index + 1) * size]
