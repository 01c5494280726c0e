"""One RL run: collect rollouts, learn, validate, save; and everything that the run writes."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from pcqc.cases.case import Case
from pcqc.cases.order import batch_of_step
from pcqc.consultation.turns import RolloutContext
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.evaluation.selection import levelled_off
from pcqc.jobs.engines import Engines
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.records import consultation_rows, event_row
from pcqc.jobs.run_folder import RECORDS, RunFolder
from pcqc.jobs.setup import (
    chat_format,
    make_context,
    make_scorer,
    read_checked_cases,
    role_weights,
)
from pcqc.methods.base import SERVICES, Services, World
from pcqc.methods.rollouts import RolloutBatch
from pcqc.roles.actor import Actor
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.provenance import heading
from pcqc.study.settings import nearest
from pcqc.system.determinism import single_threaded
from pcqc.system.machine import now
from pcqc.system.processes import SINGLE_PROCESS, Processes
from pcqc.system.progress import Phases, Progress
from pcqc.training.backend import MakeBackend
from pcqc.training.policy import Policy
from pcqc.training.state import load_state, save_state

# Cases and the dialogues on them -> further numbers of a validation.
Judged = Callable[[Sequence[Case], Sequence[dict]], dict[str, float]]


def run_training(
    study: Study,
    method_name: str,
    run: str,
    processes: Processes = SINGLE_PROCESS,
    judged: Judged | None = None,
    world: World | None = None,
) -> None:
    """Train one run of a method, resuming its saved state where there is one.

    Every process does all of it with its share of the rollouts and the learning; the first writes.

    Args:
        study, method_name, run: whose run.
        processes: that train together.
        judged: what else a validation's summary says of its dialogues.
        world: of a synthetic study, for the methods that need it.
    """
    if study.method(method_name).kind != "rl":
        raise UserError(f"'{method_name}' has no reinforcement learning; evaluate it as it is")
    if all(processes.gather(job_output(study, "train", method_name, run).stands())):
        return
    single_threaded(study.deterministic)
    Run(study, method_name, run, processes, judged, world).train()


class Run:
    """A run in progress: its roles, its method and its record.

    Attributes:
        totals: trajectories, actor_tokens, sampled_tokens (of all roles), scored_tokens (read by
            the scorer), device_seconds so far; without validation; carried across a resume.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        letter: str,
        processes: Processes,
        judged: Judged | None = None,
        world: World | None = None,
    ):
        self.study, self.name, self.letter, self.processes = study, name, letter, processes
        self.judged = judged
        self.method, self.seed = study.method(name), study.seed(letter)
        self.rl, needs = study.rl_of(self.method), self.method.needs
        for need in needs - SERVICES:
            raise UserError(f"{name} needs '{need}', which no run has{nearest(need, SERVICES)}")
        self.paths = Paths.of(study)
        self.cases = read_checked_cases(study, self.paths.train_cases)
        self.development = read_checked_cases(study, self.paths.cases(study.development))
        weights = role_weights(study, "actor")
        self.model = weights.load()
        reference = weights.load() if "reference" in needs else None
        backend = make_backend(study, processes)
        self.policy = Policy(self.model, reference, self.rl, backend, self.rl.gap_alarm)
        # Before the engines: while a model is sharded, it is also whole.
        critic = self._critic(backend) if "critic" in needs else None
        shared = self.model if self.policy.backend.unsharded else None
        self.context = make_context(study, weights, shared)
        scorer = make_scorer(study) if "scorer" in needs else None
        self.engines = Engines(
            study, self.context, scorer, self.policy, self.development, processes
        )
        self.services = Services(self.policy, self.seed, scorer, critic, world)
        self.parts = {"actor": self.policy.state} | ({"critic": critic.state} if critic else {})
        records = (*RECORDS, *self.method.records)
        self.folder = RunFolder(job_output(study, "train", name, letter), records)
        counts = ("trajectories", "actor_tokens", "sampled_tokens", "scored_tokens")
        self.totals = {**dict.fromkeys(counts, 0), "device_seconds": 0.0}

    def train(self) -> None:
        """Run all updates, from the saved state where there is one; write the manifest last.

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
            progress.advance(accuracy=metrics["accuracy"], turns=metrics["turns"])
            self._record(update, batch, metrics, report, phases.seconds)
            if update % rl.checkpoint_every == 0 or update == last:
                self._checkpoint(update)
                levelled = self._levelled()
            if update % rl.save_every == 0 or update == last or levelled:
                self._save(update)
        progress.close()
        if self.processes.is_main:
            self.folder.finish(self._manifest(update))

    def collect_rollouts(
        self, update: int, cases: Sequence[Case], phases: Phases
    ) -> tuple[RolloutBatch, dict[str, float]]:
        """Rollouts of the current policy with their credit, and their metrics."""
        actor = policy_sampler(self.study, self.context)
        context = dataclasses.replace(self.context, actor=actor, timed=phases.time)
        with self.engines.awake() as health:
            batch = self.method.collect_rollouts(self.services, context, cases, update)
        return batch, {**batch.metrics(), **health}

    def _critic(self, backend: MakeBackend) -> Any:
        """The method's critic; it starts from Shared SFT too."""
        body = role_weights(self.study, "actor").load().model
        ending = chat_format(self.study, self.paths.model("actor")).ending
        return self.method.make_critic(body, ending, self.rl, backend)

    def _resume(self) -> int:
        """Load the newest saved state; the number of finished updates."""
        if self.processes.is_main:
            self.folder.begin()
        self.processes.barrier()
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
        save_state(self.folder.state, self.parts, cursor, self.processes)

    def _count(self, batch: RolloutBatch, metrics: dict[str, float], seconds: float) -> None:
        """Add an update to the totals; device-seconds are devices times the wall clock."""
        devices = self.study.placement.devices if self.study.placement else 1
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
        self.folder.append("events", event_row(update, metrics, report, self.totals, seconds))
        count = self.rl.sampled_consultations
        self.folder.append("consultations", *consultation_rows(update, batch, count))
        for name, rows in batch.records().items():
            self.folder.append(name, *({"update": update, **row} for row in rows))

    def _checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        path, tokenizer = self.folder.checkpoint(update), self.context.chat.tokenizer
        backend = self.policy.backend
        digest = write_model(path, self.model, backend, tokenizer, {"update": update})
        with self.engines.awake() as health:
            found = evaluate(
                self.context,
                self.development,
                seed=self.study.evaluation_seed,
                benchmark=self.study.development,
                labels={"method": self.name, "run": self.letter, "update": update},
            )
        if self.processes.is_main:
            more = self.judged(self.development, found.dialogues) if self.judged else {}
            summary = self.folder.keep_validation(
                update, digest, self.study.development, found, more
            )
            row = {"kind": "validation", "update": update, "time": now(), **summary, **health}
            self.folder.append("events", row)

    def _levelled(self) -> bool:
        """Whether the run's validations have levelled off; they say the same after a resume."""
        # Only the main process has read those before a resume.
        kept = sorted(self.folder.checkpoints.items())
        accuracies = [entry["validation"]["accuracy"] for _, entry in kept]
        levelled = levelled_off(accuracies, self.rl.level_after, self.rl.level_points)
        return self.processes.gather(levelled)[0]

    def _manifest(self, updates: int) -> dict:
        settings = self.study.to_dict()
        settings["methods"] = {self.name: settings["methods"][self.name]}
        settings["rl"] = dataclasses.asdict(self.rl)
        return {
            **heading(self.study, self.name, self.letter, self.seed, self.folder.fingerprint),
            "settings": settings,
            "updates": updates,
            "ended": "all updates" if updates == self.method.updates else "levelled off",
            "totals": self.totals,
        }


def policy_sampler(study: Study, context: RolloutContext) -> Actor:
    """The actor of rollouts: it samples from the policy itself, at temperature 1 and top-p 1.

    The loss has log pi_theta over the whole vocabulary (eq:question_objective). Cut at a top-p, the
    tokens beyond it are never drawn and never credited, so that what is common in lost
    consultations, as asking on is, falls whatever it is worth (docs/clinic.md).
    """
    itself = dataclasses.replace(study.actor_decoding, temperature=1.0, top_p=1.0)
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
