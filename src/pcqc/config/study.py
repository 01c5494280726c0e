"""A study: what is compared, on what, with which sizes."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from pcqc.config.data import Benchmark, Clinic
from pcqc.config.models import Decoding, Engine, ScratchModel
from pcqc.config.training import Method, Protocol, Rl, Sft
from pcqc.errors import UserError
from pcqc.settings import nearest


@dataclass(frozen=True)
class Tracking:
    """The MLflow mirror."""

    uri: str = "sqlite:///results/mlflow.db"
    consultations_as_traces: int = 4  # per run
    timeout_seconds: float = 20.0


@dataclass(frozen=True)
class Continuation:
    """The continuation study (Section 4.4): does utility predict downstream success?"""

    method: str = "pcqc"  # whose policy asks and continues
    run: str = "A"
    reference: str | None = "shared_sft"  # a method studied likewise, in its first run; or none
    states: int = 128  # development cases, each at its initial state
    candidates: int = 4  # questions fixed at each state, the first of them the executed one
    continuations: int = 8  # of each candidate
    seed: int = 0
    review: str | None = None  # CSV of manual judgements on answers, which override the judge's

    def __post_init__(self):
        if min(self.states, self.continuations) < 1 or self.candidates < 2:
            raise ValueError("needs states >= 1, candidates >= 2 and continuations >= 1")


@dataclass(frozen=True)
class Study:
    """One study: what is compared, on what, with which sizes."""

    name: str
    title: str
    synthetic: bool
    benchmarks: dict[str, Benchmark]
    protocol: Protocol
    actor_decoding: Decoding
    patient_decoding: Decoding
    sft: Sft
    rl: Rl
    runs: dict[str, int]  # letter -> seed of an independent RL run
    methods: dict[str, Method]
    evaluation_seed: int
    clinic: Clinic | None = None
    scratch_model: ScratchModel | None = None
    continuation: Continuation | None = None
    engine: Engine = field(default_factory=Engine)
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
    def continued(self) -> list[tuple[str, str]]:
        """Method and run of every policy in the continuation study; none without that study."""
        if self.continuation is None:
            return []
        pairs = [(self.continuation.method, self.continuation.run)]
        if reference := self.continuation.reference:
            pairs.append((reference, self.method(reference).runs[0]))
        return pairs

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

    def to_dict(self) -> dict:
        """All settings as plain data."""
        return dataclasses.asdict(self)
