"""What the JSON files that jobs write for each other must hold; see `files.read_json`."""

from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import ConfigDict
from typing_extensions import TypedDict


class RecipeShape(TypedDict):
    """What a result was made from; see `pcqc.recipes.recipe.Recipe`."""

    job: str
    settings: dict[str, Any]
    modules: dict[str, str]
    inputs: dict[str, str]


class Manifest(TypedDict):
    """`manifest.json` of a result; jobs add entries of their own."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    recipe: RecipeShape
    also_for: dict[str, str]  # recipe that was declared equal -> when and why
    git_commit: str
    version: str
    machine: dict[str, str]
    begun: str
    finished: str
    files: dict[str, str]  # name -> SHA-256
    digest: str  # of all the rest


class Begun(TypedDict):
    """`state/begun.json` of an unfinished job."""

    begun: str


class FolderManifest(TypedDict):
    """`manifest.json` of a folder of weights or of a saved state: file -> SHA-256."""

    files: dict[str, str]


class Cursor(TypedDict):
    """`cursor.json` of a saved state."""

    step: int


class Block(TypedDict):
    """A finished block of a continuation study under way."""

    rows: list[Any]
    digest: str


class CollectedRun(TypedDict):
    """An entry of `collected/runs.json`."""

    method: str
    run: str
    run_id: str
    experiment_id: str
    training: dict[str, Any] | None
    evaluation: dict[str, Any]
    selection: dict[str, Any] | None


# `collected/runs.json`.
CollectedRuns = Annotated[list[CollectedRun], MinLen(1)]
