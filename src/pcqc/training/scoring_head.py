"""Log-probabilities of given tokens from hidden states, in constant memory."""

from typing import Any, cast

import torch
from torch.utils.checkpoint import checkpoint

from pcqc.study.buffers import LOGITS


class ScoringHead(torch.nn.Linear):
    """An output layer that can score given tokens.

    Sharded weights (ZeRO 3) are gathered by all processes together, once in every call of a module.
    So the parts are taken within one call: their number may differ among processes.
    """

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Logits, as before; or with `targets` [places] the log-probability of each, in fp32.

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
        return torch.cat([self._score_anew(*part) for part in parts])

    def _score_anew(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """What `_score` gives, for which the backward pass computes the logits anew."""
        return checkpoint(
            self._score, hidden, targets, use_reentrant=False, preserve_rng_state=False
        )

    def _score(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = super().forward(hidden).float()
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")


def with_scoring_head(model: torch.nn.Module) -> torch.nn.Module:
    """The model, whose output layer has become one that scores; its weights stay where they are."""
    head = cast(Any, model).lm_head
    assert isinstance(head, torch.nn.Linear)
    head.__class__ = ScoringHead
    return model
