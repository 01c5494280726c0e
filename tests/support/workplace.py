"""A copy of the repository's code with a working directory, to run, edit, break and kill."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import warm

from pcqc_base.system.checkout import ROOT

STUDY = "clinic-mini"
SETTINGS = f"config/studies/{STUDY}.yaml"
# Its methods' runs; of these two, one run is continued from its candidates.
RUNS = {
    "shared_sft": "A",
    "grpo": "AB",
    "atpo": "A",
    "pcqc": "AB",
    "terminal_only": "A",
    "executed_local": "A",
    "same_state_q1": "A",
}
CONTINUED = {"shared_sft": "A", "pcqc": "A"}
CODE = (
    "Snakefile",
    "profiles",
    "workflow",
    "src",
    "packages",
    "data_prep",
    "analysis",
    "config",
    "pyproject.toml",
)
# What a reader types, and how it is started here.
PROGRAMS = {"pcqc": "-m pcqc_study.cli", "snakemake": "-m snakemake", "python": ""}
# Of two cores each worker of a parallel test run has its share.
CORES = max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
# Where MLflow keeps absolute paths. A user's copy is mirrored anew, which takes too long here.
STORED_PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("trace_tags", "value"),
)
TIMESTAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


class Workplace:
    """Code and working directory in one folder, so that an edit meets no other test.

    Args:
        folder: a new folder.
    """

    python = staticmethod(warm.python)

    def __init__(self, folder: Path):
        self._at(folder)
        folder.mkdir(parents=True)
        ignored = shutil.ignore_patterns("*.egg-info")
        for name in CODE:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            else:
                shutil.copy(ROOT / name, folder / name)
        me = ("-c", "user.name=a", "-c", "user.email=a@b")  # archives hold runs of commits alone
        code = ("add", ".", ":!*__pycache__*")  # Python writes bytecode anew as it likes
        for arguments in (("init", "-q"), code, (*me, "commit", "-qm", "code")):
            subprocess.run(["git", "-C", str(folder), *arguments], check=True)

    def _at(self, folder: Path) -> "Workplace":
        self.folder = folder
        self.results = folder / "results" / STUDY
        return self

    @classmethod
    def existing(cls, folder: Path) -> "Workplace":
        """The workplace that stands in `folder`."""
        return cls.__new__(cls)._at(folder)

    def copied(self, folder: Path) -> "Workplace":
        """A copy, its files as old as these, with its own artifacts in its MLflow store."""
        copy = self.existing(shutil.copytree(self.folder, folder, symlinks=True))
        if (database := folder / "results" / "mlflow.db").exists():
            with closing(sqlite3.connect(database)) as store, store:
                for table, column in STORED_PATHS:
                    store.execute(
                        f"UPDATE {table} SET {column} = replace({column}, ?, ?)",
                        (str(self.folder), str(folder)),
                    )
        return copy

    def cold(self) -> "Workplace":
        """The same place, where each command is a Python of its own, as a user starts it."""
        place = self.existing(self.folder)
        place.python = lambda: sys.executable
        return place

    def command(self, *arguments: str) -> list[str]:
        """`pcqc ...` as it is typed, from this copy of the code."""
        return [self.python(), "-m", "pcqc_study.cli", *arguments]

    def workflow(self, *arguments: str, study: str = STUDY) -> list[str]:
        """What `make results` runs."""
        start = [self.python(), "-m", "snakemake"]
        return [*start, "--cores", str(CORES), *arguments, "--config", f"study={study}"]

    def environment(self, **more: str) -> dict[str, str]:
        """This copy's modules go before the installed ones; no store but its own."""
        kept = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
        folders = (
            "src",
            "packages/clinic_env/src",
            "packages/pcqc_peers/src",
            "packages/turn_credit/src",
            ".",
        )
        path = os.pathsep.join(str(self.folder / name) for name in folders)
        return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}

    def run(self, command: list[str], cwd: Path | None = None, **environment: str):
        """The finished process, its output as text, standard error apart."""
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=1800,
        )

    def typed(self, line: str):
        """The finished line of a shell, in which the programs are those of this copy.

        Whoever types `make` needs the repository's Makefile: `make -f ROOT/Makefile -o env ...`.
        """
        programs = self.folder.with_name(f"{self.folder.name}.programs")
        programs.mkdir(exist_ok=True)
        for name, start in PROGRAMS.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {self.python()} {start} "$@"\n')
            (programs / name).chmod(0o755)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        return self.run(["bash", "-c", line], PATH=path)

    def make(self, *arguments: str) -> str:
        """Run the workflow, which must succeed; its output."""
        done = self.run(self.workflow(*arguments))
        output = done.stdout + done.stderr
        assert done.returncode == 0, output[-3000:]
        return output

    def planned(self, *arguments: str) -> list[str]:
        """Messages of the jobs that a dry run would start."""
        return started(self.make("--dry-run", *arguments))

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text of a file of this copy, which must be there."""
        file = self.folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))


def started(output: str) -> list[str]:
    """Messages of the jobs of a workflow by its output, sorted; the target itself left out."""
    jobs = re.findall(r"^Job \d+: (.*)$", output, re.MULTILINE)
    return sorted(job for job in jobs if not job.startswith("results/"))


def complaint(done: subprocess.CompletedProcess) -> str:
    """The error line of a command: the only one on standard error besides timestamped progress."""
    lines = done.stderr.splitlines()
    messages = [line for line in lines if not TIMESTAMPED.match(line)]
    assert len(messages) == 1, done.stderr[-3000:]
    assert lines[-1] == messages[0]
    assert messages[0].startswith("pcqc: error: ")
    assert done.returncode == 2
    return messages[0]
