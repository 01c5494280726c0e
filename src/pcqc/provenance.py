"""Where a result comes from: fingerprints of source, settings and inputs."""

import ast
import functools
import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pcqc.config import ROOT, Study, digest
from pcqc.files import sha256_file

_PACKAGES = {
    "pcqc": ROOT / "src" / "pcqc",
    "data_prep": ROOT / "data_prep",
    "analysis": ROOT / "analysis",
}

_CONSULTATIONS = (
    *("protocol", "actor_decoding", "patient_decoding", "engine"),
    *("dtypes.actor", "dtypes.patient"),
)
# What a job reads of a study's settings; `dtypes` has the number format of each role's weights.
_READ = {
    "sft": ("sft", "protocol", "engine", "models", "rl.tokens_per_micro_batch"),
    "train": (*_CONSULTATIONS, "dtypes.scorer", "rl", "evaluation_seed"),
    "evaluate": (*_CONSULTATIONS, "evaluation_seed"),
    "continuation": (
        *(*_CONSULTATIONS, "dtypes.scorer"),
        *(f"continuation.{name}" for name in ("states", "candidates", "continuations", "seed")),
    ),
    "grounding": ("protocol", "engine", "models", "dtypes.scorer"),
}


def source_fingerprint(*modules: str) -> str:
    """Digest of the project's modules that `modules` import, directly or not (16 hex digits).

    Imports inside functions count, and so do the packages that hold a module; an import by a
    computed name, `import_module(f"analysis.tables.{name}")`, counts as one of the whole package.
    An edit to a module changes the fingerprint of all that need it, and of nothing else.
    """
    closure: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in closure and _file(module):
            closure.add(module)
            waiting += [module.rpartition(".")[0], *_imports(module)]
    parts = [f"{m} {sha256_file(_file(m))}" for m in sorted(closure)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def job_settings(study: Study, job: str) -> dict:
    """Settings that the outcome of a job depends on, as plain data; what is absent is None.

    Args:
        study: the study.
        job: `sft`, `train` (see `run_settings`), `evaluate`, `continuation` or `grounding`.
    """
    dtypes = {role: study.dtype(role) for role in ("actor", "patient", "scorer")}
    everything = {**study.to_dict(), "dtypes": dtypes}
    found = {}
    for name in _READ[job]:
        group, _, part = name.partition(".")
        value = everything[group]
        found[name] = value[part] if part and value else value
    return found


def run_settings(study: Study, method: str, run: str) -> dict:
    """Settings that the outcome of an RL run depends on, as plain data.

    A method's title, its role in the tables and its other runs are none of them.
    """
    entry = study.to_dict()["methods"][method]
    return {
        **job_settings(study, "train"),
        "method": {k: v for k, v in entry.items() if k not in ("title", "role", "runs")},
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
    }


def job_fingerprint(module: str, inputs: Iterable[Path], *settings) -> str:
    """Of everything that a job's outcome depends on.

    Args:
        module: of the job; its source counts, and that of all it imports.
        inputs: files whose contents count, in order.
        settings: plain data.
    """
    return digest([*settings, inputs_fingerprint(inputs), source_fingerprint(module)])


def inputs_fingerprint(paths: Iterable[Path]) -> str:
    """Digest of files' contents, in order."""
    return digest([sha256_file(path) for path in paths])


@functools.cache
def git_commit() -> str:
    """Commit of the checkout, with `+changes` where tracked files differ; `unknown` outside git."""
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}+changes" if _git("status", "--porcelain", "-uno") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def _file(module: str) -> Path | None:
    package, _, rest = module.partition(".")
    if package not in _PACKAGES:
        return None
    base = _PACKAGES[package].joinpath(*rest.split(".")) if rest else _PACKAGES[package]
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    """What a module names in import statements, modules and other names alike."""
    found = []
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            package = node.args[0].values[0].value.rstrip(".")
            found += [f"{package}.{p.stem}" for p in sorted(_file(package).parent.glob("*.py"))]
    return tuple(dict.fromkeys(found))
