"""When a result is made again: when its fingerprint, all that decides it, is new.

The short digest of the fingerprint names the result's folder. A fingerprint holds the job's
settings other than defaults, a digest of every source module that decides its numbers, and the
fingerprints of the jobs whose results it reads (of raw files the SHA-256). All of it is known
before anything runs. So `results/clinic/runs/pcqc/A/3f9c1a2b/` is the result of one fingerprint for
ever: after an edit the fingerprint, and with it the folder, is another one, and an edit that is
taken back leads to the folder that is there already.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic.fields import FieldInfo

from pcqc_base.system.files import digest, sha256_file
from pcqc_base.system.manifest import LATEST, MANIFEST, MARKER, accepted_folder
from pcqc_study.source_digests import module_digests

# Where a default is changed, the field's metadata names the first one under this key: what was made
# with it keeps its fingerprint, and what has the new one gets another.
FIRST = "first default"
DEFAULT = "its default"  # stands for a setting that a fingerprint does not have


@dataclass(frozen=True)
class Fingerprint:
    """What a job's result depends on.

    Attributes:
        job: such as `train pcqc A`; jobs with equal settings have folders of different names, so
            that none is taken for the other's.
        settings: as JSON has them, without those at their default.
        modules: name of a source module -> digest of its syntax tree; see `module_digests`.
        inputs: name of an input -> short digest of its job's fingerprint, or SHA-256 of a raw file.
        known: all settings, those at their default among them; to be shown, decides nothing.
    """

    job: str
    settings: dict[str, Any]
    modules: dict[str, str]
    inputs: dict[str, str]
    known: dict[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "Fingerprint":
        """The fingerprint of a finished result, from its manifest."""
        return cls(**manifest["fingerprint"], known=manifest.get("settings", {}))

    @property
    def parts(self) -> dict[str, Any]:
        """All that decides, as a manifest has it."""
        return {n: value for n, value in vars(self).items() if n != "known"}

    @property
    def short(self) -> str:
        """Digest of everything that decides, 8 hex digits: the name of the result's folder."""
        return digest(self.parts)[:8]

    def differences(self, new: "Fingerprint") -> dict[str, dict[str, tuple[Any, Any]]]:
        """`settings`, `modules` and `inputs` -> what differs in another: (here, there).

        None stands for what one of them does not have; `DEFAULT` for a setting's default that is
        not known.
        """
        settings = _differences(flat(self.settings), flat(new.settings), DEFAULT)
        if self.known and new.known:
            settings = _differences(flat(self.known), flat(new.known))
        return {
            "settings": settings,
            "modules": _differences(self.modules, new.modules),
            "inputs": _differences(self.inputs, new.inputs),
        }

    def changes(self, new: "Fingerprint") -> list[str]:
        """What is different in another fingerprint, a clause each."""
        differing = self.differences(new)
        deciding = _differences(flat(self.settings), flat(new.settings))
        clauses = [
            f"setting {name}: {word(before)} -> {word(after)}"
            for name, (before, after) in differing["settings"].items()
            if name in deciding  # not one that is new, and at its default
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
        folder: holds one folder for each fingerprint that the job was ever run with.
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
    def fingerprint(self) -> Fingerprint:
        """What would decide the result now."""
        inputs = {
            name: sha256_file(source) if isinstance(source, Path) else source.fingerprint_name
            for name, source in self.inputs.items()
        }
        settings = as_json(self.settings, defaults=False)
        modules = module_digests(*self.entries, unused=self.unused)
        return Fingerprint(self.name, settings, modules, inputs, as_json(self.settings))

    @property
    def beside(self) -> dict[str, str]:
        """Digests of the modules that the job runs through and that do not decide its numbers."""
        return module_digests(*self.entries, unused=self.unused, deciding=False)

    @cached_property
    def path(self) -> Path:
        """Folder of the result, whether it is there or not.

        It is that of an earlier fingerprint where the manifest there declares this one equal.
        """
        own = self.folder / self.fingerprint.short
        if (own / MANIFEST).exists():
            return own
        return accepted_folder(self.folder, self.fingerprint.short) or own

    @property
    def latest(self) -> Path:
        """Link to the newest result, whatever its fingerprint."""
        return self.folder / LATEST

    @property
    def fingerprint_name(self) -> str:
        """Name of the result's folder, as the fingerprints of other jobs have it."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """The file that is written last, when the result is whole."""
        return self.path / MANIFEST

    @property
    def marker(self) -> Path:
        """An empty file in the folder of a whole result: all of it that the workflow may remove."""
        return self.path / MARKER

    @property
    def needs(self) -> list["Job"]:
        """Jobs whose results it reads, each once."""
        jobs = [getattr(source, "job", source) for source in self.inputs.values()]
        return list(dict.fromkeys(job for job in jobs if isinstance(job, Job)))

    def changed_settings(self, before: dict[str, Any]) -> list[str]:
        """Dotted names of settings that are others than an earlier result of the job had.

        A setting that the earlier result does not name had today's default.

        Args:
            before: settings of that result's fingerprint.
        """
        now, given = flat(as_json(self.settings)), flat(self.fingerprint.settings)
        old = {name: value for name, value in now.items() if name not in given} | flat(before)
        return list(_differences(old, now))

    def __truediv__(self, name: str) -> "Part":
        return Part(self, name)


def upstream(jobs: Iterable[Job]) -> list[Job]:
    """Jobs and all that their results are made from, in the order of the work, each once."""
    order: dict[Job, None] = {}

    def visit(job: Job) -> None:
        if job not in order:
            for other in job.needs:
                visit(other)
            order[job] = None

    for job in jobs:
        visit(job)
    return list(order)


@dataclass(frozen=True)
class Part:
    """A file or folder of a job's result."""

    job: Job
    name: str

    @property
    def fingerprint_name(self) -> str:
        """Name of the result's folder and the part, as the fingerprints of other jobs have it."""
        return f"{self.job.fingerprint_name}/{self.name}"

    @property
    def path(self) -> Path:
        """Where it is, or will be, of today's fingerprint."""
        return self.job.path / self.name

    @property
    def latest(self) -> Path:
        """Where the newest is, whatever its fingerprint."""
        return self.job.latest / self.name


def input_paths(job: Job) -> dict[str, Path]:
    """Name of an input -> its file or folder."""
    return {n: s if isinstance(s, Path) else s.path for n, s in job.inputs.items()}


def flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings as `a.b.c` -> value; tuples as lists, groups in a list as `a.1.b`."""
    if isinstance(settings, (list, tuple)):
        if not any(isinstance(value, dict) for value in settings):
            return {prefix: list(settings)}
        settings = dict(enumerate(settings, start=1))
    if not isinstance(settings, dict):
        return {prefix: settings}
    names: dict[str, object] = {}
    for key, value in settings.items():
        names |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return names


def as_json(settings: Any, defaults: bool = True) -> Any:
    """Settings as JSON has them.

    Args:
        settings: groups of settings, and lists and mappings of them.
        defaults: whether settings that have their default are among them.
    """
    if dataclasses.is_dataclass(settings) or isinstance(settings, SimpleNamespace):
        own = {n: v for n, v in vars(settings).items() if defaults or not _is_default(settings, n)}
        return {name: as_json(value, defaults) for name, value in own.items()}
    if isinstance(settings, dict):
        return {str(name): as_json(value, defaults) for name, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [as_json(value, defaults) for value in settings]
    known = settings is None or isinstance(settings, (bool, int, float, str))
    return settings if known else str(settings)


def _is_default(settings: Any, name: str) -> bool:
    """Whether a setting has its default, or the one that it had when results were first made."""
    own = getattr(settings, "__dataclass_fields__", {}).get(name)
    return own is not None and getattr(settings, name) == first_default(own)


def first_default(field: dataclasses.Field) -> Any:
    """A field's default, or the one that it had when results were first made; MISSING without."""
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if isinstance(default, FieldInfo):
        default = default.get_default(call_default_factory=True)
    return field.metadata.get(FIRST, default)


def _differences(before: Mapping, after: Mapping, absent: Any = None) -> dict[str, tuple[Any, Any]]:
    names = sorted(before.keys() | after.keys())
    pairs = {name: (before.get(name, absent), after.get(name, absent)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def word(value: object) -> str:
    """A setting's value as text."""
    return "none" if value is None else str(value)
