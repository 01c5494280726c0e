"""Log-probabilities of given tokens from hidden states, in constant memory."""

from typing import Any, cast

import torch
from torch.utils.checkpoint import checkpoint

from pcqc.study.placement import LOGITS


class ScoringHead(torch.nn.Linear):
    """An output layer that can score given tokens.

    The logits of many places are computed in parts, all within one call: sharded weights (ZeRO 3)
    are gathered by all processes once per call, and the number of parts may differ among them.
    """

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
        logits = super().forward(hidden).float()
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")


def with_scoring_head(model: torch.nn.Module) -> torch.nn.Module:
    """The model, its output layer made a `ScoringHead` in place, with the same weights."""
    head = cast(Any, model).lm_head
    assert isinstance(head, torch.nn.Linear)
    head.__class__ = ScoringHead
    return model
