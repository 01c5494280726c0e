"""One RL run: collect rollouts, learn, validate, save; and everything that the run writes."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pcqc.cases.case import Case
from pcqc.cases.order import batch_of_step
from pcqc.clinic.expected import by_expected_answer
from pcqc.clinic.world import World
from pcqc.consultation.turns import RolloutContext
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.evaluation.selection import levelled_off
from pcqc.jobs.engines import Engines
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.records import consultation_rows, event_row, group_row, tree_row
from pcqc.jobs.run_folder import RECORDS, RunFolder
from pcqc.jobs.setup import (
    chat_format,
    checked_cases,
    make_context,
    make_scorer,
    role_weights,
)
from pcqc.methods.atpo.atpo import Atpo
from pcqc.methods.atpo.critic import Critic
from pcqc.methods.grpo import Grpo
from pcqc.methods.imagined_answers import by_imagined_answers
from pcqc.methods.metrics import rollout_metrics
from pcqc.methods.pcqc import Pcqc, QuestionBatch
from pcqc.methods.question_utilities import Utility, by_continuations, by_scorer
from pcqc.methods.rollouts import RolloutBatch
from pcqc.methods.turn_credit import TurnCredited
from pcqc.roles.actor import Actor
from pcqc.study import Decoding
from pcqc.study.manifest import checked
from pcqc.system.determinism import single_threaded
from pcqc.system.machine import now
from pcqc.system.processes import SINGLE_PROCESS, Processes
from pcqc.system.progress import Phases, Progress
from pcqc.training.backend import MakeBackend
from pcqc.training.policy import Policy
from pcqc.training.state import load_state, save_state

if TYPE_CHECKING:
    from pcqc.study.graph import Task

# Cases and the dialogues on them -> further numbers of a validation.
Judged = Callable[[Sequence[Case], Sequence[dict]], dict[str, float]]


def run(task: "Task", processes: Processes = SINGLE_PROCESS) -> dict | None:
    """Train one run of a method, resuming its saved state where there is one.

    Every process does all of it with its share of the rollouts and the learning; the first writes.
    """
    single_threaded(task.settings.deterministic)
    judged = None
    if "world" in task.inputs and processes.is_main:
        from pcqc.clinic.quality import Values, early_quality

        world = World.load(checked(task.inputs["world"]))
        benchmark = next(iter(task.settings.development.values()))
        judged = partial(early_quality, Values(world, world.rates(benchmark.base_rates)))
    return Run(task, processes, judged).train()


class Run:
    """A run in progress: its roles, its method and its record.

    Attributes:
        totals: trajectories, actor_tokens, sampled_tokens (of all roles), scored_tokens (read by
            the scorer), device_seconds so far; without validation; carried across a resume.
    """

    def __init__(self, task: "Task", processes: Processes, judged: Judged | None = None):
        self.task, self.processes, self.judged = task, processes, judged
        self.name, self.letter = task.whose
        self.settings = task.settings.method
        self.seed, self.rl = task.settings.seed, task.settings.rl
        self.cases = checked_cases(task.inputs["train"])
        self.development = checked_cases(task.inputs["development"])
        weights = role_weights(task, "actor")
        self.model = weights.load()
        reference = weights.load() if self.settings.kl_coefficient else None
        backend = make_backend(task.where, processes)
        self.policy = Policy(self.model, reference, self.rl, backend, self.rl.gap_alarm)
        # Before the engines: while a model is sharded, it is also whole.
        critic = self._critic(backend) if self.settings.tree else None
        shared = self.model if self.policy.backend.unsharded else None
        self.context = make_context(task, weights, shared)
        self.scorer = make_scorer(task) if self.settings.scored else None
        self.engines = Engines(
            task, self.context, self.scorer, self.policy, self.development, processes
        )
        self.method: Any = self._method(critic)  # each learns from the batches that it makes
        unused = "candidate_groups" if self.settings.tree else "trees"
        records = [record for record in RECORDS if record != unused]
        self.folder = RunFolder(task.folder, records)
        counts = ("trajectories", "actor_tokens", "sampled_tokens", "scored_tokens")
        self.totals = {**dict.fromkeys(counts, 0), "device_seconds": 0.0}

    def train(self) -> dict | None:
        """Run all updates, from the saved state where there is one; entries of the manifest.

        A run whose validation has levelled off ends before.
        """
        rl, last = self.rl, self.settings.updates
        update, levelled = self._resume(), self._levelled()
        label, silent = f"{self.name} {self.letter}", not self.processes.is_main
        progress = Progress(label, last, "update", done=update, silent=silent)
        while update < last and not levelled:
            update += 1
            start, phases = time.perf_counter(), Phases()
            cases = cases_of_update(self.cases, self.seed, update, rl.cases_per_update)
            batch, metrics = self.collect_rollouts(update, cases, phases)
            with phases.time("update"):
                report = self.method.learn(update, batch)
            self._count(batch, metrics, time.perf_counter() - start)
            progress.advance(accuracy=metrics["accuracy"], turns=metrics["turns"])
            self._record(update, batch, metrics, report, phases.seconds)
            if update % rl.checkpoint_every == 0 or update == last:
                self._checkpoint(update)
                levelled = self._levelled()
            if update % rl.save_every == 0 or update == last or levelled:
                self._save(update)
        progress.close()
        return self._summary(update) if self.processes.is_main else None

    def collect_rollouts(
        self, update: int, cases: Sequence[Case], phases: Phases
    ) -> tuple[RolloutBatch, dict[str, float]]:
        """Rollouts of the current policy with their credit, and their metrics."""
        ahead = self.scorer if self.settings.question_utility == "scorer" else None
        actor = policy_sampler(self.task.settings.actor_decoding, self.context)
        context = dataclasses.replace(self.context, actor=actor, scorer=ahead, timed=phases.time)
        with self.engines.awake() as health:
            batch = self.method.collect_rollouts(context, cases, update)
        return batch, {**rollout_metrics(batch), **health}

    def _critic(self, backend: MakeBackend) -> Critic:
        """ATPO's critic; it starts from Shared SFT too."""
        weights = role_weights(self.task, "actor")
        body, ending = weights.load().model, chat_format(self.task, weights.folder).ending
        return Critic(body, ending, self.settings.tree, self.rl, backend)

    def _method(self, critic: Critic | None) -> Grpo | Atpo:
        """What samples, credits and learns."""
        settings, policy, seed = self.settings, self.policy, self.seed
        if critic:
            return Atpo(settings, policy, seed, critic)
        if settings.question_credit != "none":
            return Pcqc(settings, policy, seed, self._utility())
        if settings.turn_credit != "outcome":
            return TurnCredited(settings, policy, seed, self.scorer)
        return Grpo(settings, policy, seed)

    def _utility(self) -> Utility:
        """What candidate questions are compared by."""
        if self.settings.question_utility == "continuations":
            return by_continuations(self.settings.continuations)
        if self.settings.question_utility == "scorer":
            return by_scorer(self.scorer)
        if self.settings.imagined_answers:
            return by_imagined_answers(self.scorer, self.settings.imagined_answers)
        return by_expected_answer(World.load(checked(self.task.inputs["world"])))

    def _resume(self) -> int:
        """Load the newest saved state; the number of finished updates."""
        cursor = load_state(self.folder.state, self.method.parts, self.processes)
        cursor = cursor or {"step": 0, "totals": {}, "memory": {}}
        self.totals |= cursor["totals"]
        self.method.memory.update(cursor["memory"])
        if self.processes.is_main:
            self.folder.go_on(cursor["step"], cursor.get("written", {}))
        return cursor["step"]

    def _save(self, update: int) -> None:
        cursor = {"step": update, "totals": self.totals, "memory": self.method.memory}
        if self.processes.is_main:
            cursor["written"] = self.folder.written()
        save_state(self.folder.state, self.method.parts, cursor, self.processes)

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

    def _record(self, update, batch: Any, metrics, report, seconds) -> None:
        """Append the update's metrics, and some of its rollouts to read."""
        if not self.processes.is_main:
            return
        folder, settings = self.folder, self.settings
        folder.append("events", event_row(update, metrics, report, self.totals, seconds))
        count = self.rl.sampled_consultations
        folder.append("consultations", *consultation_rows(update, batch, count))
        if settings.tree:
            folder.append("trees", tree_row(update, batch.searches[0], settings))
        else:
            groups = batch.groups if isinstance(batch, QuestionBatch) else []
            folder.append("candidate_groups", *(group_row(update, g, settings) for g in groups))

    def _checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        path, tokenizer = self.folder.checkpoint(update), self.context.chat.tokenizer
        backend = self.policy.backend
        digest = write_model(path, self.model, backend, tokenizer, {"update": update})
        benchmark = next(iter(self.task.settings.development))
        with self.engines.awake() as health:
            evaluation = evaluate(
                self.context,
                self.development,
                seed=self.task.settings.evaluation_seed,
                benchmark=benchmark,
                labels={"method": self.name, "run": self.letter, "update": update},
            )
        if self.processes.is_main:
            more = self.judged(self.development, evaluation.dialogues) if self.judged else {}
            summary = self.folder.keep_validation(update, digest, benchmark, evaluation, more)
            row = {"kind": "validation", "update": update, "time": now(), **summary, **health}
            self.folder.append("events", row)

    def _levelled(self) -> bool:
        """Whether the run's validations have levelled off; they say the same after a resume."""
        # Only the main process has read those before a resume.
        kept = sorted(self.folder.checkpoints.items())
        accuracies = [entry["validation"]["accuracy"] for _, entry in kept]
        levelled = levelled_off(accuracies, self.rl.level_after, self.rl.level_points)
        return self.processes.gather(levelled)[0]

    def _summary(self, updates: int) -> dict:
        return {
            "updates": updates,
            "ended": "all updates" if updates == self.settings.updates else "levelled off",
            "totals": self.totals,
            "checkpoints": self.folder.close(),
        }


def policy_sampler(decoding: Decoding, context: RolloutContext) -> Actor:
    """The actor of rollouts: it samples from the policy itself, at temperature 1 and top-p 1.

    The loss has log pi_theta over the whole vocabulary (eq:question_objective). Cut at a top-p, the
    tokens beyond it are never drawn and never credited, so that what is common in lost
    consultations, as asking on is, falls whatever it is worth (docs/clinic.md).
    """
    itself = dataclasses.replace(decoding, temperature=1.0, top_p=1.0)
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
