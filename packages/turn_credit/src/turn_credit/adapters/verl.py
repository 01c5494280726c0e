"""PCQC in verl: `algorithm.adv_estimator=pcqc`, with this module imported before training.

An estimator of verl is given rewards of tokens, the mask and the prompt's id, and nothing else. So
an agent loop returns a row (`row_of`) for each consultation and for each candidate question that
was not asked; a question's tokens have its credit as their reward, which a single loop can compute,
as all candidates of a state are sampled in it. The last three tokens of the prompt are handed over
as the first of the response, which changes no context and trains none of them: in the place of
their rewards stands who the row is, its outcome, and what makes the row's sum the outcome, as
verl's own metrics and validation take it. So `data.max_response_length` must have room for three
tokens more. The estimator compares outcomes among the rows of a prompt and scales each term by its
own count over the whole batch. `algorithm.use_kl_in_reward` must be false, and `loss_agg_mode`
"token-mean".

Read in verl-project/verl 1dda039: `verl/trainer/ppo/core_algos.py` and `ray_trainer.py`,
`verl/experimental/agent_loop/agent_loop.py`, `verl/trainer/ppo/v1/`. `make example-verl` runs this
file in verl 0.9.1; where verl is not there, the test has rows with the recorded names and shapes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.core_algos import register_adv_est

from turn_credit import terminal_advantages

ZERO = 1e-30  # the reward of a question's tokens whose credit is zero: they count all the same
WHO, OUTCOME, REST = range(3)  # what the first rewards of a row are
CONSULTATION, CANDIDATE = 1.0, -1.0  # who it is
HEAD = 3


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
    response_logprobs: Sequence[float] | None = None,
) -> CreditedOutput:
    """A consultation, or with no reward a candidate, of which the question alone is trained.

    Args:
        prompt_ids, response_ids, response_mask, response_logprobs: as in `AgentLoopOutput`.
        questions: first token of a question and one after its last -> `turn_credit.pcqc`'s credit.
        reward: the consultation's. An agent loop returns its consultation last.

    Raises:
        ValueError: the prompt has too few tokens, or a question leaves the response, meets another
            or is credited with no number.
    """
    if len(prompt_ids) <= HEAD:
        raise ValueError(f"a prompt of {len(prompt_ids)} tokens; the row needs {HEAD + 1} at least")
    rewards, mask = [0.0] * len(response_ids), list(response_mask)
    if reward is None:
        mask = [0] * len(mask)
    for (start, stop), credit in questions.items():
        if not 0 <= start < stop <= len(rewards) or any(rewards[start:stop]):
            raise ValueError(
                f"question {(start, stop)} leaves a response of {len(rewards)} tokens, or meets "
                "another; give its first token and one after its last"
            )
        if not np.isfinite(credit):
            raise ValueError(f"question {(start, stop)} has credit {credit}; leave it out")
        rewards[start:stop] = [float(credit) or ZERO] * (stop - start)
        mask[start:stop] = [1] * (stop - start)
    who, outcome = (CANDIDATE, 0.0) if reward is None else (CONSULTATION, float(reward))
    given: dict = {}
    if response_logprobs is not None:
        given["response_logprobs"] = [0.0] * HEAD + list(response_logprobs)
    return CreditedOutput(
        prompt_ids=list(prompt_ids[:-HEAD]),
        response_ids=[*prompt_ids[-HEAD:], *response_ids],
        response_mask=[0] * HEAD + mask,
        token_rewards=[who, outcome, -who - sum(rewards), *rewards],
        reward_score=outcome,
        metrics=AgentLoopMetrics(),
        extra_fields={"reward_extra_info": {}},
        **given,
    )


@register_adv_est("pcqc")
def pcqc(token_level_rewards, response_mask, index, config=None, **_):
    """Advantages of tokens, and as returns the same: float [rows, tokens].

    Raises:
        ValueError: a row does not say who it is, or the KL penalty is in the rewards.
    """
    if config and config.get("use_kl_in_reward", False):
        raise ValueError("algorithm.use_kl_in_reward changes the credits; set it to false")
    rewards = token_level_rewards.double().cpu().numpy()
    trained = response_mask.bool().cpu().numpy()
    known = np.isin(rewards[:, WHO], (CONSULTATION, CANDIDATE)) & ~trained[:, :HEAD].any(1)
    silent = np.flatnonzero(~known & trained.any(1))
    if len(silent):
        raise ValueError(f"row {silent[0]} does not say who it is; return `row_of(...)` of each")
    played = trained & (rewards[:, [WHO]] == CONSULTATION)
    terminal = np.zeros(rewards.shape)
    rows = np.flatnonzero(played.any(1))
    for prompt in dict.fromkeys(index[rows]):
        group = rows[index[rows] == prompt]
        terminal[group] = terminal_advantages(rewards[group, OUTCOME])[:, None]
    asked = trained & (rewards != 0)
    credits = np.where(np.abs(rewards) > 2 * ZERO, rewards, 0.0)
    weight = float(config.get("question_weight", 1.0)) if config else 1.0
    # Each term is a mean over its own tokens; verl divides by all that are trained.
    advantages = played * terminal / max(1, played.sum())
    advantages += weight * asked * credits / max(1, asked.sum())
    result = torch.from_numpy(advantages * trained.sum()).to(token_level_rewards)
    return result, result
