"""Block masks on the CPU, attended by the eager form of FlexAttention."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from pcqc.training import tree_attention


@contextmanager
def eager_blocks(stance: str = "force_eager") -> Iterator[None]:
    """Trees have block masks on the CPU, as on CUDA, and attention over them is not compiled.

    With the stance "default" what a test compiles is.

    Torch refuses the backward pass on a CPU, since its compiled kernel has none there. The eager
    form has one, against which torch's own tests hold the kernel; so the refusal is taken out.
    """
    with pytest.MonkeyPatch.context() as patch, torch.compiler.set_stance(stance):
        patch.setattr(tree_attention, "BLOCK_MASKED", frozenset({"cpu"}))
        patch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
            yield
