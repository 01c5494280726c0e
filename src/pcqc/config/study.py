"""A study: what is compared, on what, with which sizes."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pcqc.config.data import Benchmark, Clinic, Data, RawFile
from pcqc.config.models import Decoding, Engine, Models, Pretrained, ScratchModel, Servers
from pcqc.config.placement import Assumptions, Placement
from pcqc.config.training import Method, Protocol, Rl, Sft
from pcqc.errors import UserError
from pcqc.settings import Count, Name, Positive, Range, Whole, nearest


@dataclass(frozen=True)
class Tracking:
    """The MLflow mirror."""

    uri: str = "sqlite:///results/mlflow.db"
    consultations_as_traces: Whole = 4  # per run
    timeout_seconds: Positive = 20.0


@dataclass(frozen=True)
class Continuation:
    """The continuation study (Section 4.4): does utility predict downstream success?"""

    method: str = "pcqc"  # whose policy asks and continues
    run: str = "A"
    reference: str | None = "shared_sft"  # a method studied likewise, in its first run; or none
    states: Count = 128  # development cases, each at its initial state
    # questions fixed at each state, the first of them the executed one
    candidates: Annotated[int, Range(least=2)] = 4
    continuations: Count = 8  # of each candidate
    seed: int = 0
    review: str | None = None  # CSV of manual judgements on answers, which override the judge's


@dataclass(frozen=True)
class Study:
    """One study: what is compared, on what, with which sizes."""

    name: str  # of its file
    title: str
    synthetic: bool
    benchmarks: dict[Name, Benchmark]
    protocol: Protocol
    actor_decoding: Decoding
    patient_decoding: Decoding
    sft: Sft
    rl: Rl
    runs: dict[Name, int]  # letter -> seed of an independent RL run
    methods: dict[str, Method]
    evaluation_seed: int
    clinic: Clinic | None = None
    scratch_model: ScratchModel | None = None
    data: Data | None = None
    models: Models | None = None
    absent: dict[str, str] = field(default_factory=dict)  # optional benchmark -> missing file
    path_test: bool = False  # too small to say anything: tables and report say so
    continuation: Continuation | None = None
    engine: Engine = field(default_factory=Engine)
    servers: Servers = field(default_factory=Servers)
    placement: Placement | None = None  # of roles on devices; a study without runs on one
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
        """Runs that every trained method and control has; where one run is shown, the first."""
        trained = [
            method.runs
            for method in self.methods.values()
            if method.kind == "rl" and method.role != "ablation" and method.runs
        ]
        return [run for run in self.runs if all(run in runs for runs in trained)]

    @property
    def continued(self) -> list[tuple[str, str]]:
        """Method and run of every policy in the continuation study; none without that study."""
        if self.continuation is None:
            return []
        pairs = [(self.continuation.method, self.continuation.run)]
        if reference := self.continuation.reference:
            pairs.append((reference, self.method(reference).runs[0]))
        return pairs

    @property
    def raw_files(self) -> dict[str, RawFile]:
        """Name in `data/converted` -> published file; the training's names start with `train`."""
        if self.data is None:
            return {}
        training, several = self.data.training, len(self.data.training) > 1
        files = {f"train-{i}" if several else "train": f for i, f in enumerate(training, start=1)}
        if self.data.sft:
            files["sft"] = self.data.sft
        return files | {name: benchmark.raw for name, benchmark in self.benchmarks.items()}

    @property
    def pretrained(self) -> dict[str, Pretrained]:
        """Model folder -> weights that belong there, each once: `base` holds the actor's."""
        if self.models is None:
            return {}
        folders = {"base": self.models.actor}
        for name in ("patient", "scorer"):
            own = getattr(self.models, name)
            if own and not own.same_weights(self.models.actor):
                folders["patient_base" if name == "patient" else name] = own
        return folders

    def starts_from(self, role: str) -> str:
        """Model folder of the weights that `actor`, `patient` or `scorer` has before any SFT."""
        folder = "patient_base" if role == "patient" else role
        return folder if folder in self.pretrained else "base"

    def dtype(self, role: str) -> str:
        """Number format in which the weights of a role are held."""
        own = self.models and (getattr(self.models, role) or self.models.actor)
        return (own and own.dtype) or self.engine.dtype

    def method(self, name: str) -> Method:
        """The method's settings; UserError with the nearest name where there is none."""
        if name not in self.methods:
            raise UserError(
                f"no method '{name}' in study '{self.name}'{nearest(name, self.methods)}"
            )
        return self.methods[name]

    def seed(self, run: str) -> int:
        """Seed of a run; UserError where the study has no such run."""
        if run not in self.runs:
            raise UserError(f"no run '{run}' in study '{self.name}'{nearest(run, self.runs)}")
        return self.runs[run]

    def require(self, method: str, run: str) -> None:
        """UserError where the study has no such method, or no such run."""
        self.method(method)
        self.seed(run)

    def to_dict(self) -> dict:
        """All settings as plain data."""
        return dataclasses.asdict(self)
