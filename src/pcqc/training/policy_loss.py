"""The clipped policy objective, token by token (sec:method:objective)."""

from dataclasses import dataclass

import torch

from pcqc.training.kl import LARGEST


@dataclass(frozen=True)
class Clip:
    """Range 1 - low to 1 + high of the ratio; `dual` bounds it where the advantage is negative."""

    low: float
    high: float
    dual: float | None = None


def clipped_policy_loss(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, clip: Clip
) -> torch.Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A) of each token (eq:question_objective).

    Beyond e^20 or below e^-20 the ratio stays there, and its token has no gradient: `exp` would
    overflow. With a dual bound c, a negative advantage costs at most -c A (Ye et al. 2020): a token
    that has become much likelier than it was would otherwise rule the step.

    Args:
        logprobs: [tokens], log pi_theta; carries the gradient.
        old_logprobs: [tokens], log pi_old of the same tokens.
        advantages: [tokens].
        clip: epsilon_clip on either side.
    """
    ratio = _ratio(logprobs, old_logprobs)
    clipped = ratio.clamp(1 - clip.low, 1 + clip.high)
    objective = torch.minimum(ratio * advantages, clipped * advantages)
    if clip.dual is not None:
        bounded = torch.maximum(objective, clip.dual * advantages)
        objective = torch.where(advantages < 0, bounded, objective)
    return -objective


def ratio_statistics(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, clip: Clip
) -> dict[str, float]:
    """Sums over tokens of the ratio and of the indicator that it left the clipping range.

    Args:
        logprobs, old_logprobs, clip: as of `clipped_policy_loss`.
    """
    ratio = _ratio(logprobs.detach(), old_logprobs)
    outside = ((ratio < 1 - clip.low) | (ratio > 1 + clip.high)).sum()
    return {"ratio/mean": float(ratio.sum()), "ratio/clipped_share": float(outside)}


def _ratio(logprobs: torch.Tensor, old_logprobs: torch.Tensor) -> torch.Tensor:
    """pi_theta / pi_old of each token, its logarithm within +-LARGEST."""
    return torch.exp((logprobs - old_logprobs).clamp(-LARGEST, LARGEST))
