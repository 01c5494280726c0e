"""What the JSON files that jobs write for each other must hold; see `files.read_json`."""

from typing import Any

from typing_extensions import TypedDict


class DataFile(TypedDict):
    """A file of cases or conversations."""

    rows: int
    sha256: str


class DataManifest(TypedDict):
    """`data/manifest.json`."""

    files: dict[str, DataFile]


class FolderManifest(TypedDict):
    """`manifest.json` of a folder of weights or of a saved state: file -> SHA-256."""

    files: dict[str, str]


class Cursor(TypedDict):
    """`cursor.json` of a saved state."""

    step: int


class Validation(TypedDict):
    """How a checkpoint did on the development benchmark."""

    benchmark: str
    accuracy: float
    turns: float
    actor_tokens: float
    predictions: str


class Checkpoint(TypedDict):
    """`validation/<update>.json`, and an entry of a run's manifest."""

    update: int
    path: str
    digest: str
    validation: Validation


class Totals(TypedDict):
    """What a run has used."""

    trajectories: int
    actor_tokens: int
    device_seconds: float


class RunManifest(TypedDict):
    """`manifest.json` of a training run."""

    seed: int
    fingerprint: str
    git_commit: str
    settings: dict[str, Any]
    updates: int
    totals: Totals
    checkpoints: list[Checkpoint]
    files: dict[str, str]


class Selected(TypedDict):
    """The checkpoint that was chosen."""

    update: int


class Selection(TypedDict):
    """`selection.json`."""

    benchmark: str
    criterion: str
    selected: Selected
    rejected: list[dict[str, Any]]


class BenchmarkSummary(TypedDict):
    """Numbers and files of one benchmark's evaluation."""

    cases: int
    accuracy: float
    turns: float
    actor_tokens: float
    predictions: str
    dialogues: str


class EvaluationManifest(TypedDict):
    """`manifest.json` of an evaluation."""

    update: int
    checkpoint: str
    benchmarks: dict[str, BenchmarkSummary]
    files: dict[str, str]


class ContinuationManifest(TypedDict):
    """`manifest.json` of a continuation study."""

    checkpoint: str
    benchmark: str
    files: dict[str, str]
