"""The base model's optimiser, against torch's, which rounds to bf16."""

import pytest
import torch

from pcqc_clinic.muon import Muon, orthogonalized

SHAPES = [(64, 128), (128, 64), (48, 48)]


def taken(optimizer, start: torch.Tensor, gradients: list[torch.Tensor]) -> torch.Tensor:
    """Where an optimiser of the library's kind ends."""
    parameter = torch.nn.Parameter(start.clone())
    steps = optimizer([parameter])
    for gradient in gradients:
        parameter.grad = gradient.clone()
        steps.step()
    return parameter.detach()


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_torchs_up_to_its_rounding(shape):
    random = torch.Generator().manual_seed(0)
    start = torch.zeros(shape)
    gradients = [torch.randn(shape, generator=random) for _ in range(4)]
    ours = taken(lambda p: Muon(p, lr=0.01), start, gradients)
    theirs = taken(lambda p: torch.optim.Muon(p, lr=0.01, weight_decay=0.0), start, gradients)
    assert (ours - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one_and_vectors_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    moved = torch.diagonal(left.T @ orthogonalized(matrix) @ right.T)
    # The iteration's coefficients favour small values, so that they do not reach one itself.
    kept = values > 0.05 * values.max()
    assert torch.all((moved[kept] > 0.5) & (moved[kept] < 1.5))
