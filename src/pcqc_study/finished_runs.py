"""A finished run as data frames, and the comparison of two: what `import pcqc` offers.

A study's results are read from their folder alone; no settings are loaded. A run that was evaluated
here is read from its own folders, any other from `collected/`, which an archive restores.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pcqc.evaluation.predictions import SCHEMA, read_predictions
from pcqc.logged.updates import EVENTS, TIMES, read_updates
from pcqc_base.errors import UserError, nearest, reason
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.json_shapes import CollectedRuns
from pcqc_base.system.manifest import LATEST, MANIFEST, checked, read_manifest
from pcqc_study.fingerprint import Fingerprint
from pcqc_study.kinds import KINDS
from pcqc_study.paired import paired_average, paired_comparison
from turn_credit.arithmetic import SMALL_SPREAD, small_spread_share

AVERAGE = "average"
# Columns that are text in a CSV file, whatever their cells look like.
NAMES = ("case_id", "benchmark", "method", "run", "training", "evaluation")


@dataclass(frozen=True)
class Run:
    """A run of a method: one training with one seed, and its evaluation. Made by `load`.

    Attributes:
        results: folder of the study's results.
        method, run: name of the method and letter of the run.
        training: manifest of the training; None for Shared SFT.
        evaluation: manifest of the evaluation.
        collected: whether it is read from `collected/`, for want of its own folders.
    """

    results: Path
    method: str
    run: str
    training: dict[str, Any] | None
    evaluation: dict[str, Any]
    collected: bool = False

    def __str__(self) -> str:
        return f"{self.results.name}/{self.method}/{self.run}"

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Fingerprint of its training or, without one, of its evaluation.

        None of a run in an archive from before there were fingerprints.
        """
        manifest = self.training or self.evaluation
        return Fingerprint.of(manifest) if "fingerprint" in manifest else None

    def predictions(self) -> pd.DataFrame:
        """One row for each case of each benchmark, at the selected checkpoint.

        Columns: `case_id`, `benchmark`, `correct`, `predicted`, `answer`, `turns`, `actor_tokens`,
        `ending`, and the run's `method`, `run` and `update`.
        """
        if self.collected:
            frame = self._of_run(read_frame(self._newest("collect", "predictions.parquet")))
            return frame[SCHEMA.names]
        folder = self._newest("evaluate")
        parts = [
            read_predictions(checked(folder / files["predictions"])).to_pandas()
            for files in self.evaluation["benchmarks"].values()
        ]
        return pd.concat(parts, ignore_index=True)

    def metrics(self) -> pd.DataFrame:
        """One row for each update of the training and for each validation of a checkpoint.

        Columns: `kind` (`update` or `validation`), `update`, and every number that was logged;
        docs/read-a-run.md says what they mean. Without rows for Shared SFT, which is not trained.
        """
        if self.training is None:
            return pd.DataFrame(columns=["kind", "update"])
        if self.collected:
            frame = self._of_run(read_frame(self._newest("collect", "updates.parquet")))
            return frame.drop(columns=["method", "run"]).dropna(axis="columns", how="all")
        events, times = (self._newest("train", f"{name}.jsonl") for name in (EVENTS, TIMES))
        if times.name in self.training["files"]:  # earlier trainings have theirs among the events
            checked(times)
        return pd.DataFrame(read_updates(checked(events), times))

    def candidates(self) -> pd.DataFrame:
        """One row for each candidate question of the training; rows of one state stand together.

        Columns: `update`, `case_id` and `turn` name the state; `baseline` is the scorer's
        probability of the correct option there, `spread` the standard deviation of its candidates'
        utilities; `candidate` counts from 0, the executed one; `question`, `answer`, `utility`,
        `gain`, `credit`, `executed`, and `supervised`: whether its question tokens were trained on.

        Raises:
            UserError: the method compares no candidates, or they are not on this machine.
        """
        name = "candidate_groups.jsonl"
        if self.collected:
            raise UserError(
                f"{self.results}: the candidates of training are not collected; train the run "
                "here, or read those of the continuation study: run.continuation()"
            )
        if self.training is None or name not in self.training["files"]:
            raise UserError(f"{self.method} compares no candidates at a state; load a run of pcqc")
        state = ("update", "case_id", "turn", "baseline", "spread")
        columns = ("question", "answer", "utility", "gain", "credit", "executed", "supervised")
        rows = (
            {key: group[key] for key in state}
            | {"candidate": number}
            | {key: candidate[key] for key in columns}
            for _, group in self._rows("train", name)
            for number, candidate in enumerate(group["candidates"])
        )
        return pd.DataFrame(rows, columns=[*state, "candidate", *columns])

    def small_spread_share(self, below: float = SMALL_SPREAD) -> pd.Series:
        """By update, the share of the absolute question credit from states of a small spread.

        It is read from the candidates, so it is known of runs that did not log it.

        Args:
            below: a standard deviation of a state's utilities is small below it.

        Raises:
            UserError: as of `candidates`.
        """
        shares = {
            update: small_spread_share(rows["spread"], rows[["credit"]].to_numpy(), below)
            for update, rows in self.candidates().groupby("update")
        }
        return pd.Series(shares, name="small_spread_share").rename_axis("update")

    def continuation(self) -> pd.DataFrame:
        """One row for each candidate of the continuation study, at its cases' initial states.

        Columns: `set` (`main` has the states of the claim), `case_id`, `candidate`, `question`,
        `answer`, `baseline`, `utility`, `gain`, `credit`, `executed`, `ungrounded`, and `success`:
        the share of right continuations.

        Raises:
            UserError: the study has no continuation study of this run.
        """
        place = ("collect", "continuation", self.method, self.run)
        folder = self._newest(*place) if self.collected else self._newest("continuation")
        if not folder.is_dir():
            raise UserError(
                f"{self}: has no continuation study; the study's setting `continuation` names the "
                "run that has one"
            )
        keys = ["set", "case_id", "candidate"]
        frame = read_frame(checked(folder / "candidates.parquet"))
        continued = read_frame(checked(folder / "continuations.parquet"))
        success = continued.groupby(keys)["correct"].mean().rename("success")
        gain = frame["utility"] - frame["baseline"]
        if frame.empty:  # of a doctor that never asked; pandas joins no empty texts
            return frame.assign(gain=gain, success=gain)
        return frame.assign(gain=gain).join(success, on=keys)

    def dialogues(self, benchmark: str | None = None) -> Iterator[dict[str, Any]]:
        """The consultations of the evaluation; an archive has those of the development benchmark.

        Each has the case's `initial` information, `options` and correct `answer`, and the `turns`
        with the doctor's `response`, its `question` and the patient's `answer`.

        Args:
            benchmark: on which they were held; all by default.
        """
        if self.collected:
            folder = self._newest("collect", "dialogues", self.method, self.run)
            paths = {path.stem: path for path in sorted(folder.glob("*.jsonl"))}
        else:
            folder, entries = self._newest("evaluate"), self.evaluation["benchmarks"].items()
            paths = {name: folder / files["dialogues"] for name, files in entries}
        for name, path in paths.items():
            if benchmark in (None, name):
                yield from (row for _, row in read_jsonl(checked(path)))

    def dialogue(self, case_id: str) -> dict[str, Any]:
        """The consultation on one case; UserError where there is none."""
        for row in self.dialogues():
            if row["case_id"] == case_id:
                return row
        first = next(self.dialogues(), {"case_id": "none"})["case_id"]
        raise UserError(f"{self}: no consultation on case '{case_id}'; the first is on '{first}'")

    def _newest(self, kind: str, *names: str) -> Path:
        """The newest result of a job of this run, or a file of the study's collection."""
        own = (self.method, self.run) if KINDS[kind].arguments else ()
        return self.results.joinpath(KINDS[kind].folder, *own, LATEST, *names)

    def _rows(self, kind: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        return read_jsonl(checked(self._newest(kind, name)))

    def _of_run(self, frame: pd.DataFrame) -> pd.DataFrame:
        own = (frame["method"] == self.method) & (frame["run"] == self.run)
        return frame[own].reset_index(drop=True)


def load(results: str | Path, method: str, run: str) -> Run:
    """A finished run.

    Args:
        results: folder of a study's results, such as `results/clinic`.
        method: such as `pcqc`.
        run: its letter, such as `A`.

    Raises:
        UserError: there are no such results, or the run is neither evaluated nor collected there.
    """
    folder = Path(results)
    training, evaluation = (
        folder.joinpath(KINDS[kind].folder, method, run, LATEST) for kind in ("train", "evaluate")
    )
    if (evaluation / MANIFEST).exists():  # what is collected need not be read
        trained = read_manifest(training) if training.exists() else None
        return Run(folder, method, run, trained, read_manifest(evaluation))
    own, collected = _known(folder, method)
    if run in collected:
        record = collected[run]
        return Run(folder, method, run, record["training"], record["evaluation"], collected=True)
    known = ", ".join(sorted({*own, *collected}))
    raise UserError(f"{folder}: no run '{run}' of {method} is evaluated; known are {known}")


def first_run(results: str | Path, method: str) -> str:
    """Letter of a method's first run in a folder of results; raises as `load` does."""
    return min([*itertools.chain(*_known(Path(results), method))])


def _known(folder: Path, method: str) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """A method's runs: letters of those evaluated here, and letter -> record as collected."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name a study's results, as results/clinic")
    runs = (_evaluated(folder), _collected(folder))
    methods = {name for every in runs for name, _ in every}
    if not methods:
        raise UserError(f"{folder}: no run is evaluated there yet; `pcqc status` says what is left")
    if method not in methods:
        raise UserError(f"{folder}: no run of '{method}'{nearest(method, methods)}")
    own, collected = runs
    return (
        [letter for name, letter in own if name == method],
        {letter: record for (name, letter), record in collected.items() if name == method},
    )


def _evaluated(folder: Path) -> list[tuple[str, str]]:
    """Method and run of each run that was evaluated here."""
    manifests = folder.joinpath(KINDS["evaluate"].folder).glob(f"*/*/{LATEST}/{MANIFEST}")
    return [(m.parts[-4], m.parts[-3]) for m in manifests]


def _collected(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(method, run) -> record of each run that is collected; none where nothing is."""
    path = folder.joinpath(KINDS["collect"].folder, LATEST, "runs.json")
    runs = read_json(checked(path), CollectedRuns) if path.exists() else []
    return {(run["method"], run["run"]): run for run in runs}


def compare(a: Run | str | Path, b: Run | str | Path) -> pd.DataFrame:
    """Accuracy of A minus that of B on the same cases, paired (app:paired_statistics).

    Args:
        a, b: a run, or a Parquet or CSV file with columns `case_id` and `correct`.

    Returns:
        One row for each benchmark that both have and, of several, one for their unweighted average,
        with `cases`, the two accuracies in percent, the `gain` in points with its 95 % interval
        (`low`, `high`) over cases, how many cases one alone got right, and McNemar's exact `p`.

    Raises:
        UserError: a file cannot be read, a case is there twice, or the cases differ.
    """
    first, second = (_outcomes(side) for side in (a, b))
    names = [name for name in first if name in second]
    if not names:
        raise UserError(f"{a} and {b} have no benchmark in common; name runs of like studies")
    pairs = {name: _paired(first[name], second[name], a, b) for name in names}
    rows = {name: paired_comparison(*pair) for name, pair in pairs.items()}
    if len(rows) > 1:
        rows[AVERAGE] = paired_average(list(pairs.values()), list(rows.values()))
    return pd.DataFrame([asdict(row) for row in rows.values()], index=list(rows))


def _paired(a: pd.Series, b: pd.Series, name_a: Any, name_b: Any) -> tuple:
    """Both outcomes as arrays in one order of cases."""
    only_a, only_b = a.index.difference(b.index), b.index.difference(a.index)
    if len(only_a) or len(only_b):
        extra, where = (only_a[0], name_a) if len(only_a) else (only_b[0], name_b)
        raise UserError(
            f"the cases differ: {len(only_a)} only in {name_a}, {len(only_b)} only in {name_b} "
            f"(first: '{extra}' in {where}); compare predictions on the same benchmark"
        )
    return a.to_numpy(), b.reindex(a.index).to_numpy()


def _outcomes(side: Run | str | Path) -> dict[str, pd.Series]:
    """Benchmark -> correctness by case id; a file that names no benchmark has one, `cases`."""
    if isinstance(side, Run):
        frame = side.predictions()
    else:
        remedy = "name a Parquet file of predictions"
        frame = read_frame(Path(side), ("case_id", "correct"), remedy)
    if frame.empty:
        raise UserError(f"{side}: holds no predictions; remake the file")
    ids, kinds = frame["case_id"], pd.api.types
    named = kinds.is_string_dtype(ids) or kinds.is_integer_dtype(ids)
    if ids.isna().any() or not named or (ids.astype(str).str.strip() == "").any():
        raise UserError(f"{side}: 'case_id' must name a case in every row; remake the file")
    if not frame["correct"].isin([0, 1]).all():
        raise UserError(f"{side}: 'correct' must be true or false in every row; remake the file")
    frame = frame.assign(case_id=ids.astype(str))
    if "benchmark" not in frame:
        frame = frame.assign(benchmark="cases")
    outcomes = {
        str(name): rows.set_index("case_id")["correct"].astype(bool).sort_index()
        for name, rows in frame.groupby("benchmark", sort=False)
    }
    for rows in outcomes.values():
        if rows.index.has_duplicates:
            repeated = rows.index[rows.index.duplicated()][0]
            raise UserError(
                f"{side}: case '{repeated}' is there more than once; keep one prediction per case"
            )
    return outcomes


def read_frame(
    path: Path, columns: Sequence[str] = (), remedy: str = "collect the study's runs again"
) -> pd.DataFrame:
    """A Parquet or CSV file; UserError where it is missing, broken, or lacks a column."""
    try:
        if path.suffix == ".csv":
            frame = pd.read_csv(path, dtype=dict.fromkeys(NAMES, str), keep_default_na=False)
        else:
            frame = pd.read_parquet(path)
        if lacking := [name for name in columns if name not in frame]:
            raise ValueError(f"no column {', '.join(lacking)}")
        return frame
    except Exception as error:  # pandas and pyarrow raise many kinds for missing and broken files
        problem = reason(error) if path.exists() else "no such file"
        raise UserError(f"{path}: {problem}; {remedy}") from None
