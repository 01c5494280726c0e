"""Trials of settings: what one is, and the archive of their outcomes."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import csv_text, read_bytes, write_atomic
from pcqc_study.study_file import Study
from pcqc_study.study_file.vary import nested

ARCHIVE = ROOT / "results" / "archive" / "tuning.csv"
RATE = "rl.learning_rate"


@dataclass(frozen=True)
class Trial:
    """A method with its rate and at most one further setting.

    Attributes:
        changes: dotted setting -> value.
    """

    method: str
    changes: dict[str, Any] = field(hash=False)

    @property
    def settings(self) -> str:
        """`rl.learning_rate=0.0004 tree.budget=32`."""
        return " ".join(f"{key}={json.dumps(value)}" for key, value in self.changes.items())

    @property
    def name(self) -> str:
        """Of its entry in the trials' study: `atpo_0_0004_budget_32`, the rate without its name."""
        parts = [
            str(value) if key == RATE else f"{key.rpartition('.')[2]}_{value}"
            for key, value in self.changes.items()
        ]
        return "_".join([self.method, *parts]).replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Outcome:
    """One run of a trial on one base model; a row of the archive.

    Attributes:
        study: whose settings are tuned.
        settings: as `Trial.settings`.
        base: the study of the base model: that study or a replicate.
        accuracies: percent of the development benchmark at each checkpoint, in order.
        turns: at the last of them.
        trajectories: how many the whole training has.
    """

    study: str
    method: str
    settings: str
    base: str
    run: str
    accuracies: tuple[float, ...]
    turns: float
    trajectories: int


def value_of(study: Study, method: str, setting: str) -> Any:
    """A setting of a method, by its dotted name, as the study has it."""
    value: Any = study.method(method)
    group, _, part = setting.rpartition(".")
    if group == "rl":
        return getattr(study.rl_of(value), part)
    for name in setting.split("."):
        value = getattr(value, name)
    return value


def entry_of(study: Study, method: str, changes: dict[str, Any], words: str) -> dict[str, Any]:
    """A method with other settings as a complete entry of a study, which is like no other."""
    entry = json.loads(json.dumps(dataclasses.asdict(study.method(method))))
    for group, changed in nested(changes).items():
        entry[group] = {**entry[group], **changed}
    return {**entry, "title": f"{entry['title']}, {words}", "role": "ablation"}


COLUMNS = [f.name for f in dataclasses.fields(Outcome)]


def read_archive(path: Path = ARCHIVE) -> list[Outcome]:
    """The archived outcomes; none where there is no archive.

    Raises:
        UserError: a row is not one of an outcome.
    """
    if not path.exists():
        return []
    outcomes = []
    try:
        text = read_bytes(path).decode()
        for row in csv.DictReader(io.StringIO(text, newline="")):
            outcomes.append(_outcome(row))
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error):
        raise UserError(
            f"{path}:{len(outcomes) + 2}: not a row of a trial; get the file again"
        ) from None
    return outcomes


def _outcome(row: dict[str, str]) -> Outcome:
    """A row of the archive; KeyError, TypeError, ValueError or AttributeError otherwise."""
    study, method, settings, base, run = (row[name] for name in COLUMNS[:5])
    percents = tuple(map(float, row["accuracies"].split()))
    if not percents:
        raise ValueError("no checkpoint")
    turns, trajectories = float(row["turns"]), int(row["trajectories"])
    return Outcome(study, method, settings, base, run, percents, turns, trajectories)


def write_archive(study: str, outcomes: Iterable[Outcome], path: Path = ARCHIVE) -> None:
    """Write a study's outcomes in place of those that the archive has of it."""
    every = [o for o in read_archive(path) if o.study != study] + list(outcomes)
    every.sort(key=lambda o: (o.study, o.method, o.settings, o.base, o.run))
    rows = ((*vars(o).values(),) for o in every)
    texts = ((*row[:5], " ".join(f"{a:g}" for a in row[5]), *row[6:]) for row in rows)
    write_atomic(path, csv_text(COLUMNS, texts))
