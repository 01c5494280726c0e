"""The engines of a training run: awake during sampling, with the current weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext
from pcqc.engines.metered import MeteredEngine
from pcqc.engines.sharded import ShardedEngine
from pcqc.jobs.make_roles import make_weight_update
from pcqc.roles import Scorer
from pcqc.training.policy import Policy
from pcqc_base.system.processes import Processes
from pcqc_base.task import Task


class Engines:
    """The engines of actor, patient and scorer.

    Args:
        task: settings.
        context: actor and patient; they get engines that count tokens, in several processes
            sharded ones.
        scorer: likewise; None where nothing is scored.
        policy: whose weights the actor's engine receives.
        cases: on whose prompts engine and learner are compared, if they are two.
        processes: that draw together.
    """

    def __init__(
        self,
        task: Task,
        context: RolloutContext,
        scorer: Scorer | None,
        policy: Policy,
        cases: Sequence[Case],
        processes: Processes,
    ):
        roles: dict[str, Any] = {"actor": context.actor, "patient": context.patient}
        if scorer is not None:
            roles["scorer"] = scorer
        self.policy, self.processes = policy, processes
        self.sync = make_weight_update(task, context, policy, cases)
        own = {name: role.engine for name, role in roles.items()}
        self.own = dict(own)
        self.sampler = own["actor"]
        self.synced: tuple[int, float | None] | None = None  # version of the weights, and the gap
        # Inside the shards, so that a process counts its own; what compares weights is not counted.
        self.meters = {name: MeteredEngine(engine) for name, engine in own.items()}
        for name, role in roles.items():
            role.engine = self.meters[name]
        if processes.count > 1:
            own["actor"].processes = processes
            for role in roles.values():
                role.engine = ShardedEngine(role.engine, processes)
        self.engines = [role.engine for role in roles.values()]

    @contextmanager
    def awake(self) -> Iterator[dict[str, float]]:
        """All engines, awake inside the context, the actor's with the learner's weights.

        The same weights are handed over twice only to an engine that dropped them in its sleep.
        No cache outlives an update, so a resumed run has the same caches.

        Yields:
            Metrics for the record, complete once the engines sleep: `read/<role>` and
            `sampled/<role>`, tokens of all processes; `sync/gap`, see `make_weight_update`, where
            an engine has a copy of the weights, and `servers/<role>/...` where a role is served.
        """
        for engine in self.engines:
            engine.wake()
            engine.reset_cache()
        if self.synced is None or self.synced[0] != self.policy.version or self.sampler.empty:
            gaps = self.processes.gather(self.sync(self.policy.weights()))
            self.synced = self.policy.version, None if gaps[0] is None else max(gaps)
        gap = self.synced[1]
        health: dict[str, float] = {} if gap is None else {"sync/gap": gap}
        yield health
        for role, meter in self.meters.items():
            for name, count in meter.take_counts().items():
                health[f"{name}/{role}"] = sum(self.processes.gather(count))
        for role, engine in self.own.items():
            for name, count in engine.take_faults().items():
                health[f"servers/{role}/{name}"] = sum(self.processes.gather(count))
        for engine in self.engines:
            engine.sleep()
