"""A study: what is compared, on which data, at which sizes."""

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from pcqc_base.errors import UserError, nearest
from pcqc_base.settings.continuation import Continuation, Equivalence
from pcqc_base.settings.data import Benchmark, Clinic, Data, RawFile
from pcqc_base.settings.every_method import Method
from pcqc_base.settings.models import (
    Decoding,
    Engine,
    Models,
    Pretrained,
    ScratchModel,
    Servers,
)
from pcqc_base.settings.placement import Assumptions, Placement
from pcqc_base.settings.tracking import Tracking
from pcqc_base.settings.training import Protocol, Rl, Sft
from pcqc_base.settings.types import STRICT, Count, Name, Some, Title


@dataclass(frozen=True, config=STRICT)
class Study:
    """One study: what is compared, on what, with which sizes."""

    name: Name  # of its file
    title: Title
    synthetic: bool
    benchmarks: dict[Name, Benchmark]
    protocol: Protocol
    actor_decoding: Decoding  # validation and evaluation; of rollouts see `rl.rollout_top_p`
    patient_decoding: Decoding
    sft: Sft
    rl: Rl
    runs: dict[Name, int]  # letter -> seed of an independent RL run
    methods: dict[Name, Method]
    evaluation_seed: int
    # Method -> updates whose checkpoints are evaluated beside the selected one, in every run.
    also_evaluate: dict[str, Some[Count]] = field(default_factory=dict)
    clinic: Clinic | None = None
    scratch_model: ScratchModel | None = None
    data: Data | None = None
    models: Models | None = None
    # studies that repeat this one on another base model; claims are judged on all of them
    replicates: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)  # optional benchmark -> missing file
    path_test: bool = False  # too small to say anything: tables and report say so
    continuation: Continuation | None = None
    equivalence: Equivalence = field(default_factory=Equivalence)
    engine: Engine = field(default_factory=Engine)
    servers: Servers = field(default_factory=Servers)
    placement: Placement | None = None  # of roles on devices; without it a job runs on one device
    assumptions: Assumptions = field(default_factory=Assumptions)
    tracking: Tracking = field(default_factory=Tracking)

    @property
    def results(self) -> Path:
        """Folder of the study's results, below the working directory."""
        return Path("results") / self.name

    @property
    def development(self) -> str:
        """Name of the benchmark on which checkpoints are chosen."""
        return next(n for n, b in self.benchmarks.items() if b.role == "development")

    @property
    def common_runs(self) -> list[str]:
        """Runs that every trained method and control has; tables of one run show the first."""
        trained = [
            method.runs
            for method in self.methods.values()
            if method.kind == "rl" and not method.on_demand and method.runs
        ]
        return [run for run in self.runs if all(run in runs for runs in trained)]

    @property
    def continued(self) -> list[tuple[str, str]]:
        """Method and run of every policy in the continuation study."""
        if self.continuation is None:
            return []
        pairs = [(self.continuation.method, self.continuation.run)]
        if reference := self.continuation.reference:
            pairs.append((reference, self.method(reference).runs[0]))
        return pairs

    @property
    def sources(self) -> Data:
        """Where training cases and SFT conversations come from; the clinic writes its own files."""
        if self.clinic is None:
            return self.data
        training, sft = RawFile("train.jsonl"), RawFile("sft.jsonl")
        sizes = self.clinic.training_cases, self.clinic.sft_conversations
        return Data((training,), sizes[0], conversations=sizes[1], sft=sft)

    @property
    def raw_files(self) -> dict[str, RawFile]:
        """Name in `data/converted` -> raw file; the training's names start with `train`."""
        training, several = self.sources.training, len(self.sources.training) > 1
        files = {f"train-{i}" if several else "train": f for i, f in enumerate(training, start=1)}
        if self.sources.sft:
            files["sft"] = self.sources.sft
        own = {name: benchmark.raw for name, benchmark in self.benchmarks.items()}
        return files | {name: raw or RawFile(f"{name}.jsonl") for name, raw in own.items()}

    @property
    def pretrained(self) -> dict[str, Pretrained]:
        """Model folder -> weights in it, each once; `base` has the actor's."""
        if self.models is None:
            return {}
        folders = {"base": self.models.actor}
        for name in ("patient", "scorer"):
            own = getattr(self.models, name)
            if own and not own.same_weights(self.models.actor):
                folders["patient_base" if name == "patient" else name] = own
        judges = self.continuation.judges if self.continuation else {}
        folders |= {f"judge_{name}": judge.weights for name, judge in judges.items()}
        return folders

    def starts_from(self, role: str) -> str:
        """Model folder of a role's weights (`actor`, `patient`, `scorer`) before SFT."""
        folder = "patient_base" if role == "patient" else role
        return folder if folder in self.pretrained else "base"

    @property
    def deterministic(self) -> bool:
        """Whether GPUs compute with deterministic kernels; a CPU always does."""
        return self.placement is not None and self.placement.deterministic

    @property
    def on_gpus(self) -> bool:
        """Whether jobs that run models need GPUs: as the placement says.

        Without a placement all studies do but the clinic's and tests of the path.
        """
        if self.placement:
            return self.placement.device != "CPU"
        return not (self.synthetic or self.path_test)

    def dtype(self, role: str) -> str:
        """Number format of a role's weights."""
        own = self.models and (getattr(self.models, role) or self.models.actor)
        return (own and own.dtype) or self.engine.dtype

    def method(self, name: str) -> Method:
        """The method's settings; UserError with the nearest name if there is none."""
        if name not in self.methods:
            raise UserError(
                f"no method '{name}' in study '{self.name}'{nearest(name, self.methods)}"
            )
        return self.methods[name]

    def rl_of(self, method: Method) -> Rl:
        """Settings of policy optimisation that a method's runs have: the study's and its own."""
        own: dict[str, Any] = method.rl
        return dataclasses.replace(self.rl, **own)

    def may_level_off(self, method: Method) -> bool:
        """Whether a run of the method can end before its last update."""
        return bool(self.rl_of(method).level_after)

    def seed(self, run: str) -> int:
        """Seed of a run; UserError if the study has no such run."""
        if run not in self.runs:
            raise UserError(f"no run '{run}' in study '{self.name}'{nearest(run, self.runs)}")
        return self.runs[run]

    def require(self, method: str, run: str) -> None:
        """Raise UserError if the study has no such method or no such run."""
        self.method(method)
        self.seed(run)

    def require_run(self, method: str, run: str) -> None:
        """Raise UserError unless the method has this run in the study."""
        if run not in (known := self.method(method).runs):
            place = "the study's file, or where `pcqc vary` recorded it"
            remedy = f"; add '{run}' to its `runs` in {place}" if run in self.runs else ""
            raise UserError(
                f"{method} has no run '{run}' in study '{self.name}'; known are "
                f"{', '.join(known) or 'none'}{remedy}"
            )

    def to_dict(self) -> dict:
        """All settings as plain data."""
        return dataclasses.asdict(self)
