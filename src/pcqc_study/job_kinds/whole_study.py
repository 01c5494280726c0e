"""Jobs on the results of a whole study: MLflow, tables, report."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.job_kinds.register import Given, Settings, kind

if TYPE_CHECKING:
    from pcqc_study.graph import Jobs
    from pcqc_study.study_file import Study

LOST_POINTS = "lost points"  # what the report's job calls their table
ANSWER = "answer.json"  # of the report's job: what `pcqc answer` prints
TEMPLATES = (".html", ".css", ".js")


@kind(
    "write the table and the figure of lost points",
    "lost_points_table",
    "analysis.lost_points",
    synthetic=True,
    whole_study=True,
)
def lost_points_table(jobs: "Jobs") -> Given:
    """The table of lost points; it shows replicates too where theirs is made."""
    from pcqc_study.study_file.replicates import replicates

    inputs = {" ".join(job.arguments): job for job in jobs.lost_points()}
    for other in replicates(jobs.study):
        job = type(jobs)(other).job("lost_points_table")
        if job.manifest.exists():
            inputs[f"replicate {other.name}"] = job
    return _all_of(jobs.study), inputs


@kind(
    "mirror {method} in MLflow",
    "tracking",
    "pcqc_study.mlflow_mirror.write_runs",
    "method",
    whole_study=True,
    in_store=True,
    large="mlflow",
)
def mirror(jobs: "Jobs", method: str) -> Given:
    study, entry = jobs.study, jobs.study.method(method)
    if not entry.runs:
        raise UserError(
            f"{method} has no runs in study '{study.name}'; name a method that has some"
        )
    settings = _store(study, entry.title)
    inputs = {f"{job.kind} {run}": job for run in entry.runs for job in jobs.run(method, run)}
    return settings, inputs


@kind(
    "collect all runs from MLflow",
    "collected",
    "pcqc_study.mlflow_mirror.collect",
    whole_study=True,
    in_store=True,
    large="mlflow",
)
def collect(jobs: "Jobs") -> Given:
    return Settings(), {name: jobs.job("mirror", name) for name in jobs.methods}


@kind(
    "write tables, figures, transcripts and report", "report", "analysis.report", whole_study=True
)
def report(jobs: "Jobs") -> Given:
    """Tables, figures, report, transcripts and paper, in one folder."""
    from pcqc_study.study_file.replicates import replicates

    study = jobs.study
    inputs: dict[str, Any] = {"collected": jobs.job("collect")}
    for other in replicates(study):
        inputs[f"collected {other.name}"] = type(jobs)(other).job("collect")
    # Ablations and peers have tables once they are evaluated; a report waits for those alone that
    # the workflow is making.
    for method, run in jobs.runs():
        job = jobs.job("evaluate", method, run)
        made = job.manifest.exists() or method in jobs.wanted
        if study.method(method).on_demand and made:
            inputs[f"evaluate {method} {run}"] = job
    inputs |= {f"convert {name}": jobs.job("convert", name) for name in study.raw_files}
    inputs["overlap"] = jobs.job("overlap")
    if study.synthetic and (lost := jobs.job("lost_points_table")).manifest.exists():
        inputs[LOST_POINTS] = lost
    templates = [p for p in (ROOT / "analysis").rglob("*") if p.suffix in TEMPLATES]
    inputs |= {f"template {p.name}": p for p in sorted(templates)}
    return _all_of(study), inputs


@kind(
    "write the table of other credit rules",
    "peers",
    "analysis.tables.peers",
    rule="peers_table",
    whole_study=True,
)
def peers(jobs: "Jobs") -> Given:
    """The table of published credits: it shows what is made, or what the workflow is making."""
    from pcqc_study.study_file import START

    inputs: dict[str, Any] = {}
    for method, run in jobs.runs():
        job = jobs.job("evaluate", method, run)
        coming = "peers" in jobs.wanted or job.manifest.exists()
        if method in (START, *jobs.compared) and coming:
            inputs[f"evaluate {method} {run}"] = job
    return _all_of(jobs.study), inputs


@kind(
    "publish the report in MLflow",
    "published",
    "pcqc_study.mlflow_mirror.write_report",
    whole_study=True,
    in_store=True,
    large="mlflow",
)
def publish(jobs: "Jobs") -> Given:
    study = jobs.study
    return _store(study, study.title), {"report": jobs.job("report")}


def _all_of(study: "Study") -> Settings:
    """All settings of a study, but who is told of its runs: that changes no table."""
    settings = study.to_dict()
    del settings["tracking"]["report_to"]
    return Settings(study=settings)


def _store(study: "Study", title: str) -> Settings:
    """What is written to MLflow under a title, and where, without user, password or query."""
    from pcqc_study.study_file import tracking_uri

    address = urlsplit(tracking_uri(study))
    host = f"{address.hostname}:{address.port}" if address.hostname else ""
    return Settings(title=title, uri=f"{address.scheme}://{host}{address.path}")
