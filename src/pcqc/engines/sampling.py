"""Drawing the next token: temperature, top-p, and one uniform number per sequence."""

import numpy as np
import torch

from pcqc.engines.base import Sampling
from pcqc.seeds import uniform
from pcqc_base.errors import UserError


def draw(
    logits: torch.Tensor, streams: np.ndarray, step: int, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per row.

    Args:
        logits: [rows, vocabulary].
        streams: uint64 [rows], the random stream of each row.
        step: number of the token within its completion.
        sampling: temperature and top-p.

    Returns:
        tokens: int64 [rows].
        logprobs: float64 [rows], of the tokens under the whole vocabulary at temperature 1.

    Raises:
        UserError: logits are NaN or infinite.
    """
    logits = logits.double()
    logprobs = torch.log_softmax(logits, dim=-1)
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
    else:
        kept = nucleus(torch.softmax(logits / sampling.temperature, -1), sampling.top_p)
        tokens = _invert(kept, uniform(streams, step))
    drawn = logprobs.gather(-1, tokens[:, None])[:, 0]
    # A NaN or an infinite logit makes its whole row so, and the last token would be drawn.
    if not drawn.isfinite().all():
        raise UserError(
            f"the model gives no probabilities for token {step + 1} of a response: its logits are "
            "not finite; check its weights, and in training lower rl.learning_rate and resume"
        )
    return tokens, drawn


def nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Probabilities, set to 0 outside the smallest set of likeliest tokens with mass `top_p`.

    The result is not renormalised. A token is kept where the tokens likelier than it hold less than
    `top_p`, so that the likeliest always stays.
    """
    if top_p >= 1:
        return probabilities
    ordered, index = probabilities.sort(dim=-1, descending=True, stable=True)
    likelier = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(likelier >= top_p, 0)
    return torch.zeros_like(probabilities).scatter_(-1, index, ordered)


def _invert(weights: torch.Tensor, u: np.ndarray) -> torch.Tensor:
    """Invert the cumulative distribution of each row, in the order of token ids.

    Id order, unlike the order of probabilities, does not move when two nearly equal probabilities
    are rounded differently.
    """
    total = weights.cumsum(-1)
    target = torch.from_numpy(u).to(total)[:, None] * total[:, -1:]
    # The first token whose cumulative weight exceeds the target has weight of its own.
    return torch.searchsorted(total, target, right=True)[:, 0].clamp_max(weights.shape[-1] - 1)
