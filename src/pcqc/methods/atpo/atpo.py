"""ATPO, what an update does (app:pcqc_frozen_setup; `docs/atpo.md`).

Samples: a tree of consultations per case, pruned where the critic is certain
(`search_and_pruning.py`).
Credits: each turn by the critic's or the tree's values, divided by its visits (`turn_credit.tree`).
Trains on: complete trajectories (`trajectories.py`), in mini-batches of one step each of actor and
critic; the critic (`critic.py`) learns the backed-up values, at first alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext
from pcqc.logged.trees import tree_metrics, tree_row
from pcqc.methods.atpo.search_and_pruning import Search, search_trees, tree_reward
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.atpo.trajectories import Trajectory, trajectories
from pcqc.methods.base import RlMethod, Services
from pcqc.methods.rollouts import RolloutBatch, answered_cases
from pcqc.methods.sequences import TERMINAL
from pcqc.seeds import generator
from pcqc.training.training_sequence import KL
from pcqc_base.settings import Rl
from pcqc_base.settings.types import STRICT
from turn_credit.tree import RunningVariance

if TYPE_CHECKING:
    from pcqc.methods.atpo.critic import Critic
    from pcqc.training.backend import MakeBackend
    from pcqc.training.policy import Policy, UpdateReport


@dataclass
class TreeBatch(RolloutBatch):
    """A searched tree per case.

    Attributes:
        searches: the trees.
        trajectories: the completed ones, what actor and critic train on.
        rules: how advantages are read.
    """

    searches: list[Search]
    trajectories: list[Trajectory]
    rules: TreeSearch

    def metrics(self) -> dict[str, float]:
        """Metric name -> value, those of trees among them."""
        return {**super().metrics(), **tree_metrics(self.searches)}

    def records(self) -> dict[str, list[dict]]:
        """Rows for `trees.jsonl`: the update's first tree alone is kept."""
        return {"trees": [tree_row(self.searches[0], self.rules)]}


@settings(frozen=True, config=STRICT)
class Atpo(RlMethod):
    """ATPO's settings and updates. A run's memory has running statistics of the variances of Q."""

    tree: TreeSearch = Field(default_factory=TreeSearch)

    records: ClassVar[tuple[str, ...]] = ("trees",)
    several_steps: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent, a critic among them."""
        return super().needs | {"critic"}

    def make_critic(self, body: Any, ending: int, rl: Rl, backend: "MakeBackend") -> "Critic":
        """The critic of states, with its optimiser."""
        from pcqc.methods.atpo.critic import Critic

        return Critic(body, ending, self.tree, rl, backend)

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the actor's loss."""
        return {TERMINAL: 1.0, KL: self.kl_coefficient}

    def collect_rollouts(
        self, services: Services, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> TreeBatch:
        """Search the tree of every case, and credit its trajectories."""
        statistics = RunningVariance(services.memory, self.tree.newest_level_weight)
        name, values = f"{services.seed}/update/{update}", services.critic.values
        every = search_trees(context, values, self.tree, cases, statistics, name)
        kept = answered_cases([[d.consultation for d in search.dialogues] for search in every])
        failures = {"failures/patient": len(cases) - len(kept)}
        used, searches = [cases[i] for i in kept], [every[i] for i in kept]
        rows = [[consultation for consultation, _ in search.trajectories] for search in searches]
        rewards = [
            np.array([tree_reward(case, consultation, self.tree) for consultation in row])
            for case, row in zip(used, rows, strict=True)
        ]
        gains = [r - s.tree.nodes[0].value for s, r in zip(searches, rewards, strict=True)]
        sampled = sum(
            len(dialogue.consultation.turns[-1].executed.completion.tokens)
            for search in searches
            for dialogue in search.dialogues[1:]
        )
        flat = [t for search in searches for t in trajectories(search, self.tree)]
        return TreeBatch(used, rows, rewards, gains, sampled, failures, searches, flat, self.tree)

    def learn(self, services: Services, update: int, batch: TreeBatch) -> "UpdateReport":
        """Take the steps of an update; losses and statistics are means over them."""
        from pcqc.training.policy import UpdateReport
        from pcqc.training.policy_loss import Clip

        policy, rate = services.policy, self.actor_rate(services.policy, update)
        if rate:
            policy.keep_logprobs([s for t in batch.trajectories for s in t.actor])
        if self.tree.value_positions == "release":
            services.critic.keep_values([s for t in batch.trajectories for s in t.critic])
        clip = Clip(policy.settings.clip, self.tree.clip_high, self.tree.dual_clip)
        reports = []
        for chosen in self.mini_batches(services.seed, update, len(batch.trajectories)):
            mini_batch = [batch.trajectories[i] for i in chosen]
            metrics = services.critic.update([s for t in mini_batch for s in t.critic])
            report = UpdateReport({}, {})
            if rate:
                actor = [s for t in mini_batch for s in t.actor]
                report = policy.update(actor, self.coefficients, clip=clip, rate=rate)
            report.statistics |= metrics
            reports.append(report)
        losses, statistics = [r.losses for r in reports], [r.statistics for r in reports]
        return UpdateReport(_mean(losses), {**_mean(statistics), "steps": len(reports)})

    def actor_rate(self, policy: "Policy", update: int) -> float:
        """The actor's learning rate as a factor of `rl`'s; 0 while the critic learns alone.

        It rises over `actor_warmup` of all updates.
        """
        step = update - self.tree.critic_updates
        rising = np.ceil(self.tree.actor_warmup * self.updates)
        shared = policy.settings.learning_rate
        own = self.tree.actor_learning_rate or shared
        return float(np.clip(step / max(rising, 1), 0, 1)) * own / shared

    def mini_batches(self, seed: int, update: int, count: int) -> list[np.ndarray]:
        """Trajectories of each step, in random order; the steps are of nearly equal size."""
        order = generator(seed, "mini-batches", update).permutation(count)
        steps = max(1, round(count / self.tree.trajectories_per_step))
        return np.array_split(order, steps)


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Numbers of several steps as one: means, but sums of tokens and the largest maximum."""

    def how(name: str) -> Callable:
        if name == "tokens/trained":
            return np.sum
        return np.max if name.endswith("max") else np.mean

    return {k: float(how(k)([row[k] for row in rows])) for k in rows[0]}
