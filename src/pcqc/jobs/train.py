"""One RL run: a method, a run letter, and everything it writes."""

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcqc.cases import read_cases
from pcqc.config import Method, Study, digest
from pcqc.credit.tree import RunningVariance
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.files import read_json, sha256_file, write_json
from pcqc.jobs.paths import Paths
from pcqc.jobs.records import consultation_rows, event_row, first_tree, group_row
from pcqc.jobs.setup import make_scorer, make_setting, make_sync, role_weights, single_threaded
from pcqc.methods.draw import Drawn, draw_groups, draw_trees
from pcqc.models import save_model
from pcqc.provenance import git_commit, inputs_fingerprint, run_settings, source_fingerprint
from pcqc.tracking.record import RunRecord
from pcqc.training.critic import Critic
from pcqc.training.learners import GroupLearner, TreeLearner
from pcqc.training.policy import Policy
from pcqc.training.rl import Loop, run_loop

RECORDS = ("events", "consultations", "candidate_groups", "trees")


def run_training(study: Study, method_name: str, run: str) -> None:
    """Train one run of a method, resuming its saved state where there is one."""
    method, seed = study.method(method_name), study.seed(run)
    if method.kind != "rl":
        raise UserError(f"'{method_name}' has no reinforcement learning; evaluate it as it is")
    single_threaded()
    Run(study, method_name, method, run, seed).train()


class Run:
    """A run under way: its roles, its learner and its record."""

    def __init__(self, study: Study, name: str, method: Method, run: str, seed: int):
        self.study, self.name, self.method, self.run, self.seed = study, name, method, run, seed
        self.paths = Paths.of(study)
        self.folder = self.paths.run(name, run)
        self.cases = read_cases(self.paths.train_cases)
        self.development = read_cases(self.paths.cases(study.development))
        weights = role_weights(study, "actor")
        self.model = weights.load()
        reference = weights.load() if method.kl_coefficient else None
        policy = Policy(self.model, reference, study.rl)
        self.setting = make_setting(study, weights, self.model)
        self.sync = make_sync(study, self.setting, self.model, self.development)
        self.scorer = make_scorer(study) if method.question_credit != "none" else None
        self.learner = self._tree_learner(policy) if method.tree else GroupLearner(method, policy)
        self.memory: dict = {}
        self.fingerprint = self._fingerprint()
        self.records_kept = [*RECORDS[:2], RECORDS[3] if method.tree else RECORDS[2]]
        self.checkpoints: dict[int, dict] = {}

    def train(self) -> None:
        """Run the loop and write the manifest last."""
        state = self.folder / "state" / self.fingerprint
        self._drop_other_states(state)
        loop = Loop(
            cases=self.cases,
            learner=self.learner,
            method=self.method,
            settings=self.study.rl,
            seed=self.seed,
            state=state,
            draw=self._draw,
            on_update=self._on_update,
            on_checkpoint=self._on_checkpoint,
            label=f"{self.name} {self.run}",
            memory=self.memory,
        )
        totals = run_loop(loop, self._on_resume)
        for record in self.records.values():
            record.close()
        self._write_manifest(dataclasses.asdict(totals))

    def _tree_learner(self, policy: Policy) -> TreeLearner:
        """The actor's policy beside a critic, which starts from Shared SFT too."""
        body = role_weights(self.study, "actor").load().model
        critic = Critic(body, self.setting.chat.ending, self.method.tree, self.study.rl)
        return TreeLearner(self.method, policy, critic, self.seed)

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
        self.records = {
            name: RunRecord.open(self.folder / f"{name}.jsonl", keep_through=update)
            for name in self.records_kept
        }
        for path in sorted((self.folder / "validation").glob("*.json")):
            if int(path.stem) <= update:
                self.checkpoints[int(path.stem)] = read_json(path)

    def _draw(self, update: int, cases, phases) -> Drawn:
        setting = dataclasses.replace(self.setting, timed=phases.time)
        names = {"seed": self.seed, "update": update}
        with self._engines_awake():
            if self.method.tree is None:
                return draw_groups(setting, self.scorer, self.method, cases, **names)
            statistics = RunningVariance(self.memory, self.method.tree.newest_level_weight)
            values = self.learner.critic.values
            return draw_trees(setting, values, self.method, cases, statistics, **names)

    @contextmanager
    def _engines_awake(self) -> Iterator[None]:
        """All engines for as long as they are needed, the actor's with the learner's weights.

        A cache never outlives an update: a resumed run meets the caches it would have met.
        """
        engines = [self.setting.actor.engine, self.setting.patient.engine]
        if self.scorer:
            engines.append(self.scorer.engine)
        for engine in engines:
            engine.wake()
            engine.reset_cache()
        self.sync(self.model.named_parameters())
        yield
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
        self.records["events"].append(event_row(update, drawn, report, totals, seconds))
        for row in consultation_rows(update, drawn, self.study.rl.sampled_consultations):
            self.records["consultations"].append(row)
        if self.method.tree:
            self.records["trees"].append(first_tree(update, drawn, self.method))
        else:
            for group in drawn.groups:
                self.records["candidate_groups"].append(group_row(update, group, self.method))

    def _on_checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        name = f"{update:06d}"
        folder = self.folder / "checkpoints" / name
        checkpoint = save_model(folder, self.model, self.setting.chat.tokenizer, {"update": update})
        with self._engines_awake():
            result = evaluate(
                self.setting,
                self.development,
                seed=self.study.evaluation_seed,
                benchmark=self.study.development,
                labels={"method": self.name, "run": self.run, "update": update},
            )
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
        self.records["events"].append({"kind": "validation", "update": update, **figures})

    def _write_manifest(self, totals: dict) -> None:
        checkpoints = [self.checkpoints[u] for u in sorted(self.checkpoints)]
        files = [self.folder / f"{name}.jsonl" for name in self.records_kept]
        files += [self.folder / c["validation"]["predictions"] for c in checkpoints]
        settings = self.study.to_dict()
        settings["methods"] = {self.name: settings["methods"][self.name]}
        write_json(
            self.folder / "manifest.json",
            {
                "study": self.study.name,
                "method": self.name,
                "run": self.run,
                "seed": self.seed,
                "fingerprint": self.fingerprint,
                "git_commit": git_commit(),
                "settings": settings,
                "updates": self.method.updates,
                "checkpoints": checkpoints,
                "totals": totals,
                "files": {str(f.relative_to(self.folder)): sha256_file(f) for f in files},
            },
        )
