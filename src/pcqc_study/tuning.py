"""Trials by which settings are chosen: `config/tuning.yaml` says which, `pcqc tune` what is next.

The trials of a study are a study of their own, whose file is written here: the same but for the
methods' settings and the runs' seeds. Nothing of them is evaluated: a run's validations judge it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from pcqc_base.errors import UserError, nearest
from pcqc_base.settings.types import STRICT, Count, Name, Positive, Some
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic
from pcqc_base.system.manifest import read_manifest
from pcqc_study.graph import Jobs
from pcqc_study.study_file import START, Study, load_study
from pcqc_study.study_file.replicates import replicates
from pcqc_study.study_file.yaml_reader import build, read_settings
from pcqc_study.trials import RATE, Outcome, Trial, entry_of, value_of

FILE = ROOT / "config" / "tuning.yaml"
STUDIES = Path("results") / "tuning"  # files of the trials' studies


@settings(frozen=True, config=STRICT)
class Tried:
    """Seeds of the trials' runs, and methods that are tried: on each base model or the first."""

    runs: dict[Name, int]
    methods: Some[Name]
    on_first_base: tuple[Name, ...] = ()


@settings(frozen=True, config=STRICT)
class Tuning:
    """`config/tuning.yaml`; documented there."""

    rates: Some[Positive]
    checkpoints: Count
    studies: dict[Name, Tried]
    further: dict[Name, dict[str, Some[Any]]] = Field(default_factory=dict)


def load_tuning(path: Path = FILE) -> Tuning:
    """Read the protocol.

    Raises:
        UserError: names file, line and setting.
    """
    file = read_settings(path)
    return build(Tuning, file.data, file.error)


class Trials:
    """The trials of a study: which are known, which come next, and what they say.

    Args:
        study: whose methods are tuned.
        tuning: the protocol.
        known: outcomes of trials; of other studies they are left out.

    Raises:
        UserError: the protocol does not have the study, or names a method that it lacks.
    """

    def __init__(self, study: Study, tuning: Tuning, known: Iterable[Outcome]):
        if study.name not in tuning.studies:
            raise UserError(
                f"{FILE.name}: tunes no study '{study.name}'{nearest(study.name, tuning.studies)}"
            )
        self.study, self.tuning, self.tried = study, tuning, tuning.studies[study.name]
        for name in self.methods:
            if getattr(getattr(study.method(name), "tree", None), "actor_learning_rate", None):
                raise UserError(
                    f"study '{study.name}': methods.{name}.tree.actor_learning_rate stands in "
                    f"place of {RATE}, which {FILE.name} tunes; remove it"
                )
        self.members = [study, *replicates(study)]
        own = (outcome for outcome in known if outcome.study == study.name)
        # A run that is known twice counts as it was read last.
        self.known = [*{(o.method, o.settings, o.base, o.run): o for o in own}.values()]

    @property
    def methods(self) -> tuple[str, ...]:
        return (*self.tried.methods, *self.tried.on_first_base)

    def bases(self, method: str) -> list[str]:
        """Studies of the base models on which a method is tried."""
        first_alone = method in self.tried.on_first_base
        return [member.name for member in (self.members[:1] if first_alone else self.members)]

    def accuracy(self, outcome: Outcome) -> float:
        """By which a run is judged."""
        last = outcome.accuracies[-self.tuning.checkpoints :]
        return sum(last) / len(last)

    @cached_property
    def scores(self) -> dict[tuple[str, str], float]:
        """(method, settings) -> mean accuracy, of the trials of which every run is known."""
        runs: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
        for outcome in self.known:
            of_trial = runs.setdefault((outcome.method, outcome.settings), {})
            of_trial[outcome.base, outcome.run] = self.accuracy(outcome)
        return {
            key: sum(of_trial.values()) / len(of_trial)
            for key, of_trial in runs.items()
            if of_trial.keys() >= {(b, r) for b in self.bases(key[0]) for r in self.tried.runs}
        }

    def score(self, trial: Trial) -> float | None:
        """Its mean accuracy; None where a run is not known."""
        return self.scores.get((trial.method, trial.settings))

    def best(self, trials: Sequence[Trial]) -> Trial | None:
        """The most accurate, of equals the first; None where one is not known."""
        known = {trial: self.score(trial) for trial in trials}
        if None in known.values():
            return None
        return max(trials, key=lambda trial: known[trial])

    def rates(self, method: str) -> list[Trial]:
        """A trial for each rate, the lowest first; extended until the best is inside."""
        rates = sorted(self.tuning.rates)
        while True:
            trials = [Trial(method, {RATE: rate}) for rate in rates]
            best = self.best(trials)
            if best is trials[0]:
                rates.insert(0, _rounded(rates[0] / 2))
            elif best is trials[-1]:
                rates.append(_rounded(2 * rates[-1]))
            else:
                return trials

    def start(self, method: str) -> dict[str, Any]:
        """Further setting -> value that a trial has where it does not change it."""
        further = self.tuning.further.get(self.study.method(method).method, {})
        return {setting: values[0] for setting, values in further.items()}

    def further(self, method: str, rate: Trial) -> list[Trial]:
        """At a rate, each other value of a further setting."""
        further = self.tuning.further.get(self.study.method(method).method, {})
        return [
            Trial(method, {**rate.changes, setting: value})
            for setting, values in further.items()
            for value in values[1:]
        ]

    def of(self, method: str) -> list[Trial]:
        """All trials of a method, as far as is known which there are."""
        rates = self.rates(method)
        best = self.best(rates)
        return [*rates, *(self.further(method, best) if best else [])]

    def chosen(self, method: str) -> Trial | None:
        """The best of all its trials; None where one is not known."""
        return self.best(self.of(method))

    def missing(self) -> Iterator[tuple[Trial, str, str]]:
        """Trial, study of the base model and letter of each run that is not known."""
        known = {(o.method, o.settings, o.base, o.run) for o in self.known}
        for method in self.methods:
            for trial in self.of(method):
                for base in self.bases(method):
                    for run in self.tried.runs:
                        if (method, trial.settings, base, run) not in known:
                            yield trial, base, run

    def contradictions(self) -> Iterator[str]:
        """Settings that the study reports with, and that its trials do not choose."""
        for method in self.methods:
            if chosen := self.chosen(method):
                for setting, value in {**self.start(method), **chosen.changes}.items():
                    if value != (own := value_of(self.study, method, setting)):
                        yield f"{method}: {setting} is {own}, the best of its trials {value}"

    def at_the_edge(self) -> Iterator[str]:
        """Rates that the study reports with, and that are no inner point of those tried."""
        for method in self.methods:
            if self.chosen(method):
                tried = [trial.changes[RATE] for trial in self.rates(method)]
                own = value_of(self.study, method, RATE)
                if not tried[0] < own < tried[-1]:
                    yield f"{method}: {RATE} is {own}, tried {', '.join(map(str, tried))}"

    def told(self) -> list[str]:
        """What is known in lines, and how to make what is missing."""
        missing, known = list(self.missing()), len(self.known)
        lines = [f"{self.study.name}: {known} of {known + len(missing)} runs of trials known"]
        for method in self.methods:
            for trial in self.of(method):
                if (score := self.score(trial)) is not None:
                    lines.append(f"  {method}: {score:.2f} % with {trial.settings}")
            if chosen := self.chosen(method):
                lines.append(f"  {method}: the best is {chosen.settings}")
        for base in dict.fromkeys(base for _, base, _ in missing):
            command = f"snakemake --cores all trials --config study={trials_file(base)}"
            lines.append(f"make them with `{command}`")
        return [*lines, *self.at_the_edge(), *self.contradictions()]

    def write_studies(self) -> list[Path]:
        """Write the file of each base model that lacks runs of trials: a study of those alone."""
        files: dict[str, dict[str, Any]] = {}
        for trial, base, run in self.missing():
            entries = files.setdefault(base, {})
            if trial.name not in entries:
                changes = {**self.start(trial.method), **trial.changes}
                entry = entry_of(self.study, trial.method, changes, trial.settings)
                entries[trial.name] = {**entry, "runs": []}
            entries[trial.name]["runs"].append(run)
        methods, first = self.study.methods, next(iter(self.tried.runs))
        others: dict[str, Any] = {n: {"runs": []} for n, m in methods.items() if m.kind == "rl"}
        others[START] = {"runs": [first]}
        paths = []
        for base, entries in files.items():
            given = {
                "like": base,
                "title": f"Trials of {base}",
                "replicates": [],
                "continuation": None,
                "runs": self.tried.runs,
                "methods": {**others, **entries},
            }
            paths.append(trials_file(base))
            write_atomic(paths[-1], yaml.safe_dump(given, sort_keys=False, allow_unicode=True))
        return paths

    def read(self) -> list[Outcome]:
        """Outcomes of the missing runs that this machine has, by today's fingerprints."""
        self.write_studies()
        missing, outcomes = list(self.missing()), []
        jobs = {
            b: Jobs(load_study(trials_file(b))) for b in dict.fromkeys(b for _, b, _ in missing)
        }
        for trial, base, run in missing:
            job = jobs[base].job("train", trial.name, run)
            if job.manifest.exists():
                outcomes.append(_outcome(self.study, trial, base, run, job.path))
        return outcomes


def trials_here(study: Study, tuning: Tuning, archived: Iterable[Outcome]) -> Trials:
    """The trials of a study with the archived outcomes and this machine's.

    What is read may make further trials due, some of which may be here as well. So it is read until
    nothing is new. Then the files of the base models that lack runs have these alone.
    """
    trials = Trials(study, tuning, archived)
    while here := trials.read():
        trials = Trials(study, tuning, [*trials.known, *here])
    return trials


def trials_file(base: str) -> Path:
    """Settings of the trials on a base model."""
    return STUDIES / f"{base}-trials.yaml"


def _rounded(rate: float) -> float:
    return float(f"{rate:.6g}")


def _outcome(study: Study, trial: Trial, base: str, run: str, folder: Path) -> Outcome:
    manifest = read_manifest(folder)
    validations = [checkpoint["validation"] for checkpoint in manifest["checkpoints"]]
    return Outcome(
        study.name,
        trial.method,
        trial.settings,
        base,
        run,
        tuple(round(100 * validation["accuracy"], 4) for validation in validations),
        validations[-1]["turns"],
        manifest["totals"]["trajectories"],
    )
