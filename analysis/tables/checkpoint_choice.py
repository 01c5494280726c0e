"""What the choice of a checkpoint alone does to accuracy: the last one beside chosen ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.budgets import trained
from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.table import MISSING, Cell, Column, Number, Row, Table, ends, mean_of_runs

OTHER, SAME = "Chosen on other cases", "Chosen on the same cases"
COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("runs", "Runs"),
    Column("checkpoints", "Checkpoints"),
    Column("last", "Last"),
    Column("two_other", "Best of two", OTHER),
    Column("all_other", "Best of all", OTHER),
    Column("two_same", "Best of two", SAME),
    Column("all_same", "Best of all", SAME),
)


@dataclass(frozen=True)
class Validated:
    """A run's validations, [checkpoints, cases] each, in the order of updates."""

    updates: Sequence[int]
    correct: np.ndarray
    turns: np.ndarray

    def accuracies(self) -> dict[str, float]:
        """Column -> percent."""
        every = range(len(self.updates))
        half = min(every, key=lambda i: abs(self.updates[i] - self.updates[-1] / 2))
        two, cases = sorted({half, every[-1]}), np.arange(self.correct.shape[1])
        parts = cases[::2], cases[1::2]
        right = {"last": self.correct[-1].mean()}
        for name, among in (("two", two), ("all", every)):
            halves = [self._chosen(among, parts[i])[parts[1 - i]] for i in (0, 1)]
            right[f"{name}_other"] = np.concatenate(halves).mean()
            right[f"{name}_same"] = self._chosen(among, cases).mean()
        return {column: 100 * float(value) for column, value in right.items()}

    def _chosen(self, among: Sequence[int], cases: np.ndarray) -> np.ndarray:
        """Outcomes of the checkpoint that the rule of selection takes on some cases."""
        correct, turns = self.correct[:, cases].mean(axis=1), self.turns[:, cases].mean(axis=1)
        return self.correct[min(among, key=lambda i: (-correct[i], turns[i], i))]


def build(collected: Collected) -> Table:
    """One row per method that is trained, runs of all base models together."""
    rows = []
    for method in trained(collected):
        runs = [run for each in collected.on_each_base for run in _validated(each, method)]
        cells: list[Cell] = [MISSING] * (len(COLUMNS) - 2)
        if runs:
            percent = [run.accuracies() for run in runs]
            counts = ends(len(run.updates) for run in runs)
            cells = [counts, *(mean_of_runs([p[c.key] for p in percent], 2) for c in COLUMNS[3:])]
        first = collected.title(method), Number(len(runs), digits=0)
        rows.append(Row(method, (*first, *cells), strong=method == "pcqc"))
    benchmark = collected.benchmarks[collected.study.development].title
    caption = (
        f"Percent of right diagnoses on {benchmark} at validation, mean ± SD over runs"
        f"{on_base_models(len(collected.on_each_base))}. Last: the last checkpoint. Best of two: "
        "the more accurate of it and the one nearest to half of the updates; best of all: of all "
        "checkpoints. Chosen on other cases: the choice is made on one half of the cases, the "
        "accuracy is that of the other half, and the other way round. Chosen on the same cases: "
        "both on all cases, as checkpoints are selected, so that luck in these cases adds to the "
        "accuracy."
    )
    title = "What the choice of a checkpoint does."
    return Table("checkpoint_choice", title, caption, COLUMNS, tuple(rows))


def _validated(collected: Collected, method: str) -> list[Validated]:
    """The validations of each run of a method; none where none were kept."""
    if collected.validations is None:
        return []
    rows = collected.validations[collected.validations["method"] == method]
    runs = []
    for run in collected.runs(method):
        by_update = rows[rows["run"] == run].pivot(
            index="update", columns="case_id", values=["correct", "turns"]
        )
        correct, turns = (by_update[name].to_numpy(float) for name in ("correct", "turns"))
        runs.append(Validated([int(update) for update in by_update.index], correct, turns))
    return runs
