"""TRL's GRPOTrainer with an advantage for every token: PCQC, or any credit of `turn_credit`.

Read in TRL 1.16.0: `trainer/grpo_trainer.py` and `utils.py`.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from trl import GRPOTrainer

from turn_credit import Group, Ragged, Term, credit_update, flat_advantages


@dataclass(frozen=True)
class Rows:
    """What an update trains on, of the cases of one process.

    Attributes:
        prompts: token ids of each row's prompt.
        completions: token ids of each row, of what was said after the prompt; at least one.
        terms: name -> spans over completions with their credits; see `turn_credit.Term`. Terms of
            one name are one mean over the rows of all processes.
        reward: one for each row; None for candidates that were not executed.
        logprobs: float of each completion's tokens, by the engine that sampled them; None where a
            row, or a token, has none. Left out, no row is corrected for the engine.
        truncated: bool of each row, whether it was cut off. `mask_truncated_completions` needs it:
            such rows are not trained on.

    Raises:
        ValueError: terms without names, lists of other lengths, an empty prompt or completion, or
            log-probabilities that are more or fewer than tokens.
    """

    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]
    terms: Mapping[str, Term]
    reward: Sequence[float | None]
    logprobs: Sequence[Sequence[float | None] | None] | None = None
    truncated: Sequence[bool] | None = None

    def __post_init__(self):
        if not isinstance(self.terms, Mapping):
            raise ValueError('terms have names, as in {"terminal": Term(...)}')
        count = len(self.completions)
        for name in ("prompts", "reward", "logprobs", "truncated"):
            value = getattr(self, name)
            if value is not None and len(value) != count:
                raise ValueError(f"{len(value)} {name} for {count} completions")
        for row, (prompt, completion) in enumerate(
            zip(self.prompts, self.completions, strict=True)
        ):
            if not (len(prompt) and len(completion)):
                raise ValueError(f"row {row} has an empty prompt or completion; leave it out")
            own = self.logprobs[row] if self.logprobs is not None else None
            if own is not None and len(own) != len(completion):
                raise ValueError(
                    f"row {row} has {len(own)} log-probabilities for {len(completion)} tokens; "
                    "give None for tokens that were not sampled"
                )

    @property
    def lengths(self) -> list[int]:
        """Tokens of each completion."""
        return [len(completion) for completion in self.completions]

    def without_truncated(self) -> "Rows":
        """The rows, with no span on one that was cut off.

        Raises:
            ValueError: it is not said which were.
        """
        if self.truncated is None and len(self.completions):
            raise ValueError(
                "mask_truncated_completions: say which rows were cut off, Rows(truncated=...)"
            )
        terms = {}
        for name, term in self.terms.items():
            pairs = zip(term.spans, term.values, strict=True)
            kept = [(s, value) for s, value in pairs if not self.truncated[s[0]]]
            terms[name] = replace(term, spans=[s for s, _ in kept], credits=[v for _, v in kept])
        return replace(self, terms=terms)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several cases or processes; terms of one name become one.

    Raises:
        ValueError: a term of one name has different weights.
    """
    terms: dict[str, Term] = {}
    start = 0
    for part in parts:
        for name, term in part.terms.items():
            spans = [(start + row, first, stop) for row, first, stop in term.spans]
            before = terms.get(name, Term([], [], term.weight))
            if before.weight != term.weight:
                raise ValueError(
                    f"term '{name}' has weight {before.weight} and {term.weight}; give it one"
                )
            credits = np.append(before.values, term.values)
            terms[name] = Term([*before.spans, *spans], credits, term.weight)
        start += len(part.completions)
    logprobs, truncated = None, None
    if any(part.logprobs is not None for part in parts):
        logprobs = [own for p in parts for own in p.logprobs or [None] * len(p.completions)]
    if all(part.truncated is not None or not part.completions for part in parts):
        truncated = [cut for part in parts for cut in part.truncated or ()]
    return Rows(
        [prompt for part in parts for prompt in part.prompts],
        [completion for part in parts for completion in part.completions],
        terms,
        [reward for part in parts for reward in part.reward],
        logprobs,
        truncated,
    )


def credit_everywhere(name: str, groups: Sequence[Group], **settings: Any) -> list[Ragged]:
    """`credit_update` of this process's groups, compared with those of all processes.

    For a credit that compares across an update, such as `executed_local`. Every process calls it.
    """
    before = [0, *np.cumsum(gather_object([len(groups)])).tolist()]
    credits = credit_update(name, gather_object(list(groups)), **settings)
    own = PartialState().process_index
    return credits[before[own] : before[own + 1]]


class PCQCTrainer(GRPOTrainer):
    """GRPO whose advantages are those that a rollout gives to each token.

    TRL divides the loss by the number of trained tokens of the batch (`loss_type="dapo"`), and a
    token's advantage is scaled so that each term is a mean over its own, over all processes
    (eq:pcqc_objective). The cases of a batch are dealt out to the processes, and so are all rows
    afterwards: some process may have many rows, or none. `num_generations` says how many rows a
    case has, about; micro-batches are larger where there are more, and smaller where fewer.

    Args:
        roll_out: prompts as the dataset has them, one per case, and the trainer -> rows. It is
            called in every process, with no prompt where there are fewer cases than processes.
        arguments: those of `GRPOTrainer`; `args.loss_type` must be "dapo".
    """

    def __init__(self, roll_out: Callable[[list, GRPOTrainer], Rows], **arguments: Any):
        super().__init__(
            reward_funcs=lambda reward, **_: list(reward), rollout_func=self._laid, **arguments
        )
        self._roll_out = roll_out
        if self.args.loss_type != "dapo":
            raise ValueError(
                f'loss_type "{self.args.loss_type}" is no mean over tokens: use "dapo"'
            )
        # TRL would leave out every row that ends in no end token, such as a patient's answer.
        self._leaves_out_truncated = self.args.mask_truncated_completions
        self.mask_truncated_completions = False
        self._output: dict[str, Any] = {}
        self._told: set[str] = set()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        group = self.num_generations if self.model.training else self.num_generations_eval
        steps = self.args.steps_per_generation if self.model.training else 1
        own = self._roll_out(self._cases(inputs, group), self)
        if self._leaves_out_truncated:
            own = own.without_truncated()
        rows = joined(gather_object([own]))
        count = self._rows_of_a_process(len(rows.completions), group, steps)
        if count > len(inputs):
            self._tell_once(
                "rows",
                f"{len(rows.completions)} rows, and TRL asked each process for {len(inputs)}: a "
                f"micro-batch has {count // steps}; raise num_generations",
            )
        mine = range(self.accelerator.process_index, len(rows.completions), self._processes)
        self._output = self._padded(rows, mine, count)
        prompts = self._tokenizer.batch_decode(self._output["prompt_ids"])
        output = super()._generate_and_score_completions([{"prompt": text} for text in prompts])
        advantages = torch.zeros(output["completion_ids"].shape)
        flat = flat_advantages(rows.lengths, [*rows.terms.values()])
        every = np.split(flat, np.cumsum(rows.lengths)[:-1])
        for place, row in enumerate(mine):
            advantages[place, : len(every[row])] = torch.from_numpy(every[row])
        output["advantages"] = advantages.to(output["completion_ids"].device)
        return output

    @property
    def _processes(self) -> int:
        return self.accelerator.num_processes

    def _cases(self, inputs: Sequence[Mapping[str, Any]], group: int) -> list:
        """This process's share of the batch's cases; TRL repeats each `group` times."""
        prompts = gather_object([row["prompt"] for row in inputs])
        cases = prompts[::group]
        if len(prompts) % group or any(
            prompt != cases[i // group] for i, prompt in enumerate(prompts)
        ):
            raise ValueError(
                f"a batch of {len(prompts)} rows is not {group} of each case; set "
                "per_device_eval_batch_size so that all processes' rows are a multiple of it"
            )
        edges = np.linspace(0, len(cases), self._processes + 1).round().astype(int)
        own = self.accelerator.process_index
        return cases[edges[own] : edges[own + 1]]

    def _rows_of_a_process(self, rows: int, group: int, steps: int) -> int:
        """How many rows each process has, so that micro-batches and TRL's groups are whole."""
        unit = math.lcm(steps, group // math.gcd(group, self._processes))
        return unit * max(1, math.ceil(rows / self._processes / unit))

    def _padded(self, rows: Rows, mine: Sequence[int], count: int) -> dict[str, Any]:
        """As TRL's `rollout_func` returns this process's rows, filled up with empty ones."""
        masks = [np.zeros(length, int) for length in rows.lengths]
        for row, start, stop in (span for term in rows.terms.values() for span in term.spans):
            masks[row][start:stop] = 1
        filler = [[self._tokenizer.pad_token_id]] * (count - len(mine))
        completions = [[*map(int, rows.completions[i])] for i in mine] + filler
        # TRL logs the mean reward, and warns at length of rows that have none.
        given = [reward for reward in rows.reward if reward is not None]
        mean = float(np.mean(given)) if given else 0.0
        rewards = [mean if rows.reward[i] is None else float(rows.reward[i]) for i in mine]
        return {
            "prompt_ids": [[*map(int, rows.prompts[i])] for i in mine] + filler,
            "completion_ids": completions,
            "logprobs": self._logprobs(rows, mine, completions),
            "env_mask": [masks[i].tolist() for i in mine] + [[0]] * len(filler),
            "reward": rewards + [mean] * len(filler),
        }

    def _logprobs(
        self, rows: Rows, mine: Sequence[int], completions: Sequence[Sequence[int]]
    ) -> list[list[float | None]] | None:
        """As TRL takes them; None for a token makes its correction 1."""
        if rows.logprobs is None:
            if not self.use_vllm:
                return None
            if self.vllm_importance_sampling_correction:
                self._tell_once("engine", "rows without logprobs: not corrected for the engine")
        given = [rows.logprobs[i] if rows.logprobs else None for i in mine]
        given += [None] * (len(completions) - len(mine))
        return [
            [None] * len(tokens) if own is None else [*own]
            for own, tokens in zip(given, completions, strict=True)
        ]

    def _laid(self, prompts: list, trainer: GRPOTrainer) -> dict[str, Any]:
        return dict(self._output)

    def _tell_once(self, kind: str, message: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            warnings.warn(message, stacklevel=2)
