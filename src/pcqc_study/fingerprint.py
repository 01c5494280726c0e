"""When a result is made again: when its recipe, all that it depends on, is new.

The recipe's short digest names the result's folder. A recipe holds the job's settings, a digest of
every source module that the job reaches, and the recipes of the jobs whose results it reads (of raw
files the SHA-256). All of it is known before anything runs. So
`results/clinic/runs/pcqc/A/3f9c1a2b/` is the result of one recipe for ever: after an edit the
recipe, and with it the folder, is another one, and an edit that is taken back leads to the folder
that is there already.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pcqc.system.files import digest, sha256_file
from pcqc.system.manifest import LATEST, MANIFEST, accepted_folder
from pcqc_study.source_digests import module_digests


@dataclass(frozen=True)
class Recipe:
    """What a job's result depends on.

    Attributes:
        job: such as `train pcqc A`; jobs with equal settings have folders of different names, so
            that none is taken for the other's.
        settings: as JSON has them.
        modules: name of a source module -> digest of its syntax tree; see `module_digests`.
        inputs: name of an input -> short digest of its job's recipe, or SHA-256 of a raw file.
    """

    job: str
    settings: dict[str, Any]
    modules: dict[str, str]
    inputs: dict[str, str]

    @property
    def short(self) -> str:
        """Digest of everything, 8 hex digits: the name of the result's folder."""
        return digest(dataclasses.asdict(self))[:8]

    def differences(self, new: "Recipe") -> dict[str, dict[str, tuple[Any, Any]]]:
        """`settings`, `modules` and `inputs` -> what differs in another recipe: (here, there).

        None stands for what one of them does not have.
        """
        return {
            "settings": _differences(flat(self.settings), flat(new.settings)),
            "modules": _differences(self.modules, new.modules),
            "inputs": _differences(self.inputs, new.inputs),
        }

    def changes(self, new: "Recipe") -> list[str]:
        """What is different in another recipe, a clause each."""
        differing = self.differences(new)
        clauses = [
            f"setting {name}: {word(before)} -> {word(after)}"
            for name, (before, after) in differing["settings"].items()
        ]
        for kind in ("modules", "inputs"):
            for name, (before, after) in differing[kind].items():
                verb = (
                    "changed" if before and after else "is no longer read" if before else "is new"
                )
                clauses.append(f"{kind[:-1]} {name} {verb}")
        return clauses


@dataclass(frozen=True, eq=False)
class Job:
    """One job of a study: what it reads, and where its result is or will be.

    Attributes:
        kind: such as `train`; names the command and the rule.
        arguments: such as `("pcqc", "A")`; empty for jobs that all runs share.
        folder: holds one folder for each recipe that the job was ever run with.
        settings: all that the job is told, as attributes.
        entries: modules in which the job starts.
        inputs: name -> what the job reads of another job's result, or a raw file.
        unused: modules that the entries import and this job does not enter.
    """

    kind: str
    arguments: tuple[str, ...]
    folder: Path
    settings: Any
    entries: tuple[str, ...]
    inputs: Mapping[str, "Job | Part | Path"] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Such as `train pcqc A`."""
        return " ".join([self.kind, *self.arguments])

    @cached_property
    def recipe(self) -> Recipe:
        """What the result would be made from now."""
        settings = json.loads(json.dumps(vars(self.settings), default=_plain))
        inputs = {
            name: sha256_file(source) if isinstance(source, Path) else source.recipe_name
            for name, source in self.inputs.items()
        }
        modules = module_digests(*self.entries, unused=self.unused)
        return Recipe(self.name, settings, modules, inputs)

    @cached_property
    def path(self) -> Path:
        """Folder of the result, whether it is there or not.

        It is that of an earlier recipe where the manifest there declares this one equal.
        """
        own = self.folder / self.recipe.short
        if (own / MANIFEST).exists():
            return own
        return accepted_folder(self.folder, self.recipe.short) or own

    @property
    def latest(self) -> Path:
        """Link to the newest result, whatever its recipe."""
        return self.folder / LATEST

    @property
    def recipe_name(self) -> str:
        """Name of the result's folder, as the recipes of other jobs have it."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """The file that is written last, when the result is whole."""
        return self.path / MANIFEST

    @property
    def needs(self) -> list["Job"]:
        """Jobs whose results it reads, each once."""
        jobs = [getattr(source, "job", source) for source in self.inputs.values()]
        return list(dict.fromkeys(job for job in jobs if isinstance(job, Job)))

    def changed_settings(self, before: dict[str, Any]) -> list[str]:
        """Dotted names of settings that are others than an earlier result of the job had.

        A setting that is newer than that result is taken to have had today's default.

        Args:
            before: settings of that result's recipe.
        """
        old = flat(before)
        new = set(_left_alone(self.settings)) - old.keys()
        return [name for name in _differences(old, flat(self.recipe.settings)) if name not in new]

    def __truediv__(self, name: str) -> "Part":
        return Part(self, name)


@dataclass(frozen=True)
class Part:
    """A file or folder of a job's result."""

    job: Job
    name: str

    @property
    def recipe_name(self) -> str:
        """Name of the result's folder and the part, as the recipes of other jobs have it."""
        return f"{self.job.recipe_name}/{self.name}"

    @property
    def path(self) -> Path:
        """Where it is, or will be, of today's recipe."""
        return self.job.path / self.name

    @property
    def latest(self) -> Path:
        """Where the newest is, whatever its recipe."""
        return self.job.latest / self.name


def input_paths(job: Job) -> dict[str, Path]:
    """Name of an input -> its file or folder."""
    return {n: s if isinstance(s, Path) else s.path for n, s in job.inputs.items()}


def flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings as `a.b.c` -> value; tuples as lists."""
    if not isinstance(settings, dict):
        return {prefix: list(settings) if isinstance(settings, tuple) else settings}
    names: dict[str, object] = {}
    for key, value in settings.items():
        names |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return names


def _left_alone(settings: Any, prefix: str = "") -> Iterator[str]:
    """Dotted names of a job's settings that have their default."""
    fields = getattr(settings, "__dataclass_fields__", {})
    for name, value in vars(settings).items():
        if dataclasses.is_dataclass(value):
            yield from _left_alone(value, f"{prefix}{name}.")
        elif name in fields:
            field = fields[name]
            made = field.default_factory is not dataclasses.MISSING
            if value == (field.default_factory() if made else field.default):
                yield f"{prefix}{name}"


def _plain(value: Any) -> Any:
    """What JSON does not know, such as settings within settings."""
    known = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if known else str(value)


def _differences(before: Mapping, after: Mapping) -> dict[str, tuple[Any, Any]]:
    names = sorted(before.keys() | after.keys())
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def word(value: object) -> str:
    """A setting's value as text."""
    return "none" if value is None else str(value)
