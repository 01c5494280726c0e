"""One RL run: collect rollouts, learn, validate, save."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from pcqc.cases.case import Case
from pcqc.cases.order import batch_of_step
from pcqc.consultation.turns import RolloutContext
from pcqc.evaluation.benchmark import evaluate
from pcqc.evaluation.selection import levelled_off
from pcqc.jobs.engines import Engines
from pcqc.jobs.instruction import chat_format
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.make_roles import (
    checked_cases,
    make_context,
    make_scorer,
    role_weights,
)
from pcqc.jobs.run_files import RECORDS, RunFolder, consultation_rows
from pcqc.logged.updates import event_row
from pcqc.methods.base import SERVICES, Services, World
from pcqc.methods.rollouts import RolloutBatch
from pcqc.roles.actor import Actor
from pcqc.training.policy import Policy
from pcqc.training.state import States, load_state
from pcqc_base.errors import UserError, nearest
from pcqc_base.settings import Decoding
from pcqc_base.system.machine import now
from pcqc_base.system.processes import Processes
from pcqc_base.system.progress import Phases, Progress
from pcqc_base.task import Task

# Cases and the dialogues on them -> further numbers of a validation.
Measure = Callable[[Sequence[Case], Sequence[dict]], dict[str, float]]


class Run:
    """A run in progress: its roles, its method and its record.

    Attributes:
        totals: trajectories, actor_tokens, sampled_tokens (of all roles), scored_tokens (read by
            the scorer), device_seconds so far; without validation; carried across a resume.

    Args:
        task: settings, cases and models.
        processes: that train together.
        measure: what else a validation measures of its dialogues.
        world: a synthetic study's, for the methods that need it.
    """

    def __init__(
        self,
        task: Task,
        processes: Processes,
        measure: Measure | None = None,
        world: World | None = None,
    ):
        settings = task.settings
        self.task, self.processes, self.measure = task, processes, measure
        self.name, self.letter = task.arguments
        self.method, self.seed, self.rl = settings.method, settings.seed, settings.rl
        needs = self.method.needs
        for need in needs - SERVICES:
            raise UserError(
                f"{self.name} needs '{need}', which no run has{nearest(need, SERVICES)}"
            )
        self.cases = checked_cases(task.inputs["train"])
        self.development = checked_cases(task.inputs["development"])
        weights = role_weights(task, "actor")
        self.model = weights.load()
        reference = weights.load() if "reference" in needs else None
        backend = make_backend(task.where, processes)
        head = settings.engine.float32_head
        self.policy = Policy(self.model, reference, self.rl, backend, self.rl.gap_alarm, head)
        critic = None
        # Before the engines: while a model is sharded, it is also whole.
        if "critic" in needs:  # it starts from Shared SFT too
            body, ending = weights.load().model, chat_format(task, weights.folder).ending
            critic = self.method.make_critic(body, ending, self.rl, backend)
        shared = self.model if self.policy.backend.unsharded else None
        self.context = make_context(task, weights, shared)
        scorer = make_scorer(task) if "scorer" in needs else None
        self.engines = Engines(task, self.context, scorer, self.policy, self.development, processes)
        self.services = Services(self.policy, self.seed, scorer, critic, world)
        self.parts = {"actor": self.policy.state} | ({"critic": critic.state} if critic else {})
        records = (*RECORDS, *self.method.records)
        self.folder = RunFolder(task.folder, records)
        self.states = States(self.folder.state, self.parts, processes)
        counts = ("trajectories", "actor_tokens", "sampled_tokens", "scored_tokens")
        self.totals = {**dict.fromkeys(counts, 0), "device_seconds": 0.0}

    def train(self) -> dict | None:
        """Run all updates, from the saved state where there is one; entries of the manifest.

        A run whose validation has levelled off ends before.
        """
        rl, last = self.rl, self.method.updates
        update, levelled = self._resume(), self._levelled()
        label, silent = f"{self.name} {self.letter}", not self.processes.is_main
        progress = Progress(label, last, "update", done=update, silent=silent)
        while update < last and not levelled:
            update += 1
            start, phases = time.perf_counter(), Phases()
            cases = cases_of_update(self.cases, self.seed, update, rl.cases_per_update)
            batch, metrics = self.collect_rollouts(update, cases, phases)
            with phases.time("update"):
                report = self.method.learn(self.services, update, batch)
            self._count(batch, metrics, time.perf_counter() - start)
            shown = {"accuracy (training)": metrics["accuracy"], "turns": metrics["turns"]}
            progress.advance(**shown)
            self._record(update, batch, metrics, report, phases.seconds)
            if update % rl.checkpoint_every == 0 or update == last:
                self._checkpoint(update)
                levelled = self._levelled()
            if update % rl.save_every == 0 or update == last or levelled:
                self._save(update)
        self.states.finish()
        progress.close()
        return self._summary(update) if self.processes.is_main else None

    def collect_rollouts(
        self, update: int, cases: Sequence[Case], phases: Phases
    ) -> tuple[RolloutBatch, dict[str, float]]:
        """Rollouts of the current policy with their credit, and their metrics."""
        decoding, top_p = self.task.settings.actor_decoding, self.rl.rollout_top_p
        actor = policy_sampler(decoding, self.context, top_p)
        context = dataclasses.replace(self.context, actor=actor, timed=phases.time)
        with self._sampling() as health:
            batch = self.method.collect_rollouts(self.services, context, cases, update)
        return batch, {**batch.metrics(), **health}

    @contextmanager
    def _sampling(self) -> Iterator[dict[str, float]]:
        """Engines awake; meanwhile a critic's optimiser is on the host, if so placed."""
        place, critic = self.task.where.placement, self.services.critic
        moves = critic and place and place.learner.offload == "critic"
        room = critic.backend.optimizer_on_host() if moves else nullcontext()
        with room, self.engines.awake() as health:
            yield health

    def _resume(self) -> int:
        """Load the newest saved state where there is one; the number of finished updates."""
        cursor = load_state(self.folder.state, self.parts, self.processes)
        cursor = cursor or {"step": 0, "totals": {}, "memory": {}}
        self.totals |= cursor["totals"]
        self.services.memory.update(cursor["memory"])
        if self.processes.is_main:
            self.folder.go_on(cursor["step"], cursor.get("written", {}))
        return cursor["step"]

    def _save(self, update: int) -> None:
        cursor = {"step": update, "totals": self.totals, "memory": self.services.memory}
        if self.processes.is_main:
            cursor["written"] = self.folder.written()
        self.states.save(cursor)

    def _count(self, batch: RolloutBatch, metrics: dict[str, float], seconds: float) -> None:
        """Add an update to the totals; device-seconds are devices times the wall clock."""
        placement = self.task.where.placement
        devices = placement.devices if placement else 1
        self.totals["trajectories"] += batch.completed
        self.totals["actor_tokens"] += batch.sampled_tokens
        for name, value in metrics.items():
            if name.startswith("sampled/"):
                self.totals["sampled_tokens"] += value
        self.totals["scored_tokens"] += metrics.get("read/scorer", 0)
        self.totals["device_seconds"] += devices * seconds

    def _record(self, update, batch: RolloutBatch, metrics, report, seconds) -> None:
        """Append the update's metrics, and some of its rollouts to read."""
        if not self.processes.is_main:
            return
        self.folder.append_event(event_row(update, metrics, report, self.totals, seconds))
        count = self.rl.sampled_consultations
        self.folder.append("consultations", *consultation_rows(update, batch, count))
        for name, rows in batch.records().items():
            self.folder.append(name, *({"update": update, **row} for row in rows))

    def _checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        path, tokenizer = self.folder.checkpoint(update), self.context.chat.tokenizer
        backend = self.policy.backend
        digest = write_model(path, self.model, backend, tokenizer, {"update": update})
        benchmark = self.task.settings.development
        with self._sampling() as health:
            evaluation = evaluate(
                self.context,
                self.development,
                seed=self.task.settings.evaluation_seed,
                benchmark=benchmark,
                labels={"method": self.name, "run": self.letter, "update": update},
            )
        if self.processes.is_main:
            more = self.measure(self.development, evaluation.dialogues) if self.measure else {}
            summary = self.folder.keep_validation(update, digest, benchmark, evaluation, more)
            row = {"kind": "validation", "update": update, "time": now(), **summary, **health}
            self.folder.append_event(row)

    def _levelled(self) -> bool:
        """Whether the run's validations have levelled off, those before a resume included."""
        # Only the main process has read those before a resume.
        kept = sorted(self.folder.checkpoints.items())
        accuracies = [entry["validation"]["accuracy"] for _, entry in kept]
        levelled = levelled_off(accuracies, self.rl.level_after, self.rl.level_points)
        return self.processes.gather(levelled)[0]

    def _summary(self, updates: int) -> dict:
        return {
            "updates": updates,
            "ended": "all updates" if updates == self.method.updates else "levelled off",
            "totals": self.totals,
            "checkpoints": self.folder.close(),
        }


def policy_sampler(decoding: Decoding, context: RolloutContext, top_p: float = 1.0) -> Actor:
    """The actor of rollouts: at temperature 1, and by default top-p 1, from the policy itself.

    The loss has log pi_theta over the whole vocabulary (eq:question_objective). With a smaller
    top-p unlikely tokens are never drawn and never credited. What is common in lost consultations,
    such as asking on, would become rarer, whatever it is worth (docs/clinic.md).
    """
    itself = dataclasses.replace(decoding, temperature=1.0, top_p=top_p)
    return Actor(context.actor.engine, context.chat, itself)


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
