"""Runs that were collected earlier, perhaps on another machine, beside those in MLflow here."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pcqc.evaluation.predictions import write_table
from pcqc_base.errors import UserError
from pcqc_study.graph import latest
from pcqc_study.settings import START, Study

TABLES = ("predictions.parquet", "further_updates.parquet", "validations.parquet")
UPDATES = "updates.parquet"


def check_start(study: Study, earlier: list[dict], runs: list[dict]) -> None:
    """Raise UserError where runs collected earlier and those of this machine have other actors.

    They are no runs of one study then. Another type of processor makes another actor.
    """
    first, second = (
        {run["evaluation"]["checkpoint"] for run in entries if run["method"] == START}
        for entries in (earlier, runs)
    )
    if first != second:
        raise UserError(
            f"{latest(study, 'collect')}: its runs start from another actor than those of this "
            "machine (another processor?); train all of them on one type of processor"
        )


def key(run: dict) -> tuple[str, str]:
    """Method and letter of an entry of `collected/runs.json`."""
    return run["method"], run["run"]


def join(study: Study, earlier: list[dict], runs: list[dict], new: Path) -> list[dict]:
    """Add runs that were collected earlier to a collection of others.

    Args:
        study: the study.
        earlier: entries of `collected/runs.json`.
        runs: entries of the runs in `new`, of which those that `earlier` has are not taken; each
            run of the study is in one of the two.
        new: the collection, as it is written but for `runs.json`.

    Returns:
        All entries in the study's order.
    """
    entries = {key(run): run for run in (*runs, *earlier)}
    wanted = [(n, r) for n, m in study.methods.items() if not m.on_demand for r in m.runs]
    kept = {key(run) for run in earlier}
    old = latest(study, "collect")
    sources = {run: old if run in kept else new for run in wanted}
    for name in (*TABLES, UPDATES):
        _join_table(sources, (old, new), name, new / name)
    for method, run in kept.intersection(wanted):
        for kind in ("dialogues", "continuation"):
            source, target = (folder / kind / method / run for folder in (old, new))
            shutil.rmtree(target, ignore_errors=True)
            if source.exists():
                shutil.copytree(source, target)
    return [entries[run] for run in wanted]


def _join_table(
    sources: dict[tuple[str, str], Path], folders: tuple[Path, Path], name: str, target: Path
) -> None:
    """Write the rows of every run, each from its folder, in order; nothing where none has any."""
    tables = {
        folder: pq.read_table(folder / name) for folder in folders if (folder / name).exists()
    }
    parts = [
        table.filter((pc.field("method") == method) & (pc.field("run") == run))
        for (method, run), folder in sources.items()
        if (table := tables.get(folder)) is not None
    ]
    if not parts:
        return
    joined = pa.concat_tables(parts, promote_options="default")
    if name == UPDATES:  # the two may have recorded different numbers
        keys = ["method", "run", "kind", "update"]
        joined = joined.select([*keys, *sorted({*joined.column_names} - {*keys})])
    write_table(target, joined.replace_schema_metadata())
