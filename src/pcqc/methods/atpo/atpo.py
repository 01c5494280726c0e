"""ATPO, what an update does (app:pcqc_frozen_setup; `docs/atpo.md`).

Samples: a tree of consultations per case (`search.py`), pruned where the critic is certain.
Credits: each turn with r + V(s') - V(s), divided by its visits (`tree.py`).
Trains on: complete trajectories (`trajectories.py`), in mini-batches of one step each of actor and
critic; the critic (`critic.py`) learns the backed-up values, at first alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext
from pcqc.methods.atpo.critic import Critic
from pcqc.methods.atpo.search import Search, search_trees
from pcqc.methods.atpo.trajectories import Trajectory, trajectories
from pcqc.methods.atpo.tree import RunningVariance
from pcqc.methods.reward import tree_reward
from pcqc.methods.rollouts import RolloutBatch, answered_cases
from pcqc.methods.sequences import TERMINAL
from pcqc.study import Method
from pcqc.system.seeds import generator
from pcqc.training.policy import Policy, UpdateReport
from pcqc.training.policy_loss import Clip
from pcqc.training.sequences import KL
from pcqc.training.state import Part


@dataclass
class TreeBatch(RolloutBatch):
    """A searched tree per case.

    Attributes:
        searches: the trees.
        trajectories: the completed ones, what actor and critic train on.
    """

    searches: list[Search]
    trajectories: list[Trajectory]


class Atpo:
    """See the module.

    Args:
        settings: of the method, with those of its tree.
        policy: the actor in training.
        seed: of the run; names the order of the trajectories too.
        critic: in training.

    Attributes:
        memory: running statistics of the variances of Q; saved and resumed with the run.
    """

    def __init__(self, settings: Method, policy: Policy, seed: int, critic: Critic):
        self.settings, self.tree = settings, settings.tree
        self.policy, self.critic, self.seed = policy, critic, seed
        self.memory: dict[str, list[float]] = {}

    @property
    def parts(self) -> dict[str, Part]:
        """What a resumed run needs, by name."""
        return {"actor": self.policy.state, "critic": self.critic.state}

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the actor's loss."""
        return {TERMINAL: 1.0, KL: self.settings.kl_coefficient}

    def collect_rollouts(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> TreeBatch:
        """Search the tree of every case of an update; see `Grpo.collect_rollouts`."""
        statistics = RunningVariance(self.memory, self.tree.newest_level_weight)
        name = f"{self.seed}/update/{update}"
        every = search_trees(context, self.critic.values, self.tree, cases, statistics, name)
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
        found = [t for s in searches for t in trajectories(s, self.tree.divide_by_visits)]
        return TreeBatch(used, rows, rewards, gains, sampled, failures, searches, found)

    def learn(self, update: int, batch: TreeBatch) -> UpdateReport:
        """Take the steps of an update; losses and statistics are means over them."""
        rate = self.actor_rate(update)
        if rate:
            self.policy.keep_logprobs([s for t in batch.trajectories for s in t.actor])
        clip = Clip(self.policy.settings.clip, self.tree.clip_high, self.tree.dual_clip)
        reports = []
        for chosen in self.mini_batches(update, len(batch.trajectories)):
            mini_batch = [batch.trajectories[i] for i in chosen]
            metrics = self.critic.update([s for t in mini_batch for s in t.critic])
            report = UpdateReport({}, {})
            if rate:
                actor = [s for t in mini_batch for s in t.actor]
                report = self.policy.update(actor, self.coefficients, clip=clip, rate=rate)
            report.statistics |= metrics
            reports.append(report)
        return _mean(reports)

    def actor_rate(self, update: int) -> float:
        """The actor's learning rate as a factor of `rl`'s; 0 while the critic learns alone.

        It rises over `actor_warmup` of all updates.
        """
        step = update - self.tree.critic_updates
        rising = np.ceil(self.tree.actor_warmup * self.settings.updates)
        shared = self.policy.settings.learning_rate
        own = self.tree.actor_learning_rate or shared
        return float(np.clip(step / max(rising, 1), 0, 1)) * own / shared

    def mini_batches(self, update: int, count: int) -> list[np.ndarray]:
        """Trajectories of each step, in random order; the steps are of nearly equal size."""
        order = generator(self.seed, "mini-batches", update).permutation(count)
        steps = max(1, round(count / self.tree.trajectories_per_step))
        return np.array_split(order, steps)


def _mean(reports: list[UpdateReport]) -> UpdateReport:
    """One report of several steps: means, but sums of tokens and the largest gap."""
    how: dict[str, Callable] = {"tokens/trained": np.sum, "gap/max": np.max}

    def combined(rows: list[dict[str, float]]) -> dict[str, float]:
        return {k: float(how.get(k, np.mean)([row[k] for row in rows])) for k in rows[0]}

    losses, statistics = [r.losses for r in reports], [r.statistics for r in reports]
    return UpdateReport(combined(losses), {**combined(statistics), "steps": len(reports)})
