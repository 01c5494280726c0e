"""Data of a study of real cases: converted by hand, then prepared by its jobs."""

import contextlib
import io
import json
from pathlib import Path

from hand_made import finish_job, folder_of

from data_prep.convert import convert_file
from pcqc.cases.case import Case, read_cases, write_cases
from pcqc_base.system.files import write_atomic, write_json
from pcqc_base.system.manifest import read_manifest
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import run_job
from pcqc_study.study_file import Study


def lay_down(study: Study, name: str, rows: list[Case] | None, *systems: str) -> None:
    """A published file, as if it had been converted to these cases with these system messages.

    Without rows, those that lie there already.
    """
    converted = latest(study, "convert", name) / f"{name}.jsonl"
    if rows is None:
        rows = read_cases(converted, as_published=True) if converted.exists() else []
    write_atomic(study.raw_files[name].path, json.dumps([len(rows), *systems]))
    folder = folder_of(study, "convert", name)
    write_cases(folder / f"{name}.jsonl", rows)
    message = systems[0] if len(systems) == 1 else None
    card = {"system_messages": {"different": len(systems), "text": message}}
    write_json(folder / f"{name}.card.json", card)
    finish_job(study, "convert", name)


def convert(study: Study, name: str, raw: Path, source: str | None = None) -> None:
    """A published file of a study, converted by its job."""
    write_atomic(study.raw_files[name].path, raw.read_bytes())
    convert_file(
        study.raw_files[name].path,
        folder_of(study, "convert", name) / f"{name}.jsonl",
        None,
        source,
    )
    finish_job(study, "convert", name)


def prepare(study: Study, *names: str) -> list[str]:
    """Prepare sets, all of them where none is named; what was noted, a line each."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        if study.protocol.instruction is None and not names:
            run_job(study, "instruction")
        for name in names or ("train", *study.benchmarks):
            run_job(study, "prepare", name)
    return [line.removeprefix("note: ") for line in output.getvalue().splitlines()]


def prepared(study: Study, name: str) -> dict:
    """The manifest of a prepared set."""
    return read_manifest(Jobs(study).cases(name).latest.parent)
