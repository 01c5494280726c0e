"""Muon: momentum steps whose singular values are all about one.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". As `torch.optim.Muon`
with its defaults, but computed in the parameters' own type. Torch computes in bf16. A processor
without instructions for bf16 multiplies one number at a time: that took a third of the base model's
training, and rounds otherwise than other processors do.
"""

import torch

# Coefficients of the iteration from the paper; torch's defaults.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
MOMENTUM = 0.95
EPSILON = 1e-7


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, without weight decay.

    Args:
        params: matrices.
        lr: learning rate; a matrix with more rows than columns takes sqrt(rows / columns) of it.
    """

    def __init__(self, params, lr: float):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Take a step; a parameter without a gradient keeps its value."""
        for group in self.param_groups:
            for matrix in (p for p in group["params"] if p.grad is not None):
                state = self.state[matrix]
                if not state:
                    state["momentum"] = torch.zeros_like(matrix)
                momentum = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
                direction = orthogonalized(matrix.grad.lerp(momentum, MOMENTUM))
                rows, columns = matrix.shape
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                matrix.add_(direction, alpha=-rate)


def orthogonalized(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with its singular values moved to between about 0.5 and 1.5.

    Newton-Schulz iteration, which needs products of matrices alone.
    """
    a, b, c = COEFFICIENTS
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / wide.norm().clamp(min=EPSILON)
    for _ in range(ITERATIONS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide
