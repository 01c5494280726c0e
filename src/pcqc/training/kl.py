"""The KL penalty, token by token: the estimator k3."""

import torch

LARGEST = 20.0  # of a log ratio, as in verl: exp would overflow fp32 from 89 on


def kl_estimate(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(d) - d - 1 of each token, [tokens], with d = log pi_ref - log pi_theta within +-LARGEST.

    The unbiased, non-negative estimator of KL(pi_theta || pi_ref) per sampled token that GRPO uses
    (k3; Shao et al. 2024).
    """
    difference = (reference_logprobs - logprobs).clamp(-LARGEST, LARGEST)
    return torch.exp(difference) - difference - 1
