"""PCQC in verl: `algorithm.adv_estimator=pcqc`, with this module imported before training.

An estimator of verl is given rewards of tokens, the mask and the prompt's id, and nothing else. So
an agent loop returns a row (`row_of`) for each consultation and for each candidate question that
was not asked; a question's tokens have its credit as their reward, which a single loop can compute,
as all candidates of a state are sampled in it. The estimator compares outcomes among the rows of a
prompt and scales each term by its own count. `algorithm.use_kl_in_reward` must be false, and
`loss_agg_mode` "token-mean".

Read in verl-project/verl 1dda039: `verl/trainer/ppo/core_algos.py` and `ray_trainer.py`,
`verl/experimental/agent_loop/agent_loop.py`, `verl/trainer/ppo/v1/`. `make example-verl` runs this
file in verl 0.9.1; where verl is not there, the test has rows with the recorded names and shapes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.core_algos import register_adv_est

from turn_credit import Term, terminal_advantages, token_advantages

ZERO = 1e-30  # the reward of a question's tokens whose credit is zero: they count all the same


class CreditedOutput(AgentLoopOutput):
    """A row whose tokens have rewards of their own."""

    token_rewards: list[float]

    def as_dict(self):
        fields = super().as_dict()
        fields["rm_scores"] = torch.tensor(fields.pop("token_rewards"), dtype=torch.float32)
        return fields


def row_of(
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    response_mask: Sequence[int],
    questions: Mapping[tuple[int, int], float],
    reward: float | None,
) -> CreditedOutput:
    """A consultation, or with no reward a candidate, of which the question alone is trained.

    Args:
        prompt_ids, response_ids, response_mask: as in `AgentLoopOutput`.
        questions: first token of a question and one after its last -> `turn_credit.pcqc`'s credit.
        reward: of the consultation. An agent loop returns its consultation last.
    """
    rewards, mask = [0.0] * len(response_ids), list(response_mask)
    if reward is None:
        mask = [0] * len(mask)
    for (start, stop), credit in questions.items():
        rewards[start:stop] = [credit or ZERO] * (stop - start)
        mask[start:stop] = [1] * (stop - start)
    if reward is not None:
        rewards[-1] = reward
    return CreditedOutput(
        prompt_ids=list(prompt_ids),
        response_ids=list(response_ids),
        response_mask=mask,
        token_rewards=rewards,
        reward_score=reward or 0.0,
        metrics=AgentLoopMetrics(),
        extra_fields={"reward_extra_info": {}},
    )


@register_adv_est("pcqc")
def pcqc(token_level_rewards, response_mask, index, config=None, **_):
    """Advantages of tokens, and as returns the same: float [rows, tokens]."""
    rewards = token_level_rewards.double().cpu().numpy()
    trained = response_mask.bool().cpu().numpy()
    rows = np.arange(len(rewards))
    first, last = trained.argmax(1), trained.shape[1] - 1 - trained[:, ::-1].argmax(1)
    played = trained.any(1) & (rewards[rows, first] == 0)  # a candidate begins with its question
    asked = trained & (rewards != 0)
    asked[rows[played], last[played]] = False
    credits = np.where(np.abs(rewards) > 2 * ZERO, rewards, 0.0)
    terminal, question = [], []
    for prompt in dict.fromkeys(index[played]):
        group = rows[played & (index == prompt)]
        outcomes = terminal_advantages(rewards[group, last[group]])
        for row, outcome in zip(group, outcomes, strict=True):
            terminal += [(span, outcome) for span in _spans(row, trained[row])]
    for row in rows:
        question += [(span, credits[row, span[1]]) for span in _spans(row, asked[row])]
    weight = float(config.get("question_weight", 1.0)) if config else 1.0
    terms = [Term(*zip(*t, strict=True), w) for t, w in ((terminal, 1.0), (question, weight)) if t]
    advantages = torch.from_numpy(token_advantages(rewards.shape, terms, int(trained.sum())))
    advantages = advantages.to(token_level_rewards)
    return advantages, advantages


def _spans(row: int, on: np.ndarray) -> list[tuple[int, int, int]]:
    """Runs of true tokens of a row."""
    edges = np.flatnonzero(np.diff(np.r_[0, on, 0]))
    return [(row, start, stop) for start, stop in edges.reshape(-1, 2).tolist()]
