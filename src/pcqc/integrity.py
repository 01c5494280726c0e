"""Whether the results of a study are the files that its jobs wrote, and what the workflow compares.

A job that reads another's result checks it against its receipt. What no job would read again is
checked when the workflow starts, so that it never calls altered results finished.
"""

from collections.abc import Iterator

from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.products import DERIVED, Product, is_trained, product, products
from pcqc.provenance import made_from

# All that these write are declared outputs: Snakemake makes again what is missing.
_DECLARED = ("clinic", "store", "tables", "figures", "paper", "report")


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
        derived = one.job in DERIVED
        if found.outputs is None or not (derived or _holds(one)):
            continue
        folder = found.path.parent
        names = [
            name
            for name in found.outputs
            if name not in one.keep
            and ((folder / name).exists() or name not in found.manifests)
            and ((folder / name).exists() or one.job not in _DECLARED)
        ]
        if names:
            found.check(*names, touched=True)


def _holds(one: Product) -> bool:
    """Whether the workflow takes the result for made: see `recipe`."""
    today = made_from(one.study, one.job, one.method, one.run)
    found = one.receipt()
    return bool(found and found.holds_for(today, inputs=False))


def _results(study: Study) -> Iterator[Product]:
    """Results of all jobs, in the order in which they are made."""
    for job in ["clinic", "pretrain"] if study.synthetic else ["models"]:
        yield from products(study, job, None, None)
    yield from products(study, "sft", None, None)
    yield product(study, "store")
    for method, settings in study.methods.items():
        for run in settings.runs:
            jobs = ["train"] if is_trained(study, method) else []
            jobs += ["select", "evaluate"]
            jobs += ["continuation", "grounding"] if (method, run) in study.continued else []
            for job in jobs:
                yield product(study, job, method, run)
        yield product(study, "mirror", method)
    for job in ("collect", "tables", "figures", "paper", "report", "transcripts", "publish"):
        yield product(study, job)


def recipe(study: Study, job: str, method: str | None = None, run: str | None = None) -> str:
    """What the workflow compares: another recipe than at the last time makes a job run again.

    It is that of the results that are there, as long as they come out the same today or are
    accepted; else today's.
    """
    today = made_from(study, job, method, run)
    for one in products(study, job, method, run):
        try:
            found = one.receipt()
        except UserError:  # whoever reads the result says so
            found = None
        if not (found and found.holds_for(today, inputs=False)):
            return today.recipe
    return found.made_from.recipe
