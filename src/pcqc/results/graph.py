"""The jobs of a study: what each is told (`tasks.py`) and reads, and where its result is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pcqc.errors import UserError
from pcqc.results.recipe import Job, Part
from pcqc.results.tasks import (
    ClinicSettings,
    ContinuationSettings,
    ConvertSettings,
    EvaluateSettings,
    GroundingSettings,
    InstructionSettings,
    MirrorSettings,
    NoSettings,
    OverlapSettings,
    PrepareSettings,
    PretrainedSettings,
    PretrainSettings,
    ReportSettings,
    SelectSettings,
    SftSettings,
    TrainSettings,
)
from pcqc.study.load import ROOT, tracking_uri
from pcqc.study.method import method_module
from pcqc.study.peer_rates import RIVALS
from pcqc.study.study import Study
from pcqc.study.yaml_reader import nearest

STORES_LOST = "tracking/stores_lost.txt"  # below the study's results
TEMPLATES = (".html", ".css", ".js")
RUN_JOBS = ("train", "select", "evaluate", "continuation", "grounding")


def store_address(study: Study) -> str:
    """Where MLflow keeps the study's runs, without user, password or query."""
    address = urlsplit(tracking_uri(study))
    host = f"{address.hostname}:{address.port}" if address.hostname else ""
    return f"{address.scheme}://{host}{address.path}"


def stores_lost(study: Study) -> int:
    """How often a local MLflow store with the study's runs was deleted or moved."""
    path = study.results / STORES_LOST
    return int(path.read_text()) if path.exists() else 0


class Jobs:
    """The jobs of a study, each made once.

    Args:
        study: the settings.
    """

    def __init__(self, study: Study):
        self.study = study
        self.root = study.results
        self._made: dict[tuple[str, ...], Job] = {}

    def job(self, kind: str, *whose: str) -> Job:
        """A job by its kind and whose it is, such as `job("train", "pcqc", "A")`.

        Raises:
            UserError: the study has no such job.
        """
        key = (kind, *whose)
        if key not in self._made:
            maker = getattr(self, f"_{kind}", None)
            if maker is None:
                raise UserError(f"study '{self.study.name}' has no job '{kind}'")
            if kind in RUN_JOBS:
                self.study.require(*whose)
            self._made[key] = maker(*whose)
        return self._made[key]

    # What all runs share.

    def _clinic(self) -> Job:
        study = self.study
        settings = ClinicSettings(study.clinic, study.benchmarks, study.protocol)
        return self._new("clinic", (), "data/clinic", settings, "pcqc.jobs.clinic")

    def _convert(self, name: str) -> Job:
        raw = self.study.raw_files[name]
        folder, settings = f"data/converted/{name}", ConvertSettings(raw.format)
        return self._new("convert", (name,), folder, settings, "data_prep.convert", raw=raw.path)

    def _overlap(self) -> Job:
        inputs = {
            name: self.job("convert", name) / f"{name}.jsonl" for name in self.study.raw_files
        }
        names = list(self.study.raw_files)
        settings = OverlapSettings(
            training=tuple(name for name in names if name not in self.study.benchmarks),
            evaluation=tuple(name for name in names if name in self.study.benchmarks),
        )
        return self._new(
            "overlap", (), "data/overlap", settings, "data_prep.overlap_audit", **inputs
        )

    def _instruction(self) -> Job:
        study = self.study
        names = [n for n in study.raw_files if n not in study.benchmarks or n == study.development]
        inputs = {name: self.job("convert", name) / f"{name}.card.json" for name in names}
        training = tuple(name for name in study.raw_files if name.startswith("train"))
        settings, entry = InstructionSettings(training, study.development), "data_prep.instruction"
        return self._new("instruction", (), "data/instruction", settings, entry, **inputs)

    def _prepare(self, name: str) -> Job:
        """Cases of a benchmark; for `train` the training cases and the SFT conversations."""
        study, training = self.study, name == "train"
        if not training and name not in study.benchmarks:
            known = ["train", *study.benchmarks]
            raise UserError(f"study '{study.name}' has no set '{name}'{nearest(name, known)}")
        taught = [n for n in study.raw_files if n not in study.benchmarks]
        data = study.data
        expected = data.training_cases if training else study.benchmarks[name].cases
        settings = PrepareSettings(name, study.protocol, data, expected)
        names = taught if training else [name]
        inputs = {n: self.job("convert", n) / f"{n}.jsonl" for n in names}
        cards = {n: self.job("convert", n) / f"{n}.card.json" for n in names if n != "sft"}
        inputs |= {f"card {n}": card for n, card in cards.items()}
        return self._new(
            "prepare",
            (name,),
            f"data/{name}",
            settings,
            "data_prep.prepare",
            **inputs,
            **self._instructed(),
            tokenizer=self.job("base") / "base",
        )

    def cases(self, name: str) -> Part:
        """Cases of the training (`train`) or of a benchmark; `sft`: the SFT conversations."""
        if self.study.synthetic:
            return self.job("clinic") / f"{name}.jsonl"
        return self.job("prepare", "train" if name == "sft" else name) / f"{name}.jsonl"

    def _instructed(self) -> dict[str, Part]:
        """The actor's system message, where it is not in the settings."""
        if self.study.protocol.instruction is not None:
            return {}
        return {"instruction": self.job("instruction") / "instruction.txt"}

    def _base(self) -> Job:
        study = self.study
        if study.synthetic:
            settings: Any = PretrainSettings(
                study.clinic, study.scratch_model, study.protocol, study.rl.tokens_per_micro_batch
            )
            world = self.job("clinic") / "world.json"
            return self._new("base", (), "models/base", settings, "pcqc.jobs.pretrain", world=world)
        settings = PretrainedSettings(study.pretrained)
        return self._new("base", (), "models/base", settings, "pcqc.jobs.pretrained")

    def base_model(self, role: str) -> Part:
        """Weights of `actor`, `patient` or `scorer` before any fine-tuning."""
        return self.job("base") / self.study.starts_from(role)

    def _sft(self) -> Job:
        study = self.study
        settings = SftSettings(
            study.sft,
            study.protocol,
            study.engine,
            {role: study.dtype(role) for role in ("actor", "patient")},
            study.deterministic,
            study.rl.tokens_per_micro_batch,
        )
        return self._new(
            "sft",
            (),
            "models/sft",
            settings,
            "pcqc.jobs.sft",
            actor=self.base_model("actor"),
            patient=self.base_model("patient"),
            conversations=self.cases("sft"),
            **self._instructed(),
        )

    def models(self) -> dict[str, Part]:
        """What consultations are held with."""
        sft = self.job("sft")
        roles = {"actor": sft / "actor", "patient": sft / "patient"}
        return {**roles, "scorer": self.base_model("scorer"), **self._instructed()}

    def _world(self) -> dict[str, Part]:
        return {"world": self.job("clinic") / "world.json"} if self.study.synthetic else {}

    # One run.

    def _train(self, method: str, run: str) -> Job:
        study = self.study
        if not self.is_trained(method):
            raise UserError(f"'{method}' has no reinforcement learning; evaluate it as it is")
        entry = study.method(method)
        settings = TrainSettings(
            **self.rollouts(),
            rl=study.rl_of(entry),
            method=replace(entry, title="-", role="method", runs=(), rl={}),
            seed=study.seed(run),
            evaluation_seed=study.evaluation_seed,
            development={study.development: study.benchmarks[study.development]},
        )
        job = self._new(
            "train",
            (method, run),
            f"runs/{method}/{run}",
            settings,
            "pcqc.jobs.train",
            train=self.cases("train"),
            development=self.cases(study.development),
            **self.models(),
            **self._world(),
        )
        # What the job imports for the clinic alone, or for methods that ask the clinic's world.
        unused = ("pcqc.clinic.expected",) if "world" not in entry.needs else ()
        unused = unused if study.synthetic else ("pcqc.clinic",)
        entries = ("pcqc.jobs.train", method_module(entry.method))
        return replace(job, entries=entries, unused=unused)

    def _trained(self, method: str, run: str) -> dict[str, Job]:
        return {"run": self.job("train", method, run)} if self.is_trained(method) else {}

    def _select(self, method: str, run: str) -> Job:
        settings = SelectSettings(self.study.development, self.is_trained(method))
        folder, inputs = f"selection/{method}/{run}", self._trained(method, run)
        return self._new("select", (method, run), folder, settings, "pcqc.jobs.select", **inputs)

    def _chosen(self, method: str, run: str) -> dict[str, Any]:
        """A run's selected checkpoint; Shared SFT's is the actor."""
        selection = self.job("select", method, run) / "selection.json"
        return {"selection": selection, **self._trained(method, run), **self.models()}

    def _evaluate(self, method: str, run: str) -> Job:
        study = self.study
        settings = EvaluateSettings(
            **self.rollouts(),
            evaluation_seed=study.evaluation_seed,
            benchmarks=tuple(study.benchmarks),
            also_evaluate=tuple(study.also_evaluate.get(method, ())),
        )
        return self._new(
            "evaluate",
            (method, run),
            f"evaluation/{method}/{run}",
            settings,
            "pcqc.jobs.evaluate",
            **self._chosen(method, run),
            **{f"cases {name}": self.cases(name) for name in study.benchmarks},
        )

    def _continuation(self, method: str, run: str) -> Job:
        study, wanted = self.study, self.study.continuation
        if wanted is None:
            raise UserError(f"study '{study.name}' has no settings 'continuation'; add the group")
        names = ("states", "candidates", "continuations", "seed", "ungrounded")
        settings = ContinuationSettings(
            **self.rollouts(),
            development=study.development,
            **{name: getattr(wanted, name) for name in names},
        )
        return self._new(
            "continuation",
            (method, run),
            f"continuation/{method}/{run}",
            settings,
            "pcqc.jobs.continuation",
            **self._chosen(method, run),
            development=self.cases(study.development),
            **(self._world() if wanted.ungrounded else {}),
        )

    def _grounding(self, method: str, run: str) -> Job:
        study = self.study
        wanted = study.continuation
        settings = GroundingSettings(
            study.protocol,
            study.engine,
            {"scorer": study.dtype("scorer")},
            study.deterministic,
            wanted.judges if wanted else {},
            study.synthetic,
        )
        base = self.job("base")
        judges = {f"judge_{name}": base / f"judge_{name}" for name in settings.judges}
        review = {"review": Path(wanted.review)} if wanted and wanted.review else {}
        own = self._world() or judges or {"scorer": self.base_model("scorer")}
        return self._new(
            "grounding",
            (method, run),
            f"grounding/{method}/{run}",
            settings,
            "pcqc.jobs.grounding",
            candidates=self.job("continuation", method, run) / "candidates.parquet",
            development=self.cases(study.development),
            **own,
            **review,
            **self._instructed(),
        )

    # What all runs end in.

    def _mirror(self, method: str) -> Job:
        study, entry = self.study, self.study.method(method)
        traces = study.tracking.consultations_as_traces
        settings = MirrorSettings(entry.title, store_address(study), traces, stores_lost(study))
        inputs: dict[str, Any] = {}
        for run in entry.runs:
            kinds = ["evaluate", "select", *(["train"] if self.is_trained(method) else [])]
            if (method, run) in study.continued:
                kinds += ["continuation", "grounding"]
            inputs |= {f"{kind} {run}": self.job(kind, method, run) for kind in kinds}
        folder = f"tracking/{method}"
        return self._new(
            "mirror", (method,), folder, settings, "pcqc.tracking.mirror_runs", **inputs
        )

    def _collect(self) -> Job:
        inputs = {name: self.job("mirror", name) for name in self.methods}
        entry = "pcqc.tracking.collect"
        return self._new("collect", (), "collected", NoSettings(), entry, **inputs)

    def _report(self) -> Job:
        """Tables, figures, report, transcripts and paper, in one folder."""
        from pcqc.study.replicates import replicates

        study = self.study
        inputs: dict[str, Any] = {"collected": self.job("collect")}
        for other in replicates(study):
            inputs[f"collected {other.name}"] = Jobs(other).job("collect")
        # Ablations and peers have tables once they are evaluated; a report never waits for them.
        for method, run in self.runs():
            job = self.job("evaluate", method, run)
            if study.method(method).on_demand and job.manifest.exists():
                inputs[f"evaluate {method} {run}"] = job
        if not study.synthetic:
            inputs |= {f"convert {name}": self.job("convert", name) for name in study.raw_files}
            inputs["overlap"] = self.job("overlap")
        templates = [p for p in (ROOT / "analysis").rglob("*") if p.suffix in TEMPLATES]
        inputs |= {f"template {p.name}": p for p in sorted(templates)}
        settings = ReportSettings(study.to_dict())
        return self._new("report", (), "report", settings, "analysis.jobs.report", **inputs)

    def _peers(self) -> Job:
        """The table of published credits; it shows runs of the paper's methods too where made."""
        inputs: dict[str, Any] = {}
        for method, run in self.runs():
            job = self.job("evaluate", method, run)
            if method in self.compared or job.manifest.exists():
                inputs[f"evaluate {method} {run}"] = job
        settings = ReportSettings(self.study.to_dict())
        return self._new("peers", (), "peers", settings, "analysis.jobs.peers", **inputs)

    def _publish(self) -> Job:
        settings = MirrorSettings(
            self.study.title, store_address(self.study), 0, stores_lost(self.study)
        )
        report = self.job("report")
        entry = "pcqc.tracking.publish_report"
        return self._new("publish", (), "published", settings, entry, report=report)

    # Which there are.

    @property
    def compared(self) -> list[str]:
        """Methods that `snakemake peers` compares."""
        methods = self.study.methods.items()
        beside = [name for name, m in methods if m.runs and m.role in ("peer", "rate")]
        return [*(name for name in RIVALS if self.study.methods[name].runs), *beside]

    @property
    def methods(self) -> list[str]:
        """Methods and controls that `snakemake all` makes."""
        return [n for n, m in self.study.methods.items() if m.runs and not m.on_demand]

    def is_trained(self, method: str) -> bool:
        """Whether runs of the method are trained: Shared SFT is not."""
        return self.study.method(method).kind == "rl"

    def runs(self) -> list[tuple[str, str]]:
        """Method and letter of every run, those on demand among them."""
        return [(name, run) for name, m in self.study.methods.items() for run in m.runs]

    def shared(self) -> list[Job]:
        """Jobs that all runs share, in order."""
        if self.study.synthetic:
            return [self.job("clinic"), self.job("base"), self.job("sft")]
        data = [self.job("convert", name) for name in self.study.raw_files]
        data += [self.job("overlap"), self.job("base")]
        if self.study.protocol.instruction is None:
            data.append(self.job("instruction"))
        data += [self.job("prepare", name) for name in ("train", *self.study.benchmarks)]
        return [*data, self.job("sft")]

    def run(self, method: str, run: str) -> list[Job]:
        """Jobs of one run, in order."""
        kinds = [*(["train"] if self.is_trained(method) else []), "select", "evaluate"]
        if (method, run) in self.study.continued:
            kinds += ["continuation", "grounding"]
        return [self.job(kind, method, run) for kind in kinds]

    def method(self, method: str) -> list[Job]:
        """Jobs of a method's runs, in order, and the mirror of them."""
        runs = [job for run in self.study.method(method).runs for job in self.run(method, run)]
        return [*runs, self.job("mirror", method)]

    def all(self) -> Iterator[Job]:
        """Every job of `snakemake all`, and of runs on demand that were begun, in order."""
        yield from self.shared()
        for name in self.study.methods:
            jobs = self.method(name) if self.study.method(name).runs else []
            if name in self.methods or any(job.path.exists() for job in jobs):
                yield from jobs
        for kind in ("collect", "report", "publish"):
            yield self.job(kind)

    def on_demand(self) -> Iterator[Job]:
        """Jobs of methods that `snakemake all` leaves out, and what is made of them."""
        for name, method in self.study.methods.items():
            if method.runs and method.on_demand:
                yield from self.method(name)
        yield self.job("peers")

    def rollouts(self) -> dict[str, Any]:
        """Fields of `RolloutSettings`."""
        study = self.study
        roles = ("actor", "patient", "scorer")
        names = ("protocol", "actor_decoding", "patient_decoding", "engine", "deterministic")
        settings = {name: getattr(study, name) for name in names}
        return {**settings, "dtypes": {role: study.dtype(role) for role in roles}}

    def _new(
        self,
        kind: str,
        whose: tuple[str, ...],
        folder: str,
        settings: Any,
        entry: str,
        **inputs: Any,
    ) -> Job:
        return Job(kind, whose, self.root / folder, settings, (entry,), inputs)
