"""TRL's GRPOTrainer with an advantage for every token: PCQC, or any credit of `turn_credit`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from trl import GRPOTrainer

from turn_credit import Term, token_advantages


@dataclass(frozen=True)
class Rows:
    """What an update trains on.

    Attributes:
        prompts: token ids of each row's prompt.
        completions: token ids of each row, of what was said after the prompt.
        terms: spans over completions with their credits; see `turn_credit.Term`.
        reward: of each row; None for candidates that were not executed.
    """

    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]
    terms: Sequence[Term]
    reward: Sequence[float | None]

    def padded(self, count: int, filler: int) -> dict[str, Any]:
        """As TRL's `rollout_func` returns rows, filled up with empty ones.

        Args:
            count: rows that TRL asked for.
            filler: a token of the empty rows, on which nothing is trained.

        Raises:
            ValueError: there are more rows than TRL asked for.
        """
        empty = count - len(self.completions)
        if empty < 0:
            raise ValueError(f"{len(self.completions)} rows for {count}: raise num_generations")
        shape = (count, max(map(len, self.completions)))
        mask = np.zeros(shape, int)
        for row, start, stop in (span for term in self.terms for span in term.spans):
            mask[row, start:stop] = 1
        completions = [*map(list, self.completions), *[[filler]] * empty]
        # TRL logs the mean reward, and warns at length of rows that have none.
        given = [reward for reward in self.reward if reward is not None]
        mean = float(np.mean(given)) if given else 0.0
        return {
            "prompt_ids": [*map(list, self.prompts), *[[filler]] * empty],
            "completion_ids": completions,
            "logprobs": None,
            "env_mask": [m[: len(c)].tolist() for m, c in zip(mask, completions, strict=True)],
            "token_advantages": list(token_advantages(shape, self.terms)),
            "reward": [*(mean if r is None else r for r in self.reward), *[mean] * empty],
        }


class PCQCTrainer(GRPOTrainer):
    """GRPO whose advantages are those that a rollout gives to each token.

    TRL divides the loss by the number of trained tokens of the batch (`loss_type="dapo"`), and a
    token's advantage is scaled so that each term is a mean over its own (eq:pcqc_objective). TRL
    wants `num_generations` rows of every prompt: the consultations, the candidates, empty rows.

    Args:
        roll_out: prompts as the dataset has them, one per case, and the trainer -> rows.
        arguments: of `GRPOTrainer`; `args.loss_type` must be "dapo".
    """

    def __init__(self, roll_out: Callable[[list, GRPOTrainer], Rows], **arguments: Any):
        super().__init__(
            reward_funcs=lambda reward, **_: list(reward), rollout_func=self._rows, **arguments
        )
        self._roll_out = roll_out
        if self.args.loss_type != "dapo":
            raise ValueError(
                f'loss_type "{self.args.loss_type}" is no mean over tokens: use "dapo"'
            )

    def _rows(self, prompts: list, trainer: GRPOTrainer) -> dict[str, Any]:
        rows = self._roll_out(prompts[:: self.num_generations], trainer)
        return rows.padded(len(prompts), self.processing_class.pad_token_id)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        length = output["completion_ids"].shape[1]
        rows = np.stack([row["token_advantages"][:length] for row in inputs])
        output["advantages"] = torch.from_numpy(rows).to(output["completion_ids"].device).float()
        return output
