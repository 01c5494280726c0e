"""A study's runs as tables and figures see them; `analysis.load` reads them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd

from analysis.metrics import METRICS
from analysis.statistics.estimates import Estimate, average_over_benchmarks
from analysis.statistics.intervals import Sample
from analysis.table import listed
from pcqc_base.errors import UserError
from pcqc_base.settings import Benchmark
from pcqc_study.study_file import Study

ROWS = ("method", "control")  # roles of what tables and figures show


@dataclass(frozen=True, eq=False)  # what is computed of one is cached
class Collected:
    """A study with the per-case predictions, update metrics and manifests of all its runs.

    Attributes:
        study: the settings.
        predictions: one row per (method, run, benchmark, case).
        updates: one row per (method, run, kind, update) of training.
        records: (method, run) -> run id, manifests and selection.
        further: as `predictions`, at the updates of the study's `also_evaluate`; None without any.
        validations: as `predictions`, of every checkpoint on the development benchmark; None where
            no run kept any.
        fixed: method -> update of `at_fixed_update`; the others are at selected checkpoints.
        dialogues: (method, run, benchmark) -> the dialogues of a run, in the file's order.
        others: the same study on other base models; claims are judged on all of them.
        parts: the studies whose runs were `pooled` into this one, of one base model each.
    """

    study: Study
    predictions: pd.DataFrame
    updates: pd.DataFrame
    records: dict[tuple[str, str], dict[str, Any]]
    further: pd.DataFrame | None = None
    validations: pd.DataFrame | None = None
    fixed: dict[str, int] = field(default_factory=dict)
    dialogues: Callable[[str, str, str], Iterator[dict[str, Any]]] | None = None
    others: tuple["Collected", ...] = ()
    parts: tuple["Collected", ...] = ()

    @property
    def on_each_base(self) -> tuple["Collected", ...]:
        """The study on each of its base models, its own first."""
        return (self, *self.others)

    @property
    def benchmarks(self) -> dict[str, Benchmark]:
        return self.study.benchmarks

    @property
    def primary(self) -> list[str]:
        """Benchmarks without the independent sources, as in the paper's three-benchmark means."""
        return [n for n, b in self.benchmarks.items() if b.role != "independent_source"]

    @cached_property
    def _cases(self) -> dict[tuple[str, str, str], pd.DataFrame]:
        groups = self.predictions.groupby(["method", "run", "benchmark"], sort=False)
        return {key: frame.set_index("case_id").sort_index() for key, frame in groups}

    @cached_property
    def _updates(self) -> dict[tuple[str, str, str], pd.DataFrame]:
        if self.updates.empty:
            return {}
        groups = self.updates.groupby(["method", "run", "kind"], sort=False)
        return {key: frame.set_index("update").sort_index() for key, frame in groups}

    def title(self, method: str) -> str:
        return self.study.method(method).title

    def methods(self, role: str | None = None) -> list[str]:
        """Methods and controls that have runs, in the study's order; all, or those of a role."""
        roles = ROWS if role is None else (role,)
        return [name for name, m in self.study.methods.items() if m.runs and m.role in roles]

    def only(self, methods: Iterable[str]) -> "Collected":
        """The same with the runs of some methods; the others are listed without any."""
        names = set(methods)
        none = {name: () for name in self.study.methods if name not in names}
        rest = self.with_runs(none)
        return rest._with(rest.study, tuple(other.only(names) for other in self.others))

    def with_runs(self, runs: Mapping[str, tuple[str, ...]]) -> "Collected":
        """The same with other runs of some methods."""
        methods = {n: replace(m, runs=runs.get(n, m.runs)) for n, m in self.study.methods.items()}
        return self._with(replace(self.study, methods=methods), self.others)

    def _with(self, study: Study, others: tuple["Collected", ...]) -> "Collected":
        """The same rows, grouped once, as those of a part of the study."""
        part = replace(self, study=study, others=others)
        known = {"_updates": self._updates} | (
            {} if self.predictions.empty else {"_cases": self._cases}
        )
        vars(part).update(known)
        return part

    def rows(self, role: str) -> dict[str, str]:
        """Method -> title of a role in the study's order; those without runs say so."""
        return {
            name: m.title if m.runs else f"{m.title} (not run)"
            for name, m in self.study.methods.items()
            if m.role == role
        }

    def not_run(self) -> str:
        """` Not run: ATPO.` for a caption; empty where every method and control has runs."""
        absent = [m.title for m in self.study.methods.values() if not m.runs and m.role in ROWS]
        return f" Not run: {listed(absent)}." if absent else ""

    def runs(self, method: str) -> tuple[str, ...]:
        """Letters of the method's independent runs."""
        return self.study.method(method).runs

    @property
    def base_models(self) -> int:
        """How many its runs are of; several only where they were `pooled`."""
        return max(1, len(self.parts))

    def runs_on_each_base(self, method: str) -> tuple[int, ...]:
        """Number of the method's runs on each base model."""
        return tuple(len(part.runs(method)) for part in self.parts or (self,))

    @property
    def run(self) -> str:
        """The run that is shown where one is: the first that all trained methods have."""
        return self.study.common_runs[0]

    def shown(self, method: str) -> str:
        """The run that is shown of a method: Shared SFT has one of its own."""
        return self.run if self.study.method(method).kind == "rl" else self.runs(method)[0]

    def cases(self, method: str, run: str, benchmark: str) -> pd.DataFrame:
        """Predictions of one run on one benchmark, by case id in order.

        Raises:
            UserError: the run has not been evaluated on the benchmark, or not on the same cases
                as the others.
        """
        frame = self._cases.get((method, run, benchmark))
        if frame is None:
            raise UserError(
                f"study '{self.study.name}': no predictions of {method} run {run} on "
                f"{benchmark}; evaluate and collect that run"
            )
        reference = next(f for (_, _, name), f in self._cases.items() if name == benchmark)
        if not frame.index.equals(reference.index):
            raise UserError(
                f"study '{self.study.name}': {method} run {run} was evaluated on other cases "
                f"of {benchmark} than the rest; evaluate it again"
            )
        return frame

    def per_case(self, method: str, benchmark: str, metric: str, runs: Iterable[str]) -> np.ndarray:
        """(runs, cases) values of a metric in its printed unit, cases ordered by id."""
        of = METRICS[metric].of
        rows = [of(self.cases(method, run, benchmark)) for run in runs]
        return np.stack([row.to_numpy(dtype=float) for row in rows])

    def sample(self, method: str, benchmarks: list[str], metric: str = "accuracy") -> Sample:
        """The method's outcomes on some benchmarks, run by run, under every base model."""
        every = self.on_each_base
        arrays = tuple(
            np.concatenate([b.per_case(method, name, metric, b.runs(method)) for b in every])
            for name in benchmarks
        )
        labelled = [
            (run, f"base model {number}")
            for number, base in enumerate(every, 1)
            for run in base.runs(method)
        ]
        runs, bases = zip(*labelled, strict=True)
        reach = {"accuracy": 100, "turns": self.study.protocol.max_turns}.get(metric, np.inf)
        return Sample(
            arrays, runs, bases, drawn=self.study.method(method).kind == "rl", reach=reach
        )

    def pooled(self) -> "Collected":
        """The predictions under all base models as of one study, whose runs are `A1`, `A2`, ...

        Nothing but predictions is known of these runs.
        """
        return self._pooled

    @cached_property
    def _pooled(self) -> "Collected":
        bases = {str(number): base for number, base in enumerate(self.on_each_base, 1)}
        if len(bases) == 1:
            return self
        frames = [b.predictions.assign(run=b.predictions["run"] + n) for n, b in bases.items()]
        further = [
            b.further.assign(run=b.further["run"] + n)
            for n, b in bases.items()
            if b.further is not None
        ]
        runs = {
            name: tuple(run + n for n, base in bases.items() for run in base.runs(name))
            for name in self.study.methods
        }
        return replace(
            self.with_runs(runs),
            predictions=pd.concat(frames, ignore_index=True),
            further=pd.concat(further, ignore_index=True) if len(further) == len(bases) else None,
            records={},
            others=(),
            parts=self.on_each_base,
        )

    def average(
        self, method: str, benchmarks: list[str], metric: str = "accuracy", run: str | None = None
    ) -> Estimate:
        """Mean and sample SD over runs, or one run's mean, of the average over benchmarks."""
        runs = (run,) if run else self.runs(method)
        means = [self.per_case(method, b, metric, runs).mean(axis=1) for b in benchmarks]
        return average_over_benchmarks(means)

    def case_ids(self, benchmark: str) -> pd.Index:
        """Cases of a benchmark, in order."""
        method = self.methods()[0]
        return self.cases(method, self.runs(method)[0], benchmark).index

    def number_of_cases(self, benchmark: str) -> int:
        return len(self.case_ids(benchmark))

    def record(self, method: str, run: str) -> dict[str, Any]:
        """Run id, manifests and selection of a run; UserError where the run is absent."""
        if (method, run) not in self.records:
            raise UserError(
                f"study '{self.study.name}': no run {run} of {method}; train, "
                "evaluate and collect it"
            )
        return self.records[method, run]

    def levelled_off(self, method: str, run: str) -> bool:
        """Whether a run ended before its last update, as its validation had levelled off."""
        return self.record(method, run)["training"].get("ended") == "levelled off"

    def at_fixed_update(self, methods: Iterable[str]) -> "Collected":
        """The same with every run of some methods at their last common further update.

        Selected checkpoints stay if the methods' runs have no such update.
        """
        methods, rows = list(methods), self.further
        if rows is None:
            return self
        rows = rows[rows["method"].isin(methods)]
        by_run = rows.groupby(["method", "run"])["update"].agg(set).to_dict()
        common = set.intersection(
            *(by_run.get((m, run), set()) for m in methods for run in self.runs(m))
        )
        if not common:
            return self
        update = max(common)
        others = self.predictions[~self.predictions["method"].isin(methods)]
        fixed = pd.concat([others, rows[rows["update"] == update]], ignore_index=True)
        updates = self.fixed | dict.fromkeys(methods, update)
        return replace(self, predictions=fixed, fixed=updates)

    def each_at_fixed_update(self, methods: Iterable[str]) -> "Collected":
        """`at_fixed_update` of one method after another that ran, each at an update of its own."""
        ran = [method for method in methods if self.runs(method)]
        return reduce(lambda runs, method: runs.at_fixed_update([method]), ran, self)

    def on_development(self) -> "Collected":
        """The same on the development benchmark alone."""
        name = self.study.development
        study = replace(self.study, benchmarks={name: self.study.benchmarks[name]})
        return self._with(study, tuple(other.on_development() for other in self.others))

    def update(self, method: str, run: str) -> int:
        """The update whose checkpoint the predictions of a run are of."""
        return self.fixed.get(method) or self.record(method, run)["evaluation"]["update"]

    def checkpoint(self, method: str, run: str) -> str:
        """`fixed update 222` or `selected update 30`, for a caption."""
        kind = "fixed" if method in self.fixed else "selected"
        return f"{kind} update {self.update(method, run)}"

    def spent(self, method: str, run: str, cost: str) -> float:
        """A cost of training a run up to its checkpoint; 0 where it did not train."""
        curve = self.curve(method, run, "update", cost)
        update = self.update(method, run)
        return float(curve[curve.index <= update].iloc[-1]) if len(curve) else 0.0

    def curve(self, method: str, run: str, kind: str, metric: str) -> pd.Series:
        """A training metric by update, in the order of updates; empty where no run has it."""
        rows = self._updates.get((method, run, kind))
        if rows is None or metric not in rows:
            return pd.Series(dtype=float)
        return rows[metric].dropna()
