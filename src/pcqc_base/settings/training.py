"""Settings of consultations and of training: protocol, SFT, RL."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import STRICT, Count, Positive, Weight, Whole


@dataclass(frozen=True, config=STRICT)
class Protocol:
    """Limits and words of a consultation (`sec:setup`, `app:evaluation_protocol`)."""

    # System message of the actor; where not given, the one that the published cases carry
    # (data_prep.instruction).
    instruction: str | None = None
    max_turns: Count = 10  # actor turns, the final answer included
    prompt_tokens: Count = 1024
    response_tokens: Count = 4096  # everything after the prompt, answers of the patient included
    action_tokens: Count = 512
    earlier_thinking: Literal["keep", "drop"] = "keep"  # in the history, in SFT, RL and evaluation


@dataclass(frozen=True, config=STRICT)
class Sft:
    """Supervised fine-tuning on assistant tokens (`app:pcqc_frozen_setup`)."""

    epochs: Whole  # of the actor; 0: it is Shared SFT already
    patient_epochs: Whole  # the patient is the checkpoint after these
    batch_size: Count
    learning_rate: Positive
    weight_decay: Weight = 0.01
    max_gradient_norm: Positive = 1.0
    seed: int = 0


@dataclass(frozen=True, config=STRICT)
class Rl:
    """Policy optimisation, shared by all methods (`app:pcqc_frozen_setup`).

    What has no value here every study must give.
    """

    cases_per_update: Count
    learning_rate: Positive
    checkpoint_every: Count  # updates between checkpoints, each validated on the development set
    weight_decay: Weight = 0.01
    clip: Positive = 0.2
    max_gradient_norm: Positive = 1.0
    save_every: Count = 10  # updates between resumable states
    # A run ends before its last update once validation has levelled off: when the best accuracy of
    # the last `level_after` checkpoints is less than `level_points` points above the best before
    # them. 0: every run does all its updates.
    level_after: Whole = 0
    level_points: Positive = 1.0
    tokens_per_micro_batch: Count = 16384
    # of the actor's rollouts, at temperature 1; 1: the policy itself (docs/clinic.md)
    rollout_top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    gap_alarm: Positive = 0.05  # largest tolerated mean |log pi_learner - log pi_engine| of tokens
    # How far engine and learner differ as policies is logged; the others weigh the loss by it
    mismatch: Literal["log", "truncate", "mask"] = "log"
    sampled_consultations: Whole = 8  # per update, kept to read
