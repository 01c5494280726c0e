"""Log-probabilities of given tokens from hidden states, in constant memory."""

from typing import Any, cast

import torch
from torch.utils.checkpoint import checkpoint

from pcqc_base.settings.placement import LOGITS


class ScoringHead(torch.nn.Linear):
    """An output layer that can score given tokens.

    The logits of many places are computed in parts, all within one call: sharded weights (ZeRO 3)
    are gathered by all processes once per call, and the number of parts may differ among them.

    Attributes:
        float32: whether logits are not rounded to the weights' number format, such as bf16.
    """

    float32 = False

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Logits; or with `targets` [places] the log-probability of each, in fp32.

        Where the logits of all places are more than `LOGITS`, they are computed part by part, and
        again in the backward pass.

        Args:
            hidden: [places, width].
            targets: token ids.
        """
        if targets is None:
            return super().forward(hidden)
        at_once = max(1, LOGITS // self.out_features)
        if len(targets) <= at_once:
            return self._score(hidden, targets)
        parts = zip(hidden.split(at_once), targets.split(at_once), strict=True)
        return torch.cat(
            [
                checkpoint(self._score, *part, use_reentrant=False, preserve_rng_state=False)
                for part in parts
            ]
        )

    def _score(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.float32:
            logits = _Float32Product.apply(hidden, self.weight)
        else:
            logits = super().forward(hidden).float()
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")


class _Float32Product(torch.autograd.Function):
    """hidden weight^T in fp32 as vLLM computes it with `head_dtype` float32."""

    @staticmethod
    def forward(ctx, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(hidden, weight)
        if hidden.is_cuda and hidden.dtype != torch.float32:
            # Without a copy of the weights in fp32; torch has no derivative of this call.
            return torch.mm(hidden, weight.t(), out_dtype=torch.float32)
        return hidden.float() @ weight.float().t()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, weight = ctx.saved_tensors
        gradient = gradient.to(hidden.dtype)
        return gradient @ weight, gradient.t() @ hidden


def with_scoring_head(model: torch.nn.Module, float32: bool = False) -> torch.nn.Module:
    """The model, its output layer made a `ScoringHead` in place, with the same weights."""
    head = cast(Any, model).lm_head
    assert isinstance(head, torch.nn.Linear)
    assert not (float32 and head.bias is not None)
    head.__class__ = ScoringHead
    cast(ScoringHead, head).float32 = float32
    return model
