"""Reading a study from its file, with its methods, and what must agree in it."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from pcqc.config.study import Study
from pcqc.config.training import Method
from pcqc.errors import UserError
from pcqc.settings import Plain, build, nearest, read_yaml

ROOT = Path(__file__).resolve().parents[3]

# What stands in a study's `data` folder beside its benchmarks, and beside them in tables.
RESERVED = (
    *("train", "sft", "world", "manifest", "templates", "exclusions", "converted", "overlap"),
    *("instruction", "average", "mean"),
)


def load_study(name_or_path: str | Path) -> Study:
    """Load a study by name (`config/studies/<name>.yaml`) or by path, with its methods.

    Raises:
        UserError: an unknown study, an unknown, missing or mistyped setting, or settings that
            contradict each other.
    """
    path = _study_path(str(name_or_path))
    data = read_yaml(path)
    overrides = data.pop("methods", {})
    if not isinstance(overrides, dict):
        raise UserError(f"{path}: methods: must be a group of methods, not {overrides!r}")
    methods_path = ROOT / "config" / "methods.yaml"
    entries = read_yaml(methods_path)
    for name, override in overrides.items():
        if name not in entries:
            raise UserError(f"{path}: methods: unknown method '{name}'{nearest(name, entries)}")
        if not isinstance(override, dict):
            raise UserError(
                f"{path}: methods.{name}: must be a group of settings, not {override!r}"
            )
        entries[name] = _merge(entries[name], override)
    entries = {name: _inherit(entries, name, methods_path.name) for name in entries}
    where = {
        n: f"{path.name}: methods." if n in overrides else f"{methods_path.name}: " for n in entries
    }
    methods = {n: build(Method, entry, where[n] + n) for n, entry in entries.items()}
    settings = build(_StudyFile, data, path.name)
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    study = _without_absent(Study(name=path.stem, **values, methods=methods))
    _check(study, path.name)
    return study


def _without_absent(study: Study) -> Study:
    """The study less the optional benchmarks whose file is neither there nor converted already."""
    absent = {
        name: benchmark.raw.file
        for name, benchmark in study.benchmarks.items()
        if benchmark.optional
        and benchmark.raw
        and not benchmark.raw.path.exists()
        and not (study.results / "data" / f"{name}.jsonl").exists()
    }
    present = {name: b for name, b in study.benchmarks.items() if name not in absent}
    return dataclasses.replace(study, benchmarks=present, absent=absent)


def _merge(settings: dict, override: dict) -> dict:
    """Settings with some replaced, within groups of settings too."""
    merged = dict(settings)
    for name, value in override.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


def _inherit(entries: dict[str, dict], name: str, where: str) -> dict:
    """A method's settings over those of the method that its `like` names."""
    entry = dict(entries[name])
    model = entry.pop("like", None)
    if model is None:
        return entry
    if model not in entries or "like" in entries[model]:
        raise UserError(f"{where}: {name}.like: must name a method like no other, not '{model}'")
    return _merge(entries[model], entry)


_NOT_IN_FILE = ("name", "methods", "absent")
_StudyFile = dataclasses.make_dataclass(
    "_StudyFile",
    [(f.name, f.type, f) for f in dataclasses.fields(Study) if f.name not in _NOT_IN_FILE],
    frozen=True,
)


def digest(settings: object) -> str:
    """Fingerprint of plain data or of a settings dataclass (sha256, 16 hex digits)."""
    if dataclasses.is_dataclass(settings):
        settings = dataclasses.asdict(settings)
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tracking_uri(study: Study) -> str:
    """Where MLflow keeps its store; the environment's `MLFLOW_TRACKING_URI` wins."""
    return os.environ.get("MLFLOW_TRACKING_URI") or study.tracking.uri


def _study_path(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    folder = ROOT / "config" / "studies"
    known = sorted(p.stem for p in folder.glob("*.yaml"))
    if name not in known:
        raise UserError(f"no study '{name}' in {folder.relative_to(ROOT)}/{nearest(name, known)}")
    return folder / f"{name}.yaml"


def _check(study: Study, where: str) -> None:
    if study.name not in Plain():
        raise UserError(f"{where}: a study's file must be {Plain()}; rename it")
    _check_benchmarks(study, where)
    _check_runs(study, where)
    if study.synthetic and not (study.clinic and study.scratch_model):
        raise UserError(
            f"{where}: a synthetic study needs the settings 'clinic' and 'scratch_model'"
        )
    if study.synthetic:
        _check_clinic(study, where)
    else:
        _check_real(study, where)
    if study.protocol.action_tokens > study.protocol.response_tokens:
        raise UserError(f"{where}: protocol.action_tokens exceeds protocol.response_tokens")
    if study.actor_decoding.max_tokens != study.protocol.action_tokens:
        raise UserError(f"{where}: actor_decoding.max_tokens must equal protocol.action_tokens")
    if study.placement and study.engine.kind == "vllm" and study.engine.process == "learner":
        raise UserError(
            f"{where}: engine.process: 'learner' leaves vLLM in a process that DeepSpeed ends; "
            "beside a placement set it to 'own'"
        )
    if study.continuation:
        _check_continuation(study, where)
    if study.sft.patient_epochs > study.sft.epochs:
        raise UserError(f"{where}: sft.patient_epochs exceeds sft.epochs")


def _check_benchmarks(study: Study, where: str) -> None:
    roles = [b.role for b in study.benchmarks.values()]
    if roles.count("development") != 1:
        raise UserError(f"{where}: benchmarks: exactly one must have the role 'development'")
    for name in study.benchmarks:
        if name in RESERVED or name.startswith("train-"):
            raise UserError(
                f"{where}: benchmarks: '{name}' is the name of something else in a study's data or "
                "tables; choose another"
            )


def _check_runs(study: Study, where: str) -> None:
    seeds: dict[int, str] = {}
    for run, seed in study.runs.items():
        if seeds.setdefault(seed, run) != run:
            raise UserError(
                f"{where}: runs: {seeds[seed]} and {run} have the same seed {seed}, so they would "
                "be one run; give each a seed of its own"
            )
    for name, method in study.methods.items():
        for run in method.runs:
            if run not in study.runs:
                raise UserError(
                    f"{where}: method '{name}' names the run '{run}'{nearest(run, study.runs)}"
                )
        if len(set(method.runs)) < len(method.runs):
            raise UserError(
                f"{where}: method '{name}' names a run twice ({', '.join(method.runs)}); leave "
                "each in once"
            )
    if not any(method.runs for method in study.methods.values() if method.role != "ablation"):
        raise UserError(f"{where}: methods: none has runs, but for ablations; give one some")
    if not study.common_runs:
        raise UserError(
            f"{where}: methods: the tables compare one run of each method, but no run is common "
            "to all that have any; give them one in common"
        )


def _check_continuation(study: Study, where: str) -> None:
    settings = study.continuation
    if settings.reference and not study.method(settings.reference).runs:
        raise UserError(
            f"{where}: continuation.reference: method '{settings.reference}' has no runs; give it "
            "one, or set reference: null"
        )
    if settings.run not in study.method(settings.method).runs:
        raise UserError(
            f"{where}: continuation: method '{settings.method}' has no run '{settings.run}'; give "
            "it that run, or name one that it has"
        )


def _check_clinic(study: Study, where: str) -> None:
    clinic = study.clinic
    if study.protocol.instruction is None:
        raise UserError(f"{where}: protocol: the setting 'instruction' is missing; add it")
    if clinic.typical > clinic.findings:
        raise UserError(f"{where}: clinic.typical exceeds clinic.findings")
    for name, benchmark in study.benchmarks.items():
        if benchmark.cases is None:
            raise UserError(f"{where}: benchmarks.{name}: the setting 'cases' is missing; add it")
        if not all(2 <= count <= clinic.diseases for count in benchmark.options):
            raise UserError(
                f"{where}: benchmarks.{name}.options must lie between 2 and clinic.diseases"
            )


def _check_real(study: Study, where: str) -> None:
    if not (study.data and study.models):
        raise UserError(f"{where}: a study of real cases needs the settings 'data' and 'models'")
    for name, benchmark in study.benchmarks.items():
        if benchmark.raw is None:
            raise UserError(f"{where}: benchmarks.{name}: the setting 'raw' is missing; add it")
