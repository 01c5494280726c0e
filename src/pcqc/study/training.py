"""Settings of consultations and of training: protocol, SFT, RL, methods."""

from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc.study.settings import STRICT, Count, Positive, Share, Title, Weight, Whole


@dataclass(frozen=True, config=STRICT)
class Protocol:
    """Limits and words of a consultation (`sec:setup`, `app:evaluation_protocol`)."""

    # System message of the actor; where not given, the one that the published cases carry
    # (data_prep.instruction). The clinic's must be given.
    instruction: str | None = None
    max_turns: Count = 10  # actor turns, the final answer included
    prompt_tokens: Count = 1024
    response_tokens: Count = 4096  # everything after the prompt, answers of the patient included
    action_tokens: Count = 512
    earlier_thinking: Literal["keep", "drop"] = "keep"  # in the history, in SFT, RL and evaluation


@dataclass(frozen=True, config=STRICT)
class Sft:
    """Supervised fine-tuning on assistant tokens (`app:pcqc_frozen_setup`)."""

    epochs: Count  # of the actor
    patient_epochs: Whole  # the patient is the checkpoint after these
    batch_size: Count
    learning_rate: Positive
    weight_decay: Weight = 0.01
    max_gradient_norm: Positive = 1.0
    seed: int = 0


@dataclass(frozen=True, config=STRICT)
class Rl:
    """Policy optimisation, shared by all methods (`app:pcqc_frozen_setup`)."""

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
    gap_alarm: Positive = 0.05  # largest tolerated mean |log pi_learner - log pi_engine| of tokens
    sampled_consultations: Whole = 8  # per update, kept to read


@dataclass(frozen=True, config=STRICT)
class TreeSearch:
    """Tree search and actor-critic update of ATPO (`app:pcqc_frozen_setup`; Cao et al.)."""

    budget: Count = 128  # M, trajectories per case that the tree is kept to
    candidates: Count = 4  # N, responses sampled at an expanded state
    threshold: Weight = 1.2  # of the uncertainty U, below which a state's children are pruned
    prune_probability: Share = 0.9  # of keeping only one child if U is below the threshold
    variance_weight: Share = 0.3  # of U2 in U; 0: U1 only, 1: U2 only
    newest_level_weight: Share = 0.4  # of an update's variances of Q in their running statistics
    reward_correct: float = 3.0
    reward_wrong: float = 0.0  # a valid final answer that is not the correct one
    reward_none: float = -1.0  # no valid final answer
    divide_by_visits: bool = True  # a turn's advantage, by the trajectories that share it
    trajectories_per_step: Count = 128  # of a mini-batch; an update takes several optimiser steps
    clip_high: Positive = 0.28  # upper bound of the ratio less 1; the lower one is rl.clip
    dual_clip: Positive = 10.0  # bound of the ratio if the advantage is negative
    actor_learning_rate: Positive | None = None  # default: rl.learning_rate
    actor_warmup: Share = 0.03  # share of the updates in which the actor's rate rises
    critic_learning_rate: Positive = 1e-5
    critic_clip: Positive = 0.5  # largest change of a value from that of the search
    critic_updates: Whole = 4  # first updates, which train only the critic


# How a question is credited, in words, for each `question_credit`.
QUESTION_CREDITS = {
    "none": "questions get no credit of their own",
    "same_state": "questions are compared with the other candidates at the same state",
    "executed_local": "executed questions are compared across all states of an update",
    "leave_one_out": "questions are compared with the mean of the others at the same state",
}
# What a candidate question is worth, in words, for each `question_utility`.
UTILITIES = {
    "scorer": "by what the scorer makes of the answer",
    "continuations": "by the reward of consultations that go on from it",
    "expected_answer": "by what the answers that it might get are worth",
}
# How the turns of a consultation are credited, in words, for each `turn_credit`.
TURN_CREDITS = {
    "outcome": "all turns with the reward of the whole consultation",
    "igpo": "each turn with the beliefs gained from it on, and the reward",
    "tips": "each turn with the reward, shaped by the scorer's log-probability",
    "vineppo": "each turn with the change of its Monte-Carlo value",
    "gigpo": "each turn with the reward, and beside others at the same state",
    "mt_grpo": "each turn with the belief gained in it, and the reward",
}
OF_BELIEFS = ("igpo", "tips", "mt_grpo")  # turn credits that read the correct option's probability


@dataclass(frozen=True, config=STRICT)
class Method:
    """A method or control; see `config/methods.yaml`."""

    title: Title
    kind: Literal["sft", "rl"] = "rl"
    role: Literal["method", "control", "ablation", "peer", "rate"] = "method"
    terminal_group: Count = 4  # G_T, complete consultations per case
    question_group: Whole = 0  # G_Q, candidate responses per supervised state; 0: none
    question_credit: Literal["none", "same_state", "executed_local", "leave_one_out"] = "none"
    question_utility: Literal["scorer", "continuations", "expected_answer"] = "scorer"
    turn_credit: Literal["outcome", "igpo", "tips", "vineppo", "gigpo", "mt_grpo"] = "outcome"
    belief: Literal["scorer", "actor"] = "scorer"  # whose, for the credits that read it
    continuations: Whole = 0  # consultations played on from each state, or from each candidate
    imagined_answers: Whole = 0  # per question, of `expected_answer`; 0: exact, in the clinic alone
    supervise: Literal["all", "executed"] = "all"  # whose question tokens receive credit
    beta: Weight = 0.0  # weight of the question loss
    kl_coefficient: Weight = 0.001
    updates: Whole = 222
    runs: tuple[str, ...] = ("A", "B", "C")
    tree: TreeSearch | None = None  # searches a tree per case, in place of groups
    # settings of the study's `rl` that this method alone has otherwise; see `pcqc vary`
    rl: dict[str, int | float] = Field(default_factory=dict)

    @property
    def on_demand(self) -> bool:
        """Whether it is no part of the paper's study: `snakemake all` leaves it out."""
        return self.role in ("ablation", "peer", "rate")

    @property
    def scored(self) -> bool:
        """Whether its runs need the scorer."""
        questions = self.question_credit != "none" and (
            self.question_utility == "scorer" or self.imagined_answers > 0
        )
        return questions or (self.turn_credit in OF_BELIEFS and self.belief == "scorer")

    def __post_init__(self):
        if self.tree and (self.question_credit != "none" or self.question_group):
            raise ValueError("a tree search has no question group; leave out question_credit")
        if self.question_credit != "none" and self.question_group < 2:
            raise ValueError("question credit needs question_group >= 2 candidates to compare")
        if self.question_credit == "none" and self.beta:
            raise ValueError("beta weighs a question loss, but question_credit is none")
        if self.question_credit == "none" and self.question_group:
            raise ValueError("question_group samples candidates for question_credit: set that one")
        if self.question_credit == "executed_local" and self.supervise != "executed":
            raise ValueError("executed_local credits executed questions: set supervise: executed")
        if self.question_credit == "executed_local" and self.question_utility != "scorer":
            raise ValueError("executed_local is the scorer's gain: leave out question_utility")
        if self.question_credit == "none" and self.question_utility != "scorer":
            raise ValueError("question_utility is for question_credit: set that one too")
        if self.turn_credit != "outcome" and (self.tree or self.question_credit != "none"):
            raise ValueError("turn_credit goes with neither a tree nor question_credit")
        played = self.turn_credit == "vineppo" or self.question_utility == "continuations"
        if played != (self.continuations > 0):
            raise ValueError(
                "continuations are for turn_credit: vineppo and question_utility: continuations, "
                "which need at least 1"
            )
        if self.imagined_answers and self.question_utility != "expected_answer":
            raise ValueError("imagined_answers are for question_utility: expected_answer")
        if self.belief == "actor" and self.turn_credit not in OF_BELIEFS:
            raise ValueError(f"belief is for turn_credit: {', '.join(OF_BELIEFS)}")
