"""The clipped objective and the KL penalty, token by token (Section 3.4 of the paper)."""

import torch


def clipped_policy_loss(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, clip: float
) -> torch.Tensor:
    """-min(r A, clip(r, 1 - clip, 1 + clip) A) of each token (Eq. 10).

    Args:
        logprobs: [tokens], log pi_theta; carries the gradient.
        old_logprobs: [tokens], log pi_old of the same tokens.
        advantages: [tokens].
        clip: epsilon_clip.
    """
    ratio = torch.exp(logprobs - old_logprobs)
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def kl_estimate(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi_theta: the unbiased, non-negative estimator of
    KL(pi_theta || pi_ref) per sampled token that GRPO uses (Shao et al. 2024)."""
    difference = reference_logprobs - logprobs
    return torch.exp(difference) - difference - 1


def ratio_statistics(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, clip: float
) -> dict[str, float]:
    """Sums over tokens of the ratio and of the indicator that it left the clipping range."""
    ratio = torch.exp(logprobs.detach() - old_logprobs)
    outside = ((ratio < 1 - clip) | (ratio > 1 + clip)).sum()
    return {"ratio/mean": float(ratio.sum()), "ratio/clipped_share": float(outside)}
