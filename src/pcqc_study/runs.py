"""A finished run, read from the results of its jobs: `Run` and `load` of `import pcqc`.

Status, MLflow, the analysis and packages read runs through this module. A file that an archive left
out is named, with the command that makes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pcqc.evaluation.predictions import read_predictions
from pcqc.logged.updates import EVENTS, TIMES, read_updates
from pcqc_base.errors import UserError, nearest, reason
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.manifest import LATEST, MANIFEST, checked, left_out, read_manifest
from pcqc_study.fingerprint import Fingerprint
from pcqc_study.job_kinds import CHECKPOINTS, KINDS
from turn_credit.arithmetic import SMALL_SPREAD, small_spread_share

# Columns that are text in a CSV file, whatever their cells look like.
NAMES = ("case_id", "benchmark", "method", "run", "training", "evaluation")
OF_A_RUN = ("train", "select", "evaluate", "continuation", "grounding")  # kinds of its jobs


@dataclass(frozen=True, repr=False)
class Run:
    """A run of a method: one training with one seed, and its evaluation. Made by `load`.

    Attributes:
        results: folder of the study's results.
        method, run: name of the method and letter of the run.
        folders: kind of a job -> its result, of those that the run has.
    """

    results: Path
    method: str
    run: str
    folders: Mapping[str, Path]

    def __str__(self) -> str:
        return f"{self.results.name}/{self.method}/{self.run}"

    def __repr__(self) -> str:
        """Three lines: which run, how well it did, where it is."""
        update, reached = self.evaluation["update"], self.evaluation["benchmarks"]
        shares = (f"{name} {100 * of['accuracy']:.1f} %" for name, of in reached.items())
        updates = f", update {update} of {self.training['updates']}" if self.training else ""
        place = self.folders["evaluate"].resolve()
        return f"<Run {self}{updates}\n right: {', '.join(shares)}\n in {place}>"

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """Manifest of the evaluation."""
        return read_manifest(self.folders["evaluate"])

    @cached_property
    def training(self) -> dict[str, Any] | None:
        """Manifest of the training; None for Shared SFT."""
        return read_manifest(self.folders["train"]) if "train" in self.folders else None

    @cached_property
    def continued(self) -> dict[str, Any] | None:
        """Manifest of the continuation study; None for most runs."""
        return read_manifest(self.folders["continuation"]) if self.is_continued else None

    @property
    def is_continued(self) -> bool:
        """Whether a continuation study starts from its candidates."""
        return "continuation" in self.folders

    @cached_property
    def selection(self) -> dict[str, Any]:
        """The choice of the checkpoint."""
        return read_json(checked(self.folders["select"] / "selection.json"))

    @property
    def weights(self) -> Path:
        """Folder of the evaluated checkpoint, which an archive leaves out; Shared SFT's actor."""
        update = self.evaluation["update"]
        if self.training and update:
            return self.folders["train"] / CHECKPOINTS / f"{update:06d}"
        actor = self.evaluation["fingerprint"]["inputs"]["actor"]
        return self.results / KINDS["sft"].folder / actor

    def model(self) -> tuple[Any, Any]:
        """The doctor that was evaluated: a causal language model of transformers, its tokenizer.

        Raises:
            UserError: an archive left its weights out, or they were altered.
        """
        from pcqc.models.folder import load_model, load_tokenizer

        folder = checked(self.weights)
        dtype = self.evaluation["settings"]["dtypes"]["actor"]
        return load_model(folder, dtype), load_tokenizer(folder)

    @property
    def fingerprint(self) -> Fingerprint:
        """Fingerprint of its training or, without one, of its evaluation."""
        return Fingerprint.of(self.training or self.evaluation)

    def rows(self, kind: str, name: str) -> Iterator[dict[str, Any]]:
        """Rows of a JSON-lines file of a job of the run; none where it has, or is, no such file."""
        if kind in self.folders and name in self.here(kind):
            yield from (row for _, row in read_jsonl(checked(self.folders[kind] / name)))

    def here(self, kind: str) -> list[str]:
        """Files of a job of the run but weights, without those that an archive left out."""
        folder = self.folders[kind]
        lacking = left_out(folder)
        names = read_manifest(folder)["files"]
        return [n for n in names if n not in lacking and not n.startswith(f"{CHECKPOINTS}/")]

    def predictions(self) -> pd.DataFrame:
        """One row for each case of each benchmark, at the selected checkpoint.

        Columns: `case_id`, `benchmark`, `correct`, `predicted`, `answer`, `turns`, `actor_tokens`,
        `ending`, and the run's `method`, `run` and `update`.
        """
        folder = self.folders["evaluate"]
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
        events, times = (self.folders["train"] / f"{name}.jsonl" for name in (EVENTS, TIMES))
        if times.name in self.training["files"]:  # earlier trainings have theirs among the events
            checked(times)
        return pd.DataFrame(read_updates(checked(events), times))

    def candidates(self) -> pd.DataFrame:
        """One row for each candidate question of the training; rows of one state stand together.

        Columns: `update`, `case_id` and `turn` (from 1) name the state; `baseline` is the scorer's
        probability of the correct option there, `spread` the standard deviation of its candidates'
        utilities; `candidate` counts from 0, the executed one; `question`, `answer`, `utility`,
        `gain`, `credit`, `executed`, and `supervised`: whether its question tokens were trained on.

        Raises:
            UserError: the method compares no candidates, or an archive left them out.
        """
        name = "candidate_groups.jsonl"
        if self.training is None or name not in self.training["files"]:
            raise UserError(f"{self.method} compares no candidates at a state; load a run of pcqc")
        state = ("update", "case_id", "turn", "baseline", "spread")
        columns = ("question", "answer", "utility", "gain", "credit", "executed", "supervised")
        rows = (
            {key: group[key] for key in state}
            | {"turn": group["turn"] + 1, "candidate": number}
            | {key: candidate[key] for key in columns}
            for _, group in read_jsonl(checked(self.folders["train"] / name))
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
        if not self.is_continued:
            raise UserError(
                f"{self}: has no continuation study; the study's setting `continuation` names the "
                "run that has one"
            )
        folder, keys = self.folders["continuation"], ["set", "case_id", "candidate"]
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
            benchmark: on which they were held; by default all that are here.

        Raises:
            UserError: an archive left those of this benchmark out.
        """
        folder, held = self.folders["evaluate"], self.evaluation["benchmarks"]
        for name in [benchmark] if benchmark else held:
            path = folder / held[name]["dialogues"]
            if benchmark or path.exists():
                yield from (row for _, row in read_jsonl(checked(path)))

    def dialogue(self, case_id: str) -> dict[str, Any]:
        """The consultation on one case; UserError where there is none."""
        for row in self.dialogues():
            if row["case_id"] == case_id:
                return row
        first = next(self.dialogues(), {"case_id": "none"})["case_id"]
        raise UserError(f"{self}: no consultation on case '{case_id}'; the first is on '{first}'")


def load(results: str | Path, method: str, run: str, evaluated: Path | None = None) -> Run:
    """A finished run: an evaluation, what it was made from, and what was continued from it.

    Args:
        results: folder of a study's results, such as `results/clinic`.
        method: such as `pcqc`.
        run: its letter, such as `A`.
        evaluated: the evaluation; the newest where not given.

    Raises:
        UserError: there are no such results, or the run is not evaluated there.
    """
    folder = Path(results)
    newest = {kind: folder.joinpath(KINDS[kind].folder, method, run, LATEST) for kind in OF_A_RUN}
    evaluated = evaluated or newest["evaluate"]
    if not (evaluated / MANIFEST).exists():
        known = ", ".join(_letters(folder, method))
        raise UserError(f"{folder}: no run '{run}' of {method} is evaluated; known are {known}")
    inputs = read_manifest(evaluated)["fingerprint"]["inputs"]
    for kind, name in {"train": "run", "select": "selection"}.items():
        own = newest[kind].with_name(inputs.get(name, "").partition("/")[0] or LATEST)
        newest[kind] = own if (own / MANIFEST).exists() else newest[kind]
    newest["evaluate"] = evaluated
    made = {kind: path for kind, path in newest.items() if (path / MANIFEST).exists()}
    return Run(folder, method, run, made)


def first_run(results: str | Path, method: str) -> str:
    """Letter of a method's first run in a folder of results; raises as `load` does."""
    return _letters(Path(results), method)[0]


def _letters(folder: Path, method: str) -> list[str]:
    """Letters of a method's evaluated runs."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name a study's results, as results/clinic")
    manifests = folder.joinpath(KINDS["evaluate"].folder).glob(f"*/*/{LATEST}/{MANIFEST}")
    runs = sorted((m.parts[-4], m.parts[-3]) for m in manifests)
    if not runs:
        raise UserError(f"{folder}: no run is evaluated there yet; `pcqc status` says what is left")
    letters = [letter for name, letter in runs if name == method]
    if not letters:
        raise UserError(f"{folder}: no run of '{method}'{nearest(method, dict(runs))}")
    return letters


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
