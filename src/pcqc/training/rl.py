"""The reinforcement-learning loop: draw, credit, learn, validate, remember."""

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pcqc.cases import Case
from pcqc.config import Method, Rl
from pcqc.errors import UserError
from pcqc.methods.draw import Drawn
from pcqc.order import batch_of_step
from pcqc.processes import ALONE, Processes
from pcqc.progress import Progress
from pcqc.training.learners import Learner
from pcqc.training.policy import UpdateReport
from pcqc.training.state import load_state, save_state


class Phases:
    """Seconds spent per phase since the last reset."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str):
        """Add the time inside to the phase `name`."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass
class Totals:
    """Running totals of a run; carried across a resume."""

    trajectories: int = 0
    actor_tokens: int = 0
    device_seconds: float = 0.0


@dataclass
class Loop:
    """What the loop needs from outside.

    Attributes:
        draw: (update, cases, phases) -> consultations with their credit, drawn from the current
            policy.
        learner: learns from them.
        cases: to train on.
        method: settings; how many updates.
        settings: cases per update, and how often to checkpoint and to save.
        seed: of the run; names the order of the cases.
        state: folder of the resumable state.
        label: for progress.
        on_resume: number of finished updates -> None; called once, before any other.
        on_update: (update, drawn, report, totals, seconds) -> None; keeps the record.
        on_checkpoint: update -> None; writes and validates a checkpoint.
        memory: plain data that `draw` keeps from update to update; saved and resumed.
        devices: allocated devices; device-seconds are this times the wall clock.
        processes: that run this loop together; the first says how far it is.
        phases: seconds of the update under way.
    """

    cases: Sequence[Case]
    learner: Learner
    method: Method
    settings: Rl
    seed: int
    state: Path
    draw: Callable[[int, list[Case], Phases], Drawn]
    on_resume: Callable[[int], None]
    on_update: Callable[[int, Drawn, UpdateReport, Totals, dict[str, float]], None]
    on_checkpoint: Callable[[int], None]
    label: str
    memory: dict = field(default_factory=dict)
    devices: int = 1
    processes: Processes = ALONE
    phases: Phases = field(default_factory=Phases)


def run_loop(loop: Loop) -> Totals:
    """Run all updates, from the saved state where there is one; the totals through the last."""
    settings = loop.settings
    cursor = load_state(loop.state, loop.learner.parts, loop.processes)
    cursor = cursor or {"step": 0, "totals": {}, "memory": {}}
    totals = Totals(**cursor["totals"])
    loop.memory.update(cursor["memory"])
    loop.on_resume(cursor["step"])
    progress = Progress(
        loop.label,
        loop.method.updates,
        "update",
        done=cursor["step"],
        silent=not loop.processes.leads,
    )
    for update in range(cursor["step"] + 1, loop.method.updates + 1):
        drawn, report = _one_update(loop, update, totals)
        progress.advance(accuracy=drawn.figures["accuracy"], turns=drawn.figures["turns"])
        loop.on_update(update, drawn, report, totals, dict(loop.phases.seconds))
        if update % settings.checkpoint_every == 0 or update == loop.method.updates:
            loop.on_checkpoint(update)
        if update % settings.save_every == 0 or update == loop.method.updates:
            cursor = {"step": update, "totals": vars(totals), "memory": loop.memory}
            save_state(loop.state, loop.learner.parts, cursor, loop.processes)
    progress.close()
    return totals


def _one_update(loop: Loop, update: int, totals: Totals) -> tuple[Drawn, UpdateReport]:
    loop.phases.seconds.clear()
    start = time.perf_counter()
    cases = cases_of_update(loop.cases, loop.seed, update, loop.settings.cases_per_update)
    drawn = loop.draw(update, cases, loop.phases)
    with loop.phases.time("update"):
        report = loop.learner.learn(update, drawn)
    totals.trajectories += drawn.completed
    totals.actor_tokens += int(drawn.figures["tokens/actor_all"])
    totals.device_seconds += loop.devices * (time.perf_counter() - start)
    return drawn, report


def cases_of_update(cases: Sequence[Case], seed: int, update: int, count: int) -> list[Case]:
    """Cases of an update (from 1); no case twice.

    The order depends on the run's seed alone, so that methods of one run letter share it.

    Raises:
        UserError: there are fewer than `count`.
    """
    if len(cases) < count:
        raise UserError(
            f"{len(cases)} training cases are fewer than rl.cases_per_update = {count}; lower it"
        )
    return [cases[i] for i in batch_of_step(update - 1, len(cases), count, seed, "case order")]
