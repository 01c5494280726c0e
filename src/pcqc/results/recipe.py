"""A job's recipe: all that its result depends on. Its short digest names the result's folder.

A recipe holds the job's settings, a digest of every source module that the job reaches, and the
recipes of the jobs whose results it reads (of raw files the SHA-256). All of it is known before
anything runs. So `results/clinic/runs/pcqc/A/3f9c1a2b/` is the result of one recipe for ever: after
an edit the recipe, and with it the folder, is another one, and an edit that is taken back leads to
the folder that is there already.
"""

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from pcqc.results.manifest import MANIFEST, accepted_folder
from pcqc.study.load import ROOT, digest
from pcqc.study.method import GROUP
from pcqc.system.files import sha256_file

_PACKAGES = {
    "pcqc": ROOT / "src" / "pcqc",
    "clinic_env": ROOT / "packages" / "clinic_env" / "src" / "clinic_env",
    "turn_credit": ROOT / "packages" / "turn_credit" / "src" / "turn_credit",
    "credit_lab": ROOT / "src" / "credit_lab",
    "data_prep": ROOT / "data_prep",
    "analysis": ROOT / "analysis",
}
# Settings are in the recipe by value, so the modules that read and check them are not.
_NOT_COUNTED = ("pcqc.study", "pcqc.results", "pcqc.errors", "pcqc.cli")


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

    def changes(self, new: "Recipe") -> list[str]:
        """What is different in another recipe: settings, modules and inputs, a clause each."""
        clauses = [
            f"setting {name}: {_word(before)} -> {_word(after)}"
            for name, before, after in _differences(flat(self.settings), flat(new.settings))
        ]
        for kind in ("modules", "inputs"):
            for name, before, after in _differences(getattr(self, kind), getattr(new, kind)):
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
        whose: such as `("pcqc", "A")`; empty for jobs that all runs share.
        folder: holds one folder for each recipe that the job was ever run with.
        settings: a dataclass, all that the job is told.
        entries: modules in which the job starts.
        inputs: name -> what the job reads of another job's result, or a raw file.
    """

    kind: str
    whose: tuple[str, ...]
    folder: Path
    settings: Any
    entries: tuple[str, ...]
    inputs: Mapping[str, "Job | Part | Path"] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # modules that the entries import and this job does not enter

    @property
    def name(self) -> str:
        """Such as `train pcqc A`."""
        return " ".join([self.kind, *self.whose])

    @cached_property
    def recipe(self) -> Recipe:
        """What the result would be made from now."""
        settings = json.loads(json.dumps(dataclasses.asdict(self.settings), default=str))
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

    def __truediv__(self, name: str) -> "Part":
        return Part(self, name)


@dataclass(frozen=True)
class Part:
    """A file or folder of a job's result."""

    job: Job
    name: str

    @property
    def recipe_name(self) -> str:
        return f"{self.job.recipe_name}/{self.name}"

    @property
    def path(self) -> Path:
        return self.job.path / self.name


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


def _differences(before: Mapping, after: Mapping) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, old, new) of what differs; None where the name is absent."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def module_digests(*modules: str, unused: Iterable[str] = ()) -> dict[str, str]:
    """Digest of each project module that `modules` import, directly or not (16 hex digits).

    A digest is of the syntax tree without docstrings and without imports for types alone; comments,
    formatting and the order of imports are no part of it. Imports inside functions count, and so do
    the packages that hold a module, but for those that only list what they offer. An import of
    names from a package counts as one of all that the package imports.

    Args:
        modules: dotted names to start from.
        unused: modules, with what they hold, that are left out although something imports them.
    """
    left_out = (*_NOT_COUNTED, *unused)
    digests: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if any(module == name or module.startswith(f"{name}.") for name in left_out):
            continue
        if module not in digests and _file(module):
            digests[module], imports = _read(module)
            waiting += imports
            if (package := module.rpartition(".")[0]) and not _only_lists(package):
                waiting.append(package)
    return dict(sorted(digests.items()))


@functools.cache
def _file(module: str) -> Path | None:
    package, _, rest = module.partition(".")
    folder = _PACKAGES.get(package) or _others(tuple(sys.path)).get(package)
    if folder is None:
        return None
    base = folder.joinpath(*rest.split(".")) if rest else folder
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _others(path: tuple[str, ...]) -> dict[str, Path]:
    """Packages of methods from other distributions on Python's path -> where their source is."""
    folders = {}
    for package in {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}:
        source = Path(importlib.util.find_spec(package).origin)
        folders[package] = source.parent if source.name == "__init__.py" else source.with_suffix("")
    return folders


@functools.cache
def _tree(module: str) -> ast.Module:
    """What a module does, as a syntax tree."""
    return _Meaning().visit(ast.parse(_file(module).read_text(encoding="utf-8")))


@functools.cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's digest, and what it names in import statements, modules and others alike."""
    tree, imports = _tree(module), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            imports += _imported_by_name(node)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16], tuple(dict.fromkeys(imports))


def _only_lists(package: str) -> bool:
    """Whether a package imports what it offers, and does nothing else."""
    return all(
        isinstance(statement, ast.Import | ast.ImportFrom)
        or ast.unparse(statement).startswith("__all__")
        for statement in _tree(package).body
    )


def _imported_by_name(call: ast.Call) -> list[str]:
    """Modules of `import_module(f"package.{name}")`: all that the package has."""
    name = call.args[0]
    if not isinstance(name, ast.JoinedStr):
        return []
    package = cast(Any, name.values[0]).value.rstrip(".")
    return [f"{package}.{path.stem}" for path in sorted(_file(package).parent.glob("*.py"))]


class _Meaning(ast.NodeTransformer):
    """Leaves of a syntax tree what it does: no docstrings, and imports in one order."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Normalise every list of statements."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, list(_normal(statements)))
        return node


def _normal(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that do something; neighbouring imports sorted, one name each."""
    imports: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports += _one_name_each(statement)
            continue
        yield from sorted(imports, key=ast.dump)
        imports = []
        if not (_is_text(statement) or _is_for_types(statement)):
            yield statement
    yield from sorted(imports, key=ast.dump)


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a string that stands alone, as a docstring does."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _is_for_types(statement: ast.stmt) -> bool:
    """Whether it is `if TYPE_CHECKING:`, which never runs."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING")


def _one_name_each(statement: ast.Import | ast.ImportFrom) -> Iterator[ast.stmt]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield ast.Import([alias])
        else:
            yield ast.ImportFrom(statement.module, [alias], statement.level)
