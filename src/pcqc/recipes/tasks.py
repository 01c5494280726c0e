"""What a job is told: its own settings, a class below for each kind of job, and where it runs.

A job is told nothing else of its study, so what it does not read cannot change its recipe. `Where`
is told beside the settings and is no part of a recipe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcqc.settings.data import Benchmark, Clinic, Data
from pcqc.settings.method import Method
from pcqc.settings.models import Decoding, Engine, Judge, Pretrained, ScratchModel, Servers
from pcqc.settings.placement import Assumptions, Placement
from pcqc.settings.study import Study, Ungrounded
from pcqc.settings.training import Protocol, Rl, Sft


@dataclass(frozen=True)
class Where:
    """Where a job runs, which is no part of what it makes.

    Attributes:
        cache_tokens: of the actor's engine, if not `engine.cache_tokens`.
    """

    placement: Placement | None
    servers: Servers
    assumptions: Assumptions
    cache_tokens: int | None = None

    @classmethod
    def of(cls, study: Study) -> "Where":
        return cls(study.placement, study.servers, study.assumptions)


@dataclass(frozen=True)
class Task:
    """What a job function is handed.

    Attributes:
        arguments: such as `("pcqc", "A")`.
        settings: one of the classes below.
        inputs: name -> file or folder; call `manifest.checked` before reading one.
        folder: where the job writes.
        where: devices and servers.
    """

    arguments: tuple[str, ...]
    settings: Any
    inputs: Mapping[str, Path]
    folder: Path
    where: Where

    @property
    def state(self) -> Path:
        """Folder of what the job needs to go on after it was stopped."""
        return self.folder / "state"


@dataclass(frozen=True)
class ClinicSettings:
    clinic: Clinic
    benchmarks: Mapping[str, Benchmark]
    protocol: Protocol


@dataclass(frozen=True)
class ConvertSettings:
    format: str | None


@dataclass(frozen=True)
class OverlapSettings:
    training: tuple[str, ...]
    evaluation: tuple[str, ...]


@dataclass(frozen=True)
class InstructionSettings:
    training: tuple[str, ...]
    development: str


@dataclass(frozen=True)
class NoSettings:
    pass


@dataclass(frozen=True)
class PrepareSettings:
    """Of the training cases, with conversations, or of one benchmark's cases."""

    name: str
    protocol: Protocol
    data: Data
    expected: int | None  # number of cases


@dataclass(frozen=True)
class PretrainSettings:
    clinic: Clinic
    scratch_model: ScratchModel
    protocol: Protocol
    tokens_per_micro_batch: int


@dataclass(frozen=True)
class PretrainedSettings:
    pretrained: Mapping[str, Pretrained]  # folder -> weights


@dataclass(frozen=True)
class SftSettings:
    sft: Sft
    protocol: Protocol
    engine: Engine
    dtypes: Mapping[str, str]
    deterministic: bool
    tokens_per_micro_batch: int


@dataclass(frozen=True)
class RolloutSettings:
    """What consultations are held with.

    Attributes:
        dtypes: role -> number format of its weights.
        deterministic: GPUs use deterministic kernels.
    """

    protocol: Protocol
    actor_decoding: Decoding
    patient_decoding: Decoding
    engine: Engine
    dtypes: Mapping[str, str]
    deterministic: bool


@dataclass(frozen=True)
class TrainSettings(RolloutSettings):
    rl: Rl
    method: Method
    seed: int
    evaluation_seed: int
    development: Mapping[str, Benchmark]  # the development benchmark alone


@dataclass(frozen=True)
class SelectSettings:
    development: str
    trained: bool


@dataclass(frozen=True)
class EvaluateSettings(RolloutSettings):
    evaluation_seed: int
    benchmarks: tuple[str, ...]
    also_evaluate: tuple[int, ...]


@dataclass(frozen=True)
class ContinuationSettings(RolloutSettings):
    development: str
    states: int
    candidates: int
    continuations: int
    seed: int
    early: int | None
    ungrounded: Ungrounded | None


@dataclass(frozen=True)
class GroundingSettings:
    protocol: Protocol
    engine: Engine
    dtypes: Mapping[str, str]
    deterministic: bool
    judges: Mapping[str, Judge]
    synthetic: bool


@dataclass(frozen=True)
class MirrorSettings:
    title: str
    uri: str
    stores_lost: int  # read by no job: what a lost store had is mirrored again


@dataclass(frozen=True)
class ReportSettings:
    study: Mapping[str, Any]
