"""A value model: a language model's body with one number per token, and its clipped loss."""

from typing import Any, cast

import torch

from pcqc.training.batching import Padded, hidden_states


class ValueModel(torch.nn.Module):
    """A language model's body with one output per token.

    The head starts at zero: before it has learned, every state is worth nothing.
    """

    def __init__(self, body: torch.nn.Module):
        super().__init__()
        self.body = body
        self.head = torch.nn.Linear(cast(Any, body.config).hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.head.to(next(body.parameters()))

    def forward(self, padded: Padded) -> torch.Tensor:
        """Values [selected] at the selected tokens."""
        hidden = hidden_states(self.body, padded)
        return self.head(hidden[padded.rows, padded.columns])[:, 0].float()


def value_loss(
    values: torch.Tensor, old_values: torch.Tensor, targets: torch.Tensor, clip: float
) -> torch.Tensor:
    """max((V - T)^2, (V_clipped - T)^2) / 2 of each token; V counts at most `clip` from V_old.

    Args:
        values, old_values, targets: [tokens].
    """
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - targets) ** 2, (clipped - targets) ** 2)
