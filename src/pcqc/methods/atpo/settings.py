"""Settings of the tree search and of the actor-critic update; documented where they stand."""

from typing import Literal

from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import STRICT, Count, Positive, Share, Weight, Whole


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
    # What a turn's advantage is read from: the critic, as ATPO's release is run, or the tree
    # (`turn_credit.tree.atpo` has each).
    advantage: Literal["critic", "critic_or_backed_up", "backed_up", "return"] = "critic"
    trajectories_per_step: Count = 128  # of a mini-batch; an update takes several optimiser steps
    clip_high: Positive = 0.28  # upper bound of the ratio less 1; the lower one is rl.clip
    dual_clip: Positive = 10.0  # bound of the ratio if the advantage is negative
    actor_learning_rate: Positive | None = None  # default: rl.learning_rate
    actor_warmup: Share = 0.03  # share of the updates in which the actor's rate rises
    critic_learning_rate: Positive = 1e-5
    critic_clip: Positive = 0.5  # largest change of a value from that of the search
    # Where V is read and trained, with i a response's first token: at the tokens before i that end
    # a state, or as in ATPO's release: read a token earlier, trained at as many from i - 1 on.
    value_positions: Literal["state", "release"] = "state"
    critic_updates: Whole = 4  # first updates, which train only the critic
