"""One RL run: a method, a run letter, and everything it writes."""

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pcqc.cases import Case, read_cases
from pcqc.config import Method, Rl, Study, digest
from pcqc.credit.tree import RunningVariance
from pcqc.engines.server import ServerEngine
from pcqc.engines.spread import SpreadEngine
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.files import read_json, sha256_file, write_json
from pcqc.jobs.records import consultation_rows, event_row, group_row, tree_row
from pcqc.jobs.setup import make_scorer, make_setting, make_sync, role_weights, single_threaded
from pcqc.methods.draw import Drawn, draw_groups, draw_trees
from pcqc.models import save_model
from pcqc.paths import Paths
from pcqc.processes import ALONE, Processes
from pcqc.provenance import heading, inputs_fingerprint, run_settings, source_fingerprint
from pcqc.tracking.record import RunRecord
from pcqc.training.backend import Backend, TorchBackend
from pcqc.training.critic import Critic
from pcqc.training.learners import GroupLearner, TreeLearner
from pcqc.training.policy import Policy
from pcqc.training.rl import Loop, Phases, run_loop

RECORDS = ("events", "consultations", "candidate_groups", "trees")


def run_training(study: Study, method_name: str, run: str, processes: Processes = ALONE) -> None:
    """Train one run of a method, resuming its saved state where there is one.

    Every process does all of it with its share of the drawing and learning; the first writes.
    """
    method, seed = study.method(method_name), study.seed(run)
    if method.kind != "rl":
        raise UserError(f"'{method_name}' has no reinforcement learning; evaluate it as it is")
    single_threaded()
    Run(study, method_name, method, run, seed, processes).train()


class Run:
    """A run under way: its roles, its learner and its record."""

    def __init__(
        self, study: Study, name: str, method: Method, run: str, seed: int, processes: Processes
    ):
        self.study, self.name, self.method, self.run, self.seed = study, name, method, run, seed
        self.processes = processes
        self.paths = Paths.of(study)
        self.folder = self.paths.run(name, run)
        self.cases = read_cases(self.paths.train_cases)
        self.development = read_cases(self.paths.cases(study.development))
        weights = role_weights(study, "actor")
        self.model = weights.load()
        reference = weights.load() if method.kl_coefficient else None
        self.policy = Policy(self.model, reference, study.rl, self._backend)
        shared = self.model if self.policy.backend.whole else None
        self.setting = make_setting(study, weights, shared)
        self.sync = make_sync(study, self.setting, self.policy, self.development)
        self.scorer = make_scorer(study) if method.question_credit != "none" else None
        self.servers = self._servers()
        self._spread_engines()
        self.learner = self._tree_learner() if method.tree else GroupLearner(method, self.policy)
        self.memory: dict = {}
        self.fingerprint = self._fingerprint()
        self.records_kept = [*RECORDS[:2], RECORDS[3] if method.tree else RECORDS[2]]
        self.checkpoints: dict[int, dict] = {}

    def train(self) -> None:
        """Run the loop and write the manifest last."""
        state = self.folder / "state" / self.fingerprint
        if self.processes.leads:
            self._drop_other_states(state)
        self.processes.meet()
        loop = Loop(
            cases=self.cases,
            learner=self.learner,
            method=self.method,
            settings=self.study.rl,
            seed=self.seed,
            state=state,
            draw=self.draw,
            on_resume=self._on_resume,
            on_update=self._on_update,
            on_checkpoint=self._on_checkpoint,
            label=f"{self.name} {self.run}",
            memory=self.memory,
            devices=self.study.placement.devices if self.study.placement else 1,
            processes=self.processes,
        )
        totals = run_loop(loop)
        if not self.processes.leads:
            return
        for record in self.records.values():
            record.close()
        self._write_manifest(dataclasses.asdict(totals))

    def _backend(self, module, learning_rate: float, settings: Rl) -> Backend:
        """What takes a module's optimiser steps: DeepSpeed, where the study places its learner."""
        if self.study.placement is None:
            return TorchBackend(module, learning_rate, settings)
        from pcqc.training.deepspeed_backend import DeepSpeedBackend

        learner = self.study.placement.learner
        return DeepSpeedBackend(module, learning_rate, settings, learner, self.processes)

    def _servers(self) -> dict[str, ServerEngine]:
        """The engines of this process that ask a server, by role."""
        roles = {"patient": self.setting.patient, "scorer": self.scorer}
        engines = {name: role.engine for name, role in roles.items() if role}
        return {name: e for name, e in engines.items() if isinstance(e, ServerEngine)}

    def _spread_engines(self) -> None:
        """Each role's engines, one in every process, used as one."""
        if self.processes.count > 1:
            for role in (self.setting.actor, self.setting.patient, self.scorer):
                if role is not None:
                    role.engine = SpreadEngine(role.engine, self.processes)

    def _tree_learner(self) -> TreeLearner:
        """The actor's policy beside a critic, which starts from Shared SFT too."""
        body = role_weights(self.study, "actor").load().model
        rl, tree = self.study.rl, self.method.tree
        critic = Critic(body, self.setting.chat.ending, tree, rl, self._backend)
        return TreeLearner(self.method, self.policy, critic, self.seed)

    def _fingerprint(self) -> str:
        """Of everything that the run's outcome depends on; names its resumable state."""
        inputs = [self.paths.train_cases, self.paths.cases(self.study.development)]
        roles = ("actor", "patient", self.study.starts_from("scorer"))
        inputs += [self.paths.model(r) / "manifest.json" for r in roles]
        return digest(
            [
                run_settings(self.study, self.name, self.run),
                inputs_fingerprint(inputs),
                source_fingerprint("pcqc.jobs.train"),
            ]
        )

    def _drop_other_states(self, state: Path) -> None:
        """A changed setting starts afresh: states and records of other fingerprints go."""
        others = [p for p in (self.folder / "state").glob("*") if p != state]
        if others or not state.exists():
            for name in RECORDS:
                (self.folder / f"{name}.jsonl").unlink(missing_ok=True)
            shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
            shutil.rmtree(self.folder / "validation", ignore_errors=True)
        for other in others:
            shutil.rmtree(other)

    def _on_resume(self, update: int) -> None:
        if not self.processes.leads:
            return
        self.records = {
            name: RunRecord.open(self.folder / f"{name}.jsonl", keep_through=update)
            for name in self.records_kept
        }
        for path in sorted((self.folder / "validation").glob("*.json")):
            if int(path.stem) <= update:
                self.checkpoints[int(path.stem)] = read_json(path)

    def draw(self, update: int, cases: Sequence[Case], phases: Phases) -> Drawn:
        """Draw an update's material from the current policy; see `Loop.draw`."""
        setting = dataclasses.replace(self.setting, timed=phases.time)
        names = {"seed": self.seed, "update": update}
        with self._engines_awake() as health:
            if self.method.tree is None:
                drawn = draw_groups(setting, self.scorer, self.method, cases, **names)
            else:
                statistics = RunningVariance(self.memory, self.method.tree.newest_level_weight)
                values = self.learner.critic.values
                drawn = draw_trees(setting, values, self.method, cases, statistics, **names)
        drawn.figures |= health
        return drawn

    @contextmanager
    def _engines_awake(self) -> Iterator[dict[str, float]]:
        """All engines for as long as they are needed, the actor's with the learner's weights.

        A cache never outlives an update: a resumed run meets the caches it would have met.

        Yields:
            Figures for the record, complete once the engines sleep: `sync/gap` where an engine with
            a copy of the weights was compared with the learner, and `servers/<role>/...` where
            a role is served.
        """
        engines = [self.setting.actor.engine, self.setting.patient.engine]
        if self.scorer:
            engines.append(self.scorer.engine)
        for engine in engines:
            engine.wake()
            engine.reset_cache()
        gaps = self.processes.gather(self.sync(self.policy.weights()))
        health = {} if gaps[0] is None else {"sync/gap": max(gaps)}
        yield health
        for role, server in self.servers.items():
            for name, count in server.take_counts().items():
                health[f"servers/{role}/{name}"] = sum(self.processes.gather(count))
        for engine in engines:
            engine.sleep()

    def _on_update(self, update, drawn: Drawn, report, totals, seconds) -> None:
        gap = report.statistics.get("gap/max", 0.0)
        if gap > self.study.rl.gap_alarm:
            raise UserError(
                f"update {update}: engine and learner differ by {gap:.3g} "
                f"in a log-probability (alarm at rl.gap_alarm = {self.study.rl.gap_alarm}); "
                "check that the engine has the learner's weights"
            )
        if not self.processes.leads:
            return
        self.records["events"].append(event_row(update, drawn, report, totals, seconds))
        for row in consultation_rows(update, drawn, self.study.rl.sampled_consultations):
            self.records["consultations"].append(row)
        if self.method.tree:
            self.records["trees"].append(tree_row(update, drawn.searches[0], self.method))
        else:
            for group in drawn.groups:
                self.records["candidate_groups"].append(group_row(update, group, self.method))

    def _on_checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        name = f"{update:06d}"
        checkpoint = self._write_checkpoint(self.folder / "checkpoints" / name, update)
        with self._engines_awake() as health:
            result = evaluate(
                self.setting,
                self.development,
                seed=self.study.evaluation_seed,
                benchmark=self.study.development,
                labels={"method": self.name, "run": self.run, "update": update},
            )
        if not self.processes.leads:
            return
        predictions = self.folder / "validation" / f"{name}.parquet"
        result.write(predictions)
        validation = {
            "benchmark": self.study.development,
            **result.summary(),
            "predictions": f"validation/{name}.parquet",
        }
        entry = {
            "update": update,
            "path": f"checkpoints/{name}",
            "digest": checkpoint,
            "validation": validation,
        }
        write_json(self.folder / "validation" / f"{name}.json", entry)
        self.checkpoints[update] = entry
        figures = {k: validation[k] for k in ("accuracy", "turns", "actor_tokens", "cases")}
        row = {"kind": "validation", "update": update, **figures, **health}
        self.records["events"].append(row)

    def _write_checkpoint(self, folder: Path, update: int) -> str | None:
        """The checkpoint's digest, in the process that writes it: all of them give their weights.

        A whole copy of the weights is made, where they are divided, in that process's memory alone.
        """
        weights = {}
        for name, tensor in self.policy.weights():
            if self.processes.leads:
                divided = not self.policy.backend.whole
                weights[name] = tensor.detach().to("cpu", copy=divided)
        if not self.processes.leads:
            return None
        tokenizer = self.setting.chat.tokenizer
        return save_model(folder, self.model, tokenizer, {"update": update}, weights.items())

    def _write_manifest(self, totals: dict) -> None:
        checkpoints = [self.checkpoints[u] for u in sorted(self.checkpoints)]
        files = [self.folder / f"{name}.jsonl" for name in self.records_kept]
        files += [self.folder / c["validation"]["predictions"] for c in checkpoints]
        settings = self.study.to_dict()
        settings["methods"] = {self.name: settings["methods"][self.name]}
        write_json(
            self.folder / "manifest.json",
            {
                **heading(self.study, self.name, self.run, self.seed, self.fingerprint),
                "settings": settings,
                "updates": self.method.updates,
                "checkpoints": checkpoints,
                "totals": totals,
                "files": {str(f.relative_to(self.folder)): sha256_file(f) for f in files},
            },
        )
