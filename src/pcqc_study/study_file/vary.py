"""Variations of a method: the same but for a setting or two, recorded beside the study's file.

`config/studies/variations/<study>.yaml` has an entry for each, written as in `config/methods.yaml`.
A variation is an ablation of the study: made on demand by its name, compared with its method.
"""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from pcqc_base.errors import UserError
from pcqc_base.settings.every_method import Method
from pcqc_base.settings.training import Rl
from pcqc_base.system.files import write_atomic
from pcqc_study.study_file.load import load_study, recorded, study_path, variations
from pcqc_study.study_file.study import Study
from pcqc_study.study_file.yaml_reader import read_settings

HEAD = "# Variations of methods, as `pcqc vary` records them; remove an entry to forget it.\n"
FIXED = ("title", "method", "like", "role", "runs")
RUNS_CODE = {"method", "file"}  # settings that name a module or a file
STRANGE = "may name something to run, which no variation of a stranger's may"


def vary(
    study_name: str,
    method: str,
    changes: Sequence[str],
    *,
    name: str | None = None,
    runs: Sequence[str] = (),
) -> tuple[str, Path]:
    """Record a variation; the same one again adds those of its runs that are not recorded.

    Args:
        study_name: name or path of a study.
        method: which method varies.
        changes: `setting=value`; a setting of the method, `tree....` or `rl....`.
        name: the variation's; made of method and changes where not given.
        runs: letters of its runs; the method's first where not given.

    Returns:
        The variation's name and the file that records it.

    Raises:
        UserError: no such method, setting or value, a name that is taken, or nothing changed.
    """
    study = load_study(study_name)
    settings = _varied(study, method)
    given = _values(changes, settings)
    entry: dict[str, Any] = {
        "title": f"{settings.title}, {', '.join(f'{k} {_word(v)}' for k, v in given.items())}",
        "role": "ablation",
        "like": method,
        "runs": list(runs) or [settings.runs[0]],
        **nested(given),
    }
    name = name or _name(method, given)
    path = variations(study_path(study_name))
    known = before.data if (before := recorded(study_path(study_name))) else {}
    if name in known and {**known[name], "runs": entry["runs"]} == entry:
        entry["runs"] = [*dict.fromkeys([*known[name].get("runs", []), *entry["runs"]])]
        if entry == known[name]:
            return name, path
    elif name in study.methods:
        raise UserError(f"the study has a method '{name}' already; give another --name")
    written = path.read_bytes() if path.exists() else None
    text = yaml.safe_dump({**known, name: entry}, sort_keys=False, allow_unicode=True)
    write_atomic(path, HEAD + text)
    try:
        _refuse_the_same(load_study(study_name), name, method)
    except UserError as problem:
        path.unlink() if written is None else write_atomic(path, written)
        # A variation that is refused is written nowhere, so it has no line.
        told = re.sub(rf"^{re.escape(str(path))}:\d+: ", "", str(problem))
        raise UserError(f"--set {' '.join(changes)}: {told}") from None
    return name, path


def strangers(path: Path, study: Study) -> dict[str, dict[str, Any]]:
    """Variations that somebody else has recorded, once they name nothing that would run.

    Each is like a method that the study has, and sets numbers and words: no module, no file.

    Raises:
        UserError: one has a setting of another kind; names file and line.
    """
    given = read_settings(path, empty=True)
    for name, entry in given.data.items():
        if not isinstance(entry, dict) or entry.get("like") not in study.methods:
            raise given.error((name,), "must be like a method of the study; take the entry out")
        for key, value in entry.items():
            if key in RUNS_CODE or not (key == "title" or _is_plain(value)):
                raise given.error((name, key), f"{STRANGE}; take the entry out")
    return given.data


def _is_plain(value: Any) -> bool:
    """Whether a value is a number or a word, or a group or list of such."""
    if isinstance(value, dict):
        return not RUNS_CODE & value.keys() and all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return not isinstance(value, str) or re.fullmatch(r"[\w-]+", value) is not None


def _varied(study: Study, method: str) -> Method:
    """The method's settings; UserError where it cannot be varied."""
    settings = study.method(method)
    if settings.kind != "rl" or not settings.runs:
        raise UserError(f"{method} has no runs of reinforcement learning to vary")
    if settings.role == "ablation":
        raise UserError(f"{method} is a variation itself; vary the method that it is of")
    return settings


def _values(changes: Sequence[str], method: Method) -> dict[str, Any]:
    """Setting -> value; UserError for one that makes no variation."""
    values: dict[str, Any] = {}
    for setting, value in map(_parsed, changes):
        if any(_is_of(setting, other) or _is_of(other, setting) for other in values):
            raise UserError(f"--set {setting}: is set twice, in part or whole; give it once")
        if setting in FIXED:
            raise UserError(f"--set {setting}: cannot be varied; give another setting")
        values[setting] = value
    of_rl = {field.name for field in dataclasses.fields(Rl)}
    for setting in values:
        if setting in of_rl and not hasattr(method, setting):
            raise UserError(f"--set {setting}: unknown setting; did you mean 'rl.{setting}'?")
    return values


def _is_of(part: str, whole: str) -> bool:
    """Whether a setting is another one or a part of it, as `tree.budget` is of `tree`."""
    return f"{part}.".startswith(f"{whole}.")


def _refuse_the_same(study: Study, name: str, method: str) -> None:
    made, model = study.method(name), study.method(method)
    same = dataclasses.replace(
        made, title=model.title, role=model.role, runs=model.runs, rl=model.rl
    )
    if same == model and study.rl_of(made) == study.rl_of(model):
        raise UserError(f"{method} has these values already; give others")


def _parsed(change: str) -> tuple[str, Any]:
    """`rl.learning_rate=5e-4` -> its name and value."""
    name, sign, text = change.partition("=")
    if not (name.strip() and sign and text.strip()):
        raise UserError(f"--set {change}: write it as setting=value, such as rl.learning_rate=5e-4")
    try:
        return name.strip(), json.loads(text)
    except ValueError:
        return name.strip(), text.strip()


def nested(given: dict[str, Any]) -> dict[str, Any]:
    """`tree.budget` -> value as a method's entry has it: a group with a setting."""
    entry: dict[str, Any] = {}
    for name, value in given.items():
        group, dot, part = name.partition(".")
        if dot:
            entry.setdefault(group, {})[part] = value
        else:
            entry[name] = value
    return entry


def _name(method: str, given: dict[str, Any]) -> str:
    """`pcqc_learning_rate_0_0005`."""
    parts = [f"{name.rpartition('.')[2]}_{_word(value)}" for name, value in given.items()]
    return re.sub(r"[^A-Za-z0-9]+", "_", "_".join([method, *parts])).strip("_")[:64]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
