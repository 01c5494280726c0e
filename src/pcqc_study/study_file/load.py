"""Reading a study from its file, with its methods."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pcqc_base.errors import UserError, nearest
from pcqc_base.settings import Pretrained
from pcqc_base.settings.every_method import Method, method_class
from pcqc_base.settings.tracking import known_tracker
from pcqc_base.settings.training import Rl
from pcqc_base.settings.types import Name
from pcqc_base.system.checkout import ROOT, local_folder
from pcqc_base.system.files import read_json
from pcqc_base.system.json_shapes import ModelConfig, WordTokenizer
from pcqc_study.study_file.consistency import contradictions
from pcqc_study.study_file.study import Study
from pcqc_study.study_file.yaml_reader import SettingsFile, build, read_settings


def load_study(name_or_path: str | Path) -> Study:
    """Load a study by name (`config/studies/<name>.yaml`) or by path, with methods and variations.

    Raises:
        UserError: an unknown study, an unknown, missing or mistyped setting, or settings that
            contradict each other.
    """
    own = read_settings(study_path(str(name_or_path)))
    files = _with_models(own)
    given = functools.reduce(_merge, (file.data for file in reversed(files)))
    shared = read_settings(_shown(ROOT / "config" / "methods.yaml"))
    varied = recorded(own.path)
    likes: dict[str, str] = {}

    def error(place: tuple, problem: str) -> UserError:
        """Names the file in which a setting stands: the study's, else that of all methods."""
        places = [(file, place) for file in files]
        if place[0] == "methods" and len(place) > 1:
            like = likes.get(place[1], place[1])
            places += [(varied, place[1:])] if varied else []
            places += [(shared, place[1:])]
            if place[2:] != ("title",):  # each needs its own
                places += [(shared, (like, *place[2:]))]
        file, place = max(places, key=lambda p: p[0].find(p[1])[0] - len(p[1]))
        return file.error(place, problem)

    for name in ("name", "absent"):
        if name in given:
            raise error((name,), "unknown setting; a study is named by its file")
    entries = _methods(given.get("methods", {}), shared, varied, likes, error)
    settings = {key: value for key, value in given.items() if key != "like"}
    study = build(Study, {**settings, "name": own.path.stem, "methods": {}}, error)
    methods = {n: _method(entry, _within(error, "methods", n)) for n, entry in entries.items()}
    study = dataclasses.replace(study, methods=methods)
    for name, method in study.methods.items():
        rl = {**dataclasses.asdict(study.rl), **method.rl}
        build(Rl, rl, _within(error, "methods", name, "rl"))
    study = _without_absent(study)
    for setting, problem in contradictions(study):
        raise error(tuple(setting.split(".")), problem)
    check_configurations(study.pretrained.values())
    return study


def check_configurations(sources: Iterable[Pretrained]) -> None:
    """Refuse local models whose files other libraries would not refuse in words.

    What else they say is checked by the job that copies the model.

    Raises:
        UserError: `config.json` cannot name an architecture, or `tokenizer.json` has whole words
            and none for what it does not know.
    """
    for source in sources:
        folder, remedy = local_folder(source.source), "name another model"
        if (config := folder / "config.json").is_file():
            read_json(config, ModelConfig, remedy)
        tokenizer = folder / "tokenizer.json"
        if not (tokenizer.is_file() and b'"WordLevel"' in tokenizer.read_bytes()):
            continue  # others have bytes or pieces, and are large
        model = read_json(tokenizer, dict[str, Any], remedy).get("model")
        if isinstance(model, dict) and model.get("type") == "WordLevel":
            words = read_json(tokenizer, WordTokenizer, remedy)["model"]
            if words["unk_token"] not in words["vocab"]:
                raise UserError(f"{tokenizer}: no word stands for unknown ones; {remedy}")


def _within(error: Callable[[tuple, str], UserError], *group: str) -> Callable:
    """The error of a place within a group of settings."""
    return lambda place, problem: error((*group, *place), problem)


def _method(entry: dict, error: Callable[[tuple, str], UserError]) -> Method:
    """An entry as the settings of its module."""
    if not isinstance(name := entry.get("method"), str):
        raise error(("method",), "must name a module of pcqc.methods")
    try:
        kind = method_class(name)
    except UserError as problem:
        raise error(("method",), str(problem)) from None
    return build(kind, entry, error)


def recorded(study_file: Path) -> SettingsFile | None:
    """A study's recorded variations; None where there are none, or none any more."""
    path = variations(study_file)
    settings = read_settings(path, empty=True) if path.exists() else None
    return settings if settings and settings.data else None


def variations(study_file: Path) -> Path:
    """Where a study's variations of methods are recorded, beside its own file."""
    return study_file.parent / "variations" / study_file.name


def _with_models(own: SettingsFile) -> list[SettingsFile]:
    """A study's file and those it is `like`, the nearest first: each fills in what is left out."""
    files = [own]
    while "like" in files[-1].data:
        name = files[-1].data["like"]
        if not isinstance(name, str):
            raise files[-1].error(("like",), "must name a study")
        model = read_settings(study_path(name))
        if model.path.resolve() in [file.path.resolve() for file in files]:
            raise files[-1].error(("like",), f"'{name}' is like this study; name another")
        files.append(model)
    return files


def _methods(
    overrides: dict,
    shared: SettingsFile,
    varied: SettingsFile | None,
    likes: dict[str, str],
    error: Callable[[tuple, str], UserError],
) -> dict[str, dict]:
    """Settings of every method, with the study's own; fills `likes`, method -> its model."""
    entries = dict(shared.data)
    if not isinstance(overrides, dict):
        raise error(("methods",), "must be a group of methods")
    for name, override in overrides.items():
        new = isinstance(override, dict) and override.keys() & {"method", "like"}
        if name not in entries and not new:
            raise error(("methods", name), f"unknown method{nearest(name, entries)}")
        entries[name] = _merge(entries.get(name), override)
    for name, entry in varied.data.items() if varied else ():
        if name in entries:
            raise varied.error((name,), "the name of a method; remove the entry or rename it")
        entries[name] = entry
    for name, entry in entries.items():
        if isinstance(entry, dict) and entry.get("like") is not None:
            likes[name] = str(entry["like"])
    for name, model in likes.items():
        if model not in entries or model in likes:
            problem = f"must name a method that is like no other, not '{model}'"
            raise error(("methods", name, "like"), problem)
        entries[name] = _merge(entries[model], entries[name])
    entries = build(dict[Name, dict], entries, _within(error, "methods"))
    return {n: {k: v for k, v in entry.items() if k != "like"} for n, entry in entries.items()}


def _merge(settings, override):
    """Settings with some replaced, within groups of settings too."""
    if not isinstance(settings, dict) or not isinstance(override, dict):
        return override
    merged = {name: _merge(settings.get(name), value) for name, value in override.items()}
    return {**settings, **merged}


def _without_absent(study: Study) -> Study:
    """The study without the optional benchmarks whose file is missing."""
    absent = {
        name: benchmark.raw.file
        for name, benchmark in study.benchmarks.items()
        if benchmark.optional and benchmark.raw and not benchmark.raw.path.exists()
    }
    present = {name: b for name, b in study.benchmarks.items() if name not in absent}
    return dataclasses.replace(study, benchmarks=present, absent=absent)


def tracking_uri(study: Study) -> str:
    """Where MLflow keeps its store; the environment's `MLFLOW_TRACKING_URI` wins."""
    return os.environ.get("MLFLOW_TRACKING_URI") or study.tracking.uri


def report_to(study: Study) -> list[str]:
    """Trackers that are told of runs beside MLflow; the environment's `PCQC_REPORT_TO` wins.

    Raises:
        UserError: the environment names one that there is not.
    """
    given = os.environ.get("PCQC_REPORT_TO")
    names = study.tracking.report_to if given is None else re.findall(r"[^\s,]+", given)
    try:
        return list(dict.fromkeys(map(known_tracker, names)))
    except ValueError as problem:
        raise UserError(f"PCQC_REPORT_TO: {problem}") from None


def study_path(name: str) -> Path:
    """File of a study that is named or is a path."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    folder = ROOT / "config" / "studies"
    known = sorted(p.stem for p in folder.glob("*.yaml"))
    if name not in known:
        raise UserError(f"no study {name!r} in {_shown(folder)}/{nearest(name, known)}")
    return _shown(folder / f"{name}.yaml")


def _shown(path: Path) -> Path:
    """The path from the working directory, where it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
