"""What an update of PCQC costs beyond a Terminal-only one, and where.

    python -m benchmarks.pcqc_cost [--study clinic] [--rounds 7]

Both start from the study's Shared SFT actor and draw the same consultations; PCQC draws candidates
beside them, has them answered and scored, and trains on their question tokens too. What it costs
more is split into these four; then cases, candidates and turns grow, one at a time. Weights hardly
move (the learning rate is next to nothing), so that every round does the same work. Needs the
study's models: `make results`, or `pcqc clinic`, `pretrain` and `sft`. Prints JSON.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.measure import Finding, Quartiles, interleaved, report
from benchmarks.workers import Worker
from pcqc.study import Study, load_study
from pcqc.system.determinism import single_threaded

BASE, OURS = "terminal_only", "pcqc"
# Phase of the loop -> what PCQC does in it that a Terminal-only update does not.
PARTS = {
    "rollout": "candidates drawn",
    "patient": "candidates answered",
    "scorer": "answers scored",
    "update": "questions trained",
    "rest": "bookkeeping",
}
GROWTH = {"candidates": (2, 4, 8), "turns": (2, 3, 5)}
STILL = 1e-12  # learning rate


def measure(study: Study, rounds: int) -> dict:
    """An update of PCQC beside a Terminal-only one.

    Returns:
        `times`: ratio of their seconds; `parts`: phase -> its extra cost, as a share of a
        Terminal-only update; `per_state`: extra milliseconds per supervised state; `seconds` and
        `counts` of both.
    """
    still = replace(study, rl=replace(study.rl, learning_rate=STILL))
    workers = {name: Worker(still, name) for name in (BASE, OURS)}
    interleaved({name: worker.step for name, worker in workers.items()}, rounds)
    base, ours = (workers[name].seconds[-rounds:] for name in (BASE, OURS))
    whole = [(sum(a.values()), sum(b.values())) for a, b in zip(base, ours, strict=True)]
    parts = {
        phase: Quartiles.of(
            [
                (b.get(phase, 0.0) - a.get(phase, 0.0)) / total
                for a, b, (total, _) in zip(base, ours, whole, strict=True)
            ]
        )
        for phase in PARTS
    }
    states = max(1, len(workers[OURS].batch.groups))
    return {
        "times": Quartiles.of([b / a for a, b in whole]),
        "parts": parts,
        "per_state": Quartiles.of([1000 * (b - a) / states for a, b in whole]),
        "seconds": {name: _medians(rows) for name, rows in ((BASE, base), (OURS, ours))},
        "counts": {name: worker.counts() for name, worker in workers.items()},
    }


def _medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {phase: float(np.median([row.get(phase, 0.0) for row in rows])) for phase in PARTS}


def grown(study: Study, what: str, size: int) -> Study:
    """The study with so many cases in an update, or candidates, or turns."""
    if what == "cases":
        return replace(study, rl=replace(study.rl, cases_per_update=size))
    if what == "turns":
        return replace(study, protocol=replace(study.protocol, max_turns=size))
    method = replace(study.method(OURS), question_group=size)
    return replace(study, methods={**study.methods, OURS: method})


def split_findings(found: dict) -> list[Finding]:
    """The overhead, its parts, and its cost per supervised state."""
    parts = [
        Finding(f"of that, {what}", found["parts"][phase], "of a Terminal-only update")
        for phase, what in PARTS.items()
    ]
    return [
        Finding("a PCQC update beside a Terminal-only one", found["times"], "times"),
        *parts,
        Finding("more per supervised state", found["per_state"], "ms"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="clinic")
    parser.add_argument("--rounds", type=int, default=7, help="updates of each method that count")
    arguments = parser.parse_args()
    single_threaded()
    study = load_study(arguments.study)
    found = measure(study, arguments.rounds)
    findings, growth = split_findings(found), {}
    cases = study.rl.cases_per_update
    for what, sizes in {"cases": (cases // 2, cases, 2 * cases), **GROWTH}.items():
        growth[what] = {}
        for size in sizes:
            row = measure(grown(study, what, size), max(3, arguments.rounds // 2))
            findings.append(Finding(f"the same with {size} {what}", row["times"], "times"))
            growth[what][size] = plain(row)
    return report(findings, whole=plain(found), growth=growth)


def plain(found: dict) -> dict:
    """A measurement of `measure` as plain data."""
    return {
        **found,
        "times": vars(found["times"]),
        "per_state": vars(found["per_state"]),
        "parts": {phase: vars(quartiles) for phase, quartiles in found["parts"].items()},
    }


if __name__ == "__main__":
    sys.exit(main())
