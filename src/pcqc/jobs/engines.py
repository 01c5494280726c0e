"""The engines of a training run: awake while something is drawn, and then up to date."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pcqc.cases import Case
from pcqc.config import Study
from pcqc.consultation import Setting
from pcqc.engines.server import ServerEngine
from pcqc.engines.spread import SpreadEngine
from pcqc.jobs.setup import make_sync
from pcqc.processes import Processes
from pcqc.roles import Scorer
from pcqc.training.policy import Policy


class Engines:
    """Those of actor, patient and scorer.

    Args:
        study: settings.
        setting: actor and patient; in several processes they get engines that share the work.
        scorer: likewise; None where nothing is scored.
        policy: whose weights the actor's engine is brought.
        cases: on whose prompts engine and learner are compared, where they are two.
        processes: that draw together.
    """

    def __init__(
        self,
        study: Study,
        setting: Setting,
        scorer: Scorer | None,
        policy: Policy,
        cases: Sequence[Case],
        processes: Processes,
    ):
        roles = {"actor": setting.actor, "patient": setting.patient, "scorer": scorer}
        roles = {name: role for name, role in roles.items() if role is not None}
        self.policy, self.processes = policy, processes
        self.sync = make_sync(study, setting, policy, cases)
        own = {name: role.engine for name, role in roles.items()}
        self.servers = {n: engine for n, engine in own.items() if isinstance(engine, ServerEngine)}
        if processes.count > 1:
            for role in roles.values():
                role.engine = SpreadEngine(role.engine, processes)
        self.engines = [role.engine for role in roles.values()]

    @contextmanager
    def awake(self) -> Iterator[dict[str, float]]:
        """All engines for as long as they are needed, the actor's with the learner's weights.

        A cache never outlives an update: a resumed run meets the caches it would have met.

        Yields:
            Figures for the record, complete once the engines sleep: `sync/gap` where an engine with
            a copy of the weights was compared with the learner, and `servers/<role>/...` where
            a role is served.
        """
        for engine in self.engines:
            engine.wake()
            engine.reset_cache()
        gaps = self.processes.gather(self.sync(self.policy.weights()))
        health = {} if gaps[0] is None else {"sync/gap": max(gaps)}
        yield health
        for role, server in self.servers.items():
            for name, count in server.take_counts().items():
                health[f"servers/{role}/{name}"] = sum(self.processes.gather(count))
        for engine in self.engines:
            engine.sleep()
