"""A rented GPU's first forty minutes: a study from its models to an evaluation, and its speed.

    python -m benchmarks.first_hour [--study real-smoke-gpu] [--updates 3]

Makes the study's models, measures its updates (`pcqc doctor --measure`), begins a run and kills it
once it has a state, resumes it, chooses a checkpoint and evaluates it: each step as it is typed. It
writes results/STUDY/first-hour.json and first-hour.md, also where a step fails; the steps after it
are then left out, and the exit status is 1.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tabulate import tabulate

from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json, read_jsonl, write_atomic, write_json
from pcqc_gpu.measure import usual_method, utilisations
from pcqc_gpu.planning.hours import measured_file
from pcqc_study.study_file import Study, load_study

PCQC = [sys.executable, "-m", "pcqc_study.cli"]
FIRST_STATE = 1800.0  # seconds until a run has one; a GPU compiles for minutes
ROLES = ("actor", "patient", "scorer", "update")  # whose rates are shown


class Hour:
    """The steps so far, and what they have shown.

    Args:
        study: settings.
        name: how it was named.
        updates: that are measured.
    """

    def __init__(self, study: Study, name: str, updates: int):
        self.study, self.name, self.updates = study, name, updates
        self.record: dict[str, Any] = {"study": name, "steps": []}

    def steps(self) -> list[tuple[str, Callable[[], str]]]:
        """What is done, in order; each returns what came of it."""
        return [
            ("cases and models", self.make_models),
            ("pcqc doctor --measure", self.measure),
            ("a run, killed at its first state", self.kill),
            ("the run, resumed", self.resume),
            ("its checkpoint chosen and evaluated", self.evaluate),
        ]

    def run(self) -> bool:
        """Do every step until one fails; whether all held."""
        for title, work in self.steps():
            print(f"{title} ...", file=sys.stderr, flush=True)
            start = time.perf_counter()
            try:
                outcome, held = work(), True
            except UserError as problem:
                outcome, held = str(problem), False
            step = {"step": title, "held": held, "outcome": outcome}
            self.record["steps"].append({**step, "seconds": time.perf_counter() - start})
            path = self.study.results / "first-hour.json"
            write_json(path, self.record)
            write_atomic(path.with_suffix(".md"), page(self.record))
            if not held:
                return False
        return True

    def make_models(self) -> str:
        """The workflow up to SFT, and every set of cases; what is there stays."""
        command = [sys.executable, "-m", "snakemake", "--cores", "all", "--config"]
        command += [f"study={self.name}", "--omit-from", "train", "select", "evaluate"]
        finished([*command, "--", "all"])
        return "made"

    def measure(self) -> str:
        """The seconds that a plan reads."""
        finished([*PCQC, "doctor", self.name, "--measure", str(self.updates)])
        self.record["measured"] = record = read_json(
            measured_file(self.study, usual_method(self.study))
        )
        self.record["utilisation"] = utilisations(record)
        return f"measured updates of {record['method']}: {self.updates}"

    @property
    def job(self) -> tuple[str, str]:
        """The method and the letter of the run."""
        return self.record["measured"]["method"], next(iter(self.study.runs))

    def kill(self) -> str:
        """SIGKILL for the processes of a run as soon as a state is there."""
        runs = self.study.results.joinpath("runs", *self.job)
        process = subprocess.Popen(
            [*PCQC, "train", self.name, *self.job],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + FIRST_STATE
        try:
            while not (states := sorted(runs.glob("*/state/training/step-*"))):
                if process.poll() is not None:
                    raise UserError(
                        f"the run ended before it had a state; `pcqc train {self.name} "
                        f"{' '.join(self.job)}` says why, and one that is done is moved away first"
                    )
                if time.monotonic() > deadline:
                    raise UserError(f"no state after {FIRST_STATE:.0f} seconds")
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return f"killed; {states[-1].name} is there"

    def resume(self) -> str:
        """The rest of the run: every update once, and the gap between engine and learner."""
        finished([*PCQC, "train", self.name, *self.job])
        events = self.study.results.joinpath("runs", *self.job, "latest", "events.jsonl")
        rows = [row for _, row in read_jsonl(events) if row["kind"] == "update"]
        updates = [row["update"] for row in rows]
        if updates != list(range(1, len(rows) + 1)):
            raise UserError(f"{events}: updates {updates}, not each once")
        names = ("update", "gap/mean", "gap/max", "sync/gap")
        self.record["gaps"] = [{n: row[n] for n in names if n in row} for row in rows]
        return f"updates {', '.join(map(str, updates))}, each once"

    def evaluate(self) -> str:
        """Accuracy of the chosen checkpoint on every benchmark."""
        for kind in ("select", "evaluate"):
            finished([*PCQC, kind, self.name, *self.job])
        path = self.study.results.joinpath("evaluation", *self.job, "latest", "manifest.json")
        shown = read_json(path)["benchmarks"]
        self.record["accuracy"] = {name: result["accuracy"] for name, result in shown.items()}
        return f"{len(shown)} benchmarks"


def finished(command: Sequence[str]) -> None:
    """Run a command; UserError with its last line where it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise UserError(f"exit status {done.returncode}: {lines[-1]}")


def page(record: dict[str, Any]) -> str:
    """The record in Markdown."""
    steps = [
        {
            "step": step["step"],
            "seconds": f"{step['seconds']:.0f}",
            "holds": "yes" if step["held"] else "no",
            "what came of it": step["outcome"].replace("|", "/"),
        }
        for step in record["steps"]
    ]
    parts = [f"# First hour of {record['study']}", _table(steps)]
    if measured := record.get("measured"):
        parts += _measured(measured, record["utilisation"])
    if gaps := record.get("gaps"):
        parts += ["## Gap of engine and learner, in nats a token", _table(gaps)]
    if accuracy := record.get("accuracy"):
        rows = [{"benchmark": n, "accuracy (%)": 100 * a} for n, a in accuracy.items()]
        parts += ["## Chosen checkpoint", _table(rows)]
    return "\n\n".join(parts) + "\n"


def _measured(measured: dict[str, Any], shares: dict[str, float]) -> list[str]:
    where = f"{measured['device']}, {measured['engine']}, {measured['dtype']}"
    middle = measured["measured"]
    phases = [
        {
            "phase": phase,
            "seconds": middle[f"seconds/{phase}"],
            "model FLOP utilisation (%)": 100 * share,
        }
        for phase, share in shares.items()
    ]
    phases += [
        {"phase": phase, "seconds": middle[f"seconds/{phase}"]}
        for phase in ("sync", "rest", "whole", "start", "checkpoint", "state")
    ]
    rates = [{"role": n, "tokens a second": middle[f"rate/{n}"]} for n in ROLES]
    return [
        f"## Updates of {measured['method']}: {where}",
        f"Medians over updates, {measured['updates']} after a first one; processes: "
        f"{measured['processes']}; peak {measured['peak_gib']:.1f} GiB. Utilisation is a share of "
        f"{measured['product_tflops']:.3g} TFLOP/s, a large product's speed in each process.",
        _table(phases),
        _table(rates),
    ]


def _table(rows: Sequence[dict[str, Any]]) -> str:
    return tabulate(rows, headers="keys", tablefmt="github", floatfmt=".4g")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="first_hour", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--study", default="real-smoke-gpu", help="name of a study, or a path")
    parser.add_argument("--updates", type=int, default=3, help="that are measured")
    parsed = parser.parse_args(arguments)
    try:
        hour = Hour(load_study(parsed.study), parsed.study, parsed.updates)
    except UserError as problem:
        parser.error(str(problem))
    held = hour.run()
    print(page(hour.record))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
