"""What is sent while a study's workflow runs: curves to MLflow, and runs to other trackers.

The workflow starts `pcqc follow`, which does this at low priority beside the jobs and may end, fail
or hang at no cost to them. It reads the files that they write: no job knows of it.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO

from pcqc_base.errors import UserError, one_line, reason
from pcqc_base.system.checkout import git_commit
from pcqc_base.system.files import read_json, write_json
from pcqc_base.system.locks import held, hold
from pcqc_base.system.manifest import lock, read_manifest
from pcqc_base.system.terminal import complain
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs
from pcqc_study.mlflow_mirror import values
from pcqc_study.mlflow_mirror.finished import FinishedRun, at_start
from pcqc_study.mlflow_mirror.open_store import masked
from pcqc_study.mlflow_mirror.write_curves import SECONDS, Live, events
from pcqc_study.study_file import Study, report_to
from pcqc_study.trackers import CLASSES, Told, Tracker

WHOLE = -1  # in the place of a number of rows: all of a run was sent


def follow(study: Study) -> None:
    """Send what a study's runs log until its workflow has ended, then what trackers still lack.

    Raises:
        UserError: at the end a tracker failed, or is not installed.
    """
    os.nice(10)
    live, reports, looked, complained = Live(study), Reports(study), 0.0, False
    jobs = Jobs(study)
    trainings = [jobs.job("train", *run) for run in jobs.runs() if jobs.is_trained(run[0])]
    workflow = study.results / ".lock"
    while held(workflow):
        time.sleep(0.5)
        if time.monotonic() - looked < SECONDS:
            continue
        try:
            live.send([job for job in trainings if held(lock(job.path))])
        except UserError as error:
            if not complained:
                complain(f"pcqc follow: {error}")
            complained = True
        for problem in reports.send():
            complain(f"pcqc follow: {problem}")
        looked = time.monotonic()
    live.end()
    if problems := [*reports.send(), *reports.close()]:
        raise UserError("; ".join(problems))


class Reports:
    """What a study's trackers have of its runs; a file for each tracker keeps it.

    A run is known by the fingerprint of its last job, which has those before it. So it is in a
    tracker once, and an edit that decides its numbers makes another.
    """

    def __init__(self, study: Study):
        self.study, self.jobs = study, Jobs(study)
        self.folder = study.results / "trackers"
        self.names = report_to(study)  # without those that have failed
        self.open: dict[tuple[str, str], Tracker] = {}  # tracker and run
        self.lock: BinaryIO | None = None  # of several that follow a study, one reports

    def send(self) -> Iterator[str]:
        """Send what trackers lack of runs that are finished or in training; yield what failed."""
        for name in list(self.names):
            try:
                what = f"reporting the runs of '{self.study.name}'"
                self.lock = self.lock or hold(self.folder / ".lock", what, patience=1.0)
                self._send(name)
            except Exception as problem:  # each library raises its own
                self.names.remove(name)
                yield f"{name}: {self._reason(problem)}"

    def close(self) -> Iterator[str]:
        """Let go of runs that have stopped: another time they go on."""
        for (name, _), tracker in self.open.items():
            if name in self.names:
                try:
                    tracker.close()
                except Exception as problem:
                    yield f"{name}: {self._reason(problem)}"

    def _reason(self, problem: Exception) -> str:
        """What went wrong, in a line without secrets, and the remedy."""
        again = f"`pcqc follow {self.study.name}` sends what it lacks"
        if isinstance(problem, ImportError):
            return f"not installed ({reason(problem)}); after `make trackers`, {again}"
        return f"{masked(one_line(reason(problem)))}; the study goes on, and later {again}"

    def _send(self, name: str) -> None:
        record = self.folder / f"{name}.json"
        sent = read_json(record) if record.exists() else {}
        for method, letter in self.jobs.runs():
            jobs = self.jobs.run(method, letter)
            whole = all(job.manifest.exists() for job in jobs)
            key = f"{method}-{letter}-{jobs[-1].path.name}"
            if sent.get(key) != WHOLE and (whole or held(lock(jobs[0].path))):
                sent[key] = self._tell(name, key, jobs, whole, sent.get(key, 0))
                write_json(record, sent)

    def _tell(self, name: str, key: str, jobs: list[Job], whole: bool, known: int) -> int:
        """Send what a tracker lacks of a run; how many rows it has then, or WHOLE."""
        rows = events(jobs[0]) if jobs[0].kind == "train" else []
        if not whole and len(rows) <= known:
            return known
        method, letter = jobs[0].arguments
        made = {job.kind: job.path for job in jobs}
        run = FinishedRun(self.study.results, method, letter, made, self.study)
        if (name, key) not in self.open:
            self.open[name, key] = CLASSES[name](self._told(name, key, jobs, run))
        tracker = self.open[name, key]
        if rows and not known and (first := dict(values.start(at_start(self.study)))):
            tracker.log(first, 0)
        for row in rows[known:]:
            tracker.log(dict(values.of_event(row)), row["update"])
        if not whole:
            return len(rows)
        scores: dict[int, dict[str, float]] = defaultdict(dict)
        for score, value, update, _ in values.results(run):
            scores[update][score] = value
        for update in sorted(scores):
            tracker.score(scores[update], update)
        self.open.pop((name, key)).close()
        return WHOLE

    def _told(self, name: str, key: str, jobs: list[Job], run: FinishedRun) -> Told:
        made = jobs[0].manifest.exists()
        settings = values.settings(self.study, run.method)
        del settings["servers"]  # their addresses stay here
        settings["run"] = {
            "study": self.study.name,
            "method": run.method,
            "run": run.run,
            "seed": self.study.seed(run.run),
            "git_commit": read_manifest(jobs[0].path)["git_commit"] if made else git_commit(),
            "fingerprint": jobs[-1].path.name,
        }
        return Told(self.study.name, key, run.title, run.method, settings, self.folder / name)
