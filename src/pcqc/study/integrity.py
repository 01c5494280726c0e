"""Whether the results of a study are the files that its jobs wrote, and what the workflow compares.

A job that reads another's result checks it against its receipt. What no job would read again is
checked when the workflow starts, so that it never calls altered results finished.
"""

from collections.abc import Iterator, Sequence

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import DERIVED, JobOutput, job_output, job_outputs, steps
from pcqc.study.provenance import made_from
from pcqc.study.receipts import Receipt

# All that these write are declared outputs: Snakemake makes again what is missing.
_DECLARED = (
    *("clinic", "convert", "overlap", "prepare"),
    *("store", "tables", "figures", "paper", "report"),
)


def check_results(study: Study) -> None:
    """Compare what finished jobs left with their receipts, as far as it would not be made again.

    Files that the system saw neither changed nor renamed since are not read: it takes a moment.

    Raises:
        UserError: names the first file that is not as it was written, and the remedy.
    """
    for one in _results(study):
        found = one.receipt()
        if not one.path.exists():  # it is made again
            continue
        if found is None:
            if one.manifest.exists():
                one.require()
            continue
        if found.outputs is None or not (one.job in DERIVED or _taken_for_made(one, found)):
            continue
        again = {*found.outputs} if one.job in _DECLARED else found.manifests
        folder = found.path.parent
        names = [
            name
            for name in found.outputs
            if name not in one.keep and ((folder / name).exists() or name not in again)
        ]
        if names:
            found.check(*names, touched=True)


def _taken_for_made(one: JobOutput, found: Receipt) -> bool:
    """Whether the workflow goes on from the result: see `recipe`."""
    return found.holds_for(made_from(one.study, one.job, one.method, one.run), inputs=False)


def _results(study: Study) -> Iterator[JobOutput]:
    """Results of all jobs: those of every run, then what is made from all of them."""
    runs = [(name, run) for name, method in study.methods.items() for run in method.runs]
    made = {one.receipt_path: one for name, run in runs for one in steps(study, name, run)}
    yield from made.values()
    for job in DERIVED:
        for name in _names(study, job):
            yield job_output(study, job, name)


def _names(study: Study, job: str) -> Sequence[str | None]:
    """Methods, or sets of cases, that a job of `DERIVED` is started for; one None where for all."""
    if job in ("convert", "overlap", "prepare") and study.synthetic:
        return ()
    sets = ("instruction", "train", *study.benchmarks, "manifest")
    names = {"mirror": [*study.methods], "convert": [*study.raw_files], "prepare": [*sets]}
    return names.get(job, [None])


def recipe(study: Study, job: str, method: str | None = None, run: str | None = None) -> str:
    """What the workflow compares: another recipe than at the last time makes a job run again.

    It is that of the results that are there, as long as they come out the same today or are
    accepted; else today's.
    """
    today = made_from(study, job, method, run)
    for one in job_outputs(study, job, method, run):
        try:
            found = one.receipt()
        except UserError:  # whoever reads the result says so
            found = None
        if not (found and found.holds_for(today, inputs=False)):
            return today.recipe
    return found.made_from.recipe
