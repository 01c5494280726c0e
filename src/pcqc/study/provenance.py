"""What a result is made from: the settings, source modules and input files that a job reads."""

import ast
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from pcqc.study import ROOT, Study, digest
from pcqc.study.method import GROUP, method_module
from pcqc.system.files import sha256_file
from pcqc.system.machine import machine

_PACKAGES = {
    "pcqc": ROOT / "src" / "pcqc",
    "credit_lab": ROOT / "src" / "credit_lab",
    "data_prep": ROOT / "data_prep",
    "analysis": ROOT / "analysis",
}

_CONSULTATIONS = (
    *("protocol", "actor_decoding", "patient_decoding", "engine"),
    *("dtypes.actor", "dtypes.patient", "deterministic"),
)
# What a job reads of a study's settings; `dtypes` has the number format of each role's weights,
# `deterministic` whether GPUs use deterministic kernels.
# tests/integration/test_settings_read.py compares it with what the jobs do read.
SETTINGS_READ = {
    "clinic": ("clinic", "benchmarks", "protocol"),
    "pretrain": ("clinic", "scratch_model", "protocol", "rl.tokens_per_micro_batch"),
    "models": ("models", "continuation.judges"),
    "sft": (
        *("sft", "protocol", "engine", "models", "rl.tokens_per_micro_batch", "deterministic"),
        *("dtypes.actor", "dtypes.patient"),
    ),
    "train": (*_CONSULTATIONS, "dtypes.scorer", "rl", "evaluation_seed"),
    "select": ("benchmarks",),
    "evaluate": (*_CONSULTATIONS, "evaluation_seed"),
    "continuation": (
        *(*_CONSULTATIONS, "dtypes.scorer"),
        *(f"continuation.{name}" for name in ("states", "candidates", "continuations", "seed")),
        "continuation.ungrounded",
    ),
    "credit_quality": (
        *(*_CONSULTATIONS, "dtypes.scorer"),
        *(f"credit_quality.{name}" for name in ("cases", "turns", "candidates", "continuations")),
        *("credit_quality.imagined_answers", "credit_quality.seed", "benchmarks"),
    ),
    "grounding": (
        *("protocol", "engine", "models", "dtypes.scorer", "continuation.judges"),
        "deterministic",
    ),
}
# Modules that a job starts in, where they are not `pcqc.jobs.<job>`.
_ENTRIES = {
    "models": "pcqc.jobs.pretrained",
    "train": "pcqc.jobs.rl_loop",
    "credit_quality": "credit_lab.quality.job",
}
# Modules that a job of a synthetic study is handed something of.
_OF_THE_CLINIC = {"grounding": "pcqc.clinic.judge", "train": "pcqc.clinic.quality"}


@dataclass(frozen=True)
class MadeFrom:
    """All that a job's outcome depends on.

    Attributes:
        settings: name in the study's settings -> value, as JSON has it.
        modules: name of a source module -> digest of its syntax tree; see `module_digests`.
        inputs: file, relative to the study's results where it is below them -> SHA-256.
    """

    settings: dict[str, Any]
    modules: dict[str, str]
    inputs: dict[str, str] = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        """Digest of settings and source, which are known before the inputs are made."""
        return digest([self.settings, self.modules])

    @property
    def fingerprint(self) -> str:
        """Digest of everything."""
        return digest([self.settings, self.modules, self.inputs])

    def changes(self, now: "MadeFrom") -> list[str]:
        """What is different now: settings, modules and inputs, a clause each; none if nothing."""
        then_flat, now_flat = flat(self.settings), flat(now.settings)
        said = [
            f"setting {name}: {_word(then)} -> {_word(new)}"
            for name, then, new in _differences(then_flat, now_flat)
        ]
        for kind, before, after in (
            ("module", self.modules, now.modules),
            ("input", self.inputs, now.inputs),
        ):
            for name, then, new in _differences(before, after):
                how = "changed" if then and new else "is no longer read" if then else "is new"
                said.append(f"{kind} {name} {how}")
        return said


def made_from(
    study: Study,
    job: str,
    method: str | None = None,
    run: str | None = None,
    inputs: Iterable[Path] = (),
) -> MadeFrom:
    """What a job would be made from today.

    Args:
        study: the study.
        job: one of `SETTINGS_READ`.
        method, run: whose job it is; none for the jobs that all runs share.
        inputs: files that the job reads.
    """
    root = study.results
    names = {str(p.relative_to(root) if p.is_relative_to(root) else p): p for p in inputs}
    settings = run_settings(study, method, run) if job == "train" else job_settings(study, job)
    if further := study.also_evaluate.get(method) if job == "evaluate" else None:
        settings["also_evaluate"] = further
    entries = [_entry(job)]
    if study.synthetic and job in _OF_THE_CLINIC:
        entries.append(_OF_THE_CLINIC[job])
    if job == "train":
        entries.append(method_module(study.method(method).method))
        entries += ["pcqc.clinic.expected"] * ("world" in study.method(method).needs)
    return MadeFrom(
        json.loads(json.dumps(settings, default=str)),
        module_digests(*entries),
        {name: sha256_file(path) for name, path in sorted(names.items())},
    )


def _entry(job: str) -> str:
    return _ENTRIES.get(job, f"pcqc.jobs.{job}")


def job_settings(study: Study, job: str) -> dict:
    """Settings that the outcome of a job depends on, as plain data; what is absent is None.

    Args:
        study: the study.
        job: one of `SETTINGS_READ`; for `train` see `run_settings`.
    """
    dtypes = {role: study.dtype(role) for role in ("actor", "patient", "scorer")}
    more = {"dtypes": dtypes, "deterministic": study.deterministic}
    everything = {**study.to_dict(), **more}
    found = {}
    for name in SETTINGS_READ[job]:
        group, _, part = name.partition(".")
        value = everything[group]
        found[name] = value[part] if part and value else value
    return found


def run_settings(study: Study, method: str, run: str) -> dict:
    """Settings that the outcome of an RL run depends on, as plain data.

    A method's title, its role in the tables and its other runs are none of them, nor is the rule
    of levelling off where it is off.
    """
    entry = study.to_dict()["methods"][method]
    rl = dataclasses.asdict(study.rl_of(study.method(method)))
    if not rl["level_after"]:
        del rl["level_after"], rl["level_points"]
    return {
        **job_settings(study, "train"),
        "rl": rl,
        "method": {k: v for k, v in entry.items() if k not in ("title", "role", "runs", "rl")},
        "seed": study.seed(run),
    }


def heading(study: Study, method: str, run: str, seed: int, fingerprint: str) -> dict:
    """What every manifest of a run begins with: whose it is, and what it was made from."""
    return {
        "study": study.name,
        "method": method,
        "run": run,
        "seed": seed,
        "fingerprint": fingerprint,
        "git_commit": git_commit(),
        "version": importlib.metadata.version("pcqc"),
        "machine": machine(),
    }


def module_digests(*modules: str) -> dict[str, str]:
    """Digest of each project module that `modules` import, directly or not (16 hex digits).

    A digest is of the syntax tree without docstrings; comments, formatting and the order of imports
    are no part of it. Imports inside functions count, and so do the packages that hold a module; an
    import by a computed name, `import_module(f"analysis.tables.{name}")`, counts as one of the
    whole package.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found and _file(module):
            found[module], imports = _read(module)
            waiting += [module.rpartition(".")[0], *imports]
    return dict(sorted(found.items()))


def source_fingerprint(*modules: str) -> str:
    """One digest of all that `module_digests` finds."""
    return digest(module_digests(*modules))


def study_fingerprint() -> str:
    """One digest of the source of every job that makes what a study collects."""
    jobs = [_entry(job) for job in SETTINGS_READ]
    return source_fingerprint(
        *jobs, *_OF_THE_CLINIC.values(), "pcqc.tracking.mirror", "pcqc.tracking.collect"
    )


def inputs_fingerprint(paths: Iterable[Path]) -> str:
    """Digest of files' contents, in order."""
    return digest([sha256_file(path) for path in paths])


@functools.cache
def git_commit() -> str:
    """Commit of the checkout, `unknown` outside git.

    It ends in `+changes` where tracked files differ, other than results.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "-uno", "--", ".", ":!results")
        return f"{commit}+changes" if changed else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings as `a.b.c` -> value; lists and tuples alike."""
    if not isinstance(settings, dict):
        return {prefix: list(settings) if isinstance(settings, tuple) else settings}
    found: dict[str, object] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _differences(then: Mapping, now: Mapping) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, old, new) of what differs; None where there is nothing of that name."""
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield name, then.get(name), now.get(name)


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def _file(module: str) -> Path | None:
    package, _, rest = module.partition(".")
    folder = _PACKAGES.get(package)
    if package in {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}:
        source = Path(importlib.util.find_spec(package).origin)  # of another distribution's method
        folder = source.parent if source.name == "__init__.py" else source.with_suffix("")
    if folder is None:
        return None
    base = folder.joinpath(*rest.split(".")) if rest else folder
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's digest, and what it names in import statements, modules and others alike."""
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    imports = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            package = cast(Any, node.args[0]).values[0].value.rstrip(".")
            imports += [f"{package}.{p.stem}" for p in sorted(_file(package).parent.glob("*.py"))]
    text = ast.dump(_Meaning().visit(tree))
    return hashlib.sha256(text.encode()).hexdigest()[:16], tuple(dict.fromkeys(imports))


class _Meaning(ast.NodeTransformer):
    """Leaves of a syntax tree what it does: no docstrings, and imports in one order."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Normalise every list of statements."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, list(_without_order(statements)))
        return node


def _without_order(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements without strings that stand alone; neighbouring imports sorted, one name each."""
    imports: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports += _one_name_each(statement)
            continue
        yield from sorted(imports, key=ast.dump)
        imports = []
        if not _is_text(statement):
            yield statement
    yield from sorted(imports, key=ast.dump)


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a string that stands alone, as a docstring does."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _one_name_each(statement: ast.Import | ast.ImportFrom) -> Iterator[ast.stmt]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield ast.Import([alias])
        else:
            yield ast.ImportFrom(statement.module, [alias], statement.level)
