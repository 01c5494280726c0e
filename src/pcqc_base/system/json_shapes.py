"""What JSON files must hold that have no digest of their own; see `files.read_json`."""

from typing import Annotated, Any

from annotated_types import MinLen
from typing_extensions import TypedDict


class Begun(TypedDict):
    """`state/begun.json` of an unfinished job."""

    begun: str


class ResultManifest(TypedDict):
    """`manifest.json` of a result; a job adds what it says of its result."""

    fingerprint: dict[str, Any]
    files: dict[str, str]
    also_for: dict[str, str]
    digest: str


class FolderManifest(TypedDict):
    """`manifest.json` of a folder of weights or of a saved state: file -> SHA-256."""

    files: dict[str, str]


class ModelConfig(TypedDict, total=False):
    """`config.json` of a model: its architecture, as transformers calls it."""

    model_type: str


class Words(TypedDict):
    """The vocabulary of a tokenizer that has whole words."""

    vocab: dict[str, int]
    unk_token: str


class WordTokenizer(TypedDict):
    """`tokenizer.json` of such a tokenizer."""

    model: Words


class GenerationConfig(TypedDict, total=False):
    """`generation_config.json` of a model: the tokens at which it ends a response."""

    eos_token_id: int | list[int] | None


class WeightIndex(TypedDict):
    """`model.safetensors.index.json` of weights in several files: name of a weight -> its file."""

    weight_map: dict[str, str]


class CollectedRun(TypedDict):
    """An entry of `collected/runs.json`."""

    method: str
    run: str
    fingerprint: str
    training: dict[str, Any] | None
    evaluation: dict[str, Any]
    selection: dict[str, Any] | None


# `collected/runs.json`.
CollectedRuns = Annotated[list[CollectedRun], MinLen(1)]
