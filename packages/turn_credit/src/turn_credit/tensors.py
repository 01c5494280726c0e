"""Torch's tensors in and out. Torch is not imported: whoever passes a tensor has it."""

from typing import Any

import numpy as np


def first_tensor(values: Any) -> Any:
    """The first tensor among values that may be nested in lists; None where there is none."""
    if hasattr(values, "detach"):
        return values
    if isinstance(values, list | tuple):
        for value in values:
            if (tensor := first_tensor(value)) is not None:
                return tensor
    return None


def plain(values: Any) -> Any:
    """The same values with numpy's arrays, float64 on the CPU, in place of tensors."""
    if hasattr(values, "detach"):
        return values.detach().cpu().double().numpy()
    if isinstance(values, list | tuple) and first_tensor(values) is not None:
        return [plain(value) for value in values]
    return values


def as_tensor(array: np.ndarray, tensor: Any) -> Any:
    """An array on the tensor's device; float64 beside such a tensor, else float32."""
    single = tensor.new_zeros(0).float()
    double = tensor.is_floating_point() and tensor.element_size() == 8
    return tensor.new_tensor(array, dtype=tensor.dtype if double else single.dtype)
