"""What an update does with the drawn material: one step of the policy, or actor and critic."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pcqc.config import Method
from pcqc.methods.assemble import coefficients
from pcqc.methods.draw import Drawn, DrawnGroups, DrawnTrees
from pcqc.seeds import generator
from pcqc.training.critic import Critic
from pcqc.training.objective import Clip
from pcqc.training.policy import Policy, UpdateReport
from pcqc.training.state import Part


class Learner(Protocol):
    """Learns from what an update drew."""

    @property
    def parts(self) -> Mapping[str, Part]:
        """What a resumed run needs of it."""

    def learn(self, update: int, drawn: Drawn) -> UpdateReport:
        """Take the steps of update number `update`."""


@dataclass(frozen=True)
class GroupLearner:
    """GRPO and PCQC: one PPO epoch, one optimiser step (Appendix A.2)."""

    method: Method
    policy: Policy

    @property
    def parts(self) -> Mapping[str, Part]:
        """See `Learner.parts`."""
        return {"actor": self.policy.state}

    def learn(self, update: int, drawn: DrawnGroups) -> UpdateReport:
        """See `Learner.learn`."""
        return self.policy.update(drawn.sequences, coefficients(self.method))


@dataclass(frozen=True)
class TreeLearner:
    """ATPO: actor and critic, a step each per mini-batch of trajectories.

    In the first `critic_updates` updates the critic learns alone; the actor's learning rate then
    rises over `actor_warmup` of all updates.

    Attributes:
        seed: of the run; names the order of the trajectories.
    """

    method: Method
    policy: Policy
    critic: Critic
    seed: int

    @property
    def parts(self) -> Mapping[str, Part]:
        """See `Learner.parts`."""
        return {"actor": self.policy.state, "critic": self.critic.state}

    def learn(self, update: int, drawn: DrawnTrees) -> UpdateReport:
        """See `Learner.learn`; losses and statistics are means over the steps."""
        tree, policy = self.method.tree, self.policy
        rate = self._rate(update)
        if rate:
            policy.keep_logprobs([s for t in drawn.trajectories for s in t.actor])
        clip = Clip(policy.settings.clip, tree.clip_high, tree.dual_clip)
        reports = []
        for chosen in self._mini_batches(update, len(drawn.trajectories)):
            batch = [drawn.trajectories[i] for i in chosen]
            figures = self.critic.update([s for t in batch for s in t.critic])
            report = UpdateReport({}, {})
            if rate:
                actor = [s for t in batch for s in t.actor]
                report = policy.update(actor, coefficients(self.method), clip=clip, rate=rate)
            report.statistics |= figures
            reports.append(report)
        return _mean(reports)

    def _rate(self, update: int) -> float:
        """The actor's learning rate as a part of `rl`'s; 0 while the critic learns alone."""
        tree = self.method.tree
        step = update - tree.critic_updates
        rising = np.ceil(tree.actor_warmup * self.method.updates)
        own = tree.actor_learning_rate or self.policy.settings.learning_rate
        return (
            float(np.clip(step / max(rising, 1), 0, 1)) * own / self.policy.settings.learning_rate
        )

    def _mini_batches(self, update: int, count: int) -> list[np.ndarray]:
        """Trajectories of each step, in a random order, no two steps of very different size."""
        order = generator(self.seed, "mini-batches", update).permutation(count)
        steps = max(1, round(count / self.method.tree.trajectories_per_step))
        return np.array_split(order, steps)


def _mean(reports: list[UpdateReport]) -> UpdateReport:
    """One report of several steps: means, but sums of tokens and the largest of the largest."""
    how = {"tokens/trained": np.sum, "gap/max": np.max}

    def together(rows: list[dict[str, float]]) -> dict[str, float]:
        return {k: float(how.get(k, np.mean)([row[k] for row in rows])) for k in rows[0]}

    losses, statistics = [r.losses for r in reports], [r.statistics for r in reports]
    return UpdateReport(together(losses), {**together(statistics), "steps": len(reports)})
