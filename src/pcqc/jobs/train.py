"""One RL run: a method, a run letter, and everything it writes."""

import dataclasses
from collections.abc import Sequence

from pcqc.cases import Case, read_cases
from pcqc.config import Method, Study
from pcqc.credit.tree import RunningVariance
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.instruction import instruction_files
from pcqc.jobs.engines import Engines
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.records import consultation_rows, event_row, group_row, tree_row
from pcqc.jobs.run_folder import RECORDS, RunFolder
from pcqc.jobs.setup import make_scorer, make_setting, role_weights, single_threaded
from pcqc.methods.draw import Drawn, draw_groups, draw_trees
from pcqc.paths import Paths
from pcqc.processes import ALONE, Processes
from pcqc.provenance import heading, job_fingerprint, run_settings
from pcqc.training.backend import MakeBackend
from pcqc.training.critic import Critic
from pcqc.training.learners import GroupLearner, TreeLearner
from pcqc.training.policy import Policy
from pcqc.training.rl import Loop, Phases, Totals, run_loop


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
        self.cases = read_cases(self.paths.train_cases)
        self.development = read_cases(self.paths.cases(study.development))
        weights = role_weights(study, "actor")
        self.model = weights.load()
        reference = weights.load() if method.kl_coefficient else None
        backend = make_backend(study, processes)
        self.policy = Policy(self.model, reference, study.rl, backend)
        shared = self.model if self.policy.backend.whole else None
        self.setting = make_setting(study, weights, shared)
        self.scorer = make_scorer(study) if method.question_credit != "none" else None
        self.engines = Engines(
            study, self.setting, self.scorer, self.policy, self.development, processes
        )
        self.learner = (
            self._tree_learner(backend) if method.tree else GroupLearner(method, self.policy)
        )
        self.memory: dict = {}
        unused = "candidate_groups" if method.tree else "trees"
        records = [record for record in RECORDS if record != unused]
        self.folder = RunFolder(self.paths.run(name, run), self._fingerprint(), records)

    def train(self) -> None:
        """Run the loop and write the manifest last."""
        if self.processes.leads:
            self.folder.clear()
        self.processes.meet()
        loop = Loop(
            cases=self.cases,
            learner=self.learner,
            method=self.method,
            settings=self.study.rl,
            seed=self.seed,
            state=self.folder.state,
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
        if self.processes.leads:
            self.folder.finish(self._manifest(totals))

    def _tree_learner(self, backend: MakeBackend) -> TreeLearner:
        """The actor's policy beside a critic, which starts from Shared SFT too."""
        body = role_weights(self.study, "actor").load().model
        rl, tree = self.study.rl, self.method.tree
        critic = Critic(body, self.setting.chat.ending, tree, rl, backend)
        return TreeLearner(self.method, self.policy, critic, self.seed)

    def _fingerprint(self) -> str:
        """Of everything that the run's outcome depends on; names its resumable state."""
        inputs = [self.paths.train_cases, self.paths.cases(self.study.development)]
        roles = ("actor", "patient", self.study.starts_from("scorer"))
        inputs += [self.paths.model(r) / "manifest.json" for r in roles]
        inputs += instruction_files(self.study)
        settings = run_settings(self.study, self.name, self.run)
        return job_fingerprint("pcqc.jobs.train", inputs, settings)

    def _on_resume(self, update: int) -> None:
        if self.processes.leads:
            self.folder.go_on(update)

    def draw(self, update: int, cases: Sequence[Case], phases: Phases) -> Drawn:
        """Draw an update's material from the current policy; see `Loop.draw`."""
        setting = dataclasses.replace(self.setting, timed=phases.time)
        names = {"seed": self.seed, "update": update}
        with self.engines.awake() as health:
            if self.method.tree is None:
                drawn = draw_groups(setting, self.scorer, self.method, cases, **names)
            else:
                statistics = RunningVariance(self.memory, self.method.tree.newest_level_weight)
                values = self.learner.critic.values
                drawn = draw_trees(setting, values, self.method, cases, statistics, **names)
        drawn.figures |= health
        return drawn

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
        folder, method = self.folder, self.method
        folder.append("events", event_row(update, drawn, report, totals, seconds))
        count = self.study.rl.sampled_consultations
        folder.append("consultations", *consultation_rows(update, drawn, count))
        if method.tree:
            folder.append("trees", tree_row(update, drawn.searches[0], method))
        else:
            rows = (group_row(update, group, method) for group in drawn.groups)
            folder.append("candidate_groups", *rows)

    def _on_checkpoint(self, update: int) -> None:
        """Write the checkpoint, validate it on the development benchmark, keep both."""
        path, tokenizer = self.folder.checkpoint(update), self.setting.chat.tokenizer
        backend = self.policy.backend
        digest = write_model(path, self.model, backend, tokenizer, {"update": update})
        with self.engines.awake() as health:
            found = evaluate(
                self.setting,
                self.development,
                seed=self.study.evaluation_seed,
                benchmark=self.study.development,
                labels={"method": self.name, "run": self.run, "update": update},
            )
        if self.processes.leads:
            figures = self.folder.keep_validation(update, digest, self.study.development, found)
            row = {"kind": "validation", "update": update, **figures, **health}
            self.folder.append("events", row)

    def _manifest(self, totals: Totals) -> dict:
        settings = self.study.to_dict()
        settings["methods"] = {self.name: settings["methods"][self.name]}
        return {
            **heading(self.study, self.name, self.run, self.seed, self.folder.fingerprint),
            "settings": settings,
            "updates": self.method.updates,
            "totals": dataclasses.asdict(totals),
        }
