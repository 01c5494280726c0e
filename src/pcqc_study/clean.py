"""`pcqc clean`: results of earlier fingerprints, what they occupy, and their removal on demand."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from pcqc_base.errors import UserError, describe
from pcqc_base.system.locks import held, hold
from pcqc_base.system.manifest import LATEST, MANIFEST, is_result, lock, read_manifest
from pcqc_study.graph import Jobs
from pcqc_study.study_file import Study


@dataclass(frozen=True)
class Outdated:
    """A result that no job of the study makes any more.

    Attributes:
        path: its folder.
        about: the job that made it and when, or that it is unfinished.
        size: bytes of all its files.
    """

    path: Path
    about: str
    size: int


def outdated(study: Study) -> list[Outdated]:
    """Results of earlier fingerprints, ordered by path; those in the making are left out."""
    jobs = Jobs(study)
    current = {job.path.resolve() for job in [*jobs.all(), *jobs.on_demand()]}
    results = []
    for path in sorted(study.results.rglob("*")):
        if path.is_symlink() or not path.is_dir() or not is_result(path):
            continue
        if path.resolve() in current or held(lock(path)):
            continue
        if any(is_result(below) for below in path.rglob("*") if below.is_dir()):
            continue  # a method, or a benchmark, whose name looks like a fingerprint
        about = "unfinished"
        if (path / MANIFEST).exists():
            manifest = read_manifest(path)
            about = f"{manifest['fingerprint']['job']}, {manifest['finished'][:10]}"
        size = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
        results.append(Outdated(path, about, size))
    return results


def listing(results: Sequence[Outdated]) -> str:
    """The results as lines to read, with what removing them would free."""
    lines = [f"{result.path}  {_bytes(result.size)}  ({result.about})" for result in results]
    total = _bytes(sum(result.size for result in results))
    count = f"{len(results)} result{'' if len(results) == 1 else 's'} of earlier fingerprints"
    return "\n".join([*lines, f"{count}, {total}"])


def _bytes(size: int) -> str:
    return tqdm.format_sizeof(size, "B", divisor=1024)


def remove(results: Sequence[Outdated]) -> None:
    """Delete results for good.

    Raises:
        UserError: one cannot be deleted, or a job has begun to write it since it was listed.
    """
    for result in results:
        link = result.path.parent / LATEST
        with hold(lock(result.path), f"the job of {result.path}", patience=1.0):
            try:
                if link.is_symlink() and os.readlink(link) == result.path.name:
                    link.unlink()
                shutil.rmtree(result.path)
            except OSError as problem:
                raise UserError(f"cannot remove {result.path}: {describe(problem)}") from problem
