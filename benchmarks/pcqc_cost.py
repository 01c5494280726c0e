"""What an update of PCQC costs beyond one of Terminal-only GRPO, and where.

    python -m benchmarks.pcqc_cost [--study clinic] [--rounds 7]

Both start from the study's Shared SFT actor and draw the same consultations. PCQC also draws
candidates, has them answered and scored, and trains on their question tokens: its extra cost is
split into these. Then cases, candidates and turns grow, one at a time. The learning rate is close
to zero, so that every round does the same work. Needs the study's models: `make results`, or
`pcqc clinic`, `pretrain` and `sft`. Prints JSON.
"""

import argparse
import sys
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
LEARNING_RATE = 1e-12


def measure(study: Study, rounds: int) -> dict:
    """An update of PCQC beside a Terminal-only one.

    Returns:
        `times`: ratio of their seconds; `parts`: phase -> its extra cost, as a share of a
        Terminal-only update; `per_state`: extra milliseconds per supervised state; `seconds` by
        phase and `counts` of both.
    """
    study = replace(study, rl=replace(study.rl, learning_rate=LEARNING_RATE))
    workers = {name: Worker(study, name) for name in (BASE, OURS)}
    interleaved({name: worker.step for name, worker in workers.items()}, rounds)
    # [rounds, phases] of both; some phases are PCQC's alone.
    base, ours = (
        np.array([[s.get(phase, 0.0) for phase in PARTS] for s in workers[name].seconds[-rounds:]])
        for name in (BASE, OURS)
    )
    whole, extra = base.sum(1), (ours - base).sum(1)
    states = max(1, len(workers[OURS].batch.groups))
    shares = (ours - base) / whole[:, None]
    medians = {BASE: np.median(base, 0), OURS: np.median(ours, 0)}
    return {
        "times": Quartiles.of(1 + extra / whole),
        "parts": {phase: Quartiles.of(shares[:, i]) for i, phase in enumerate(PARTS)},
        "per_state": Quartiles.of(1000 * extra / states),
        "seconds": {n: dict(zip(PARTS, row.tolist(), strict=True)) for n, row in medians.items()},
        "counts": {name: worker.counts() for name, worker in workers.items()},
    }


def findings_of(found: dict) -> list[Finding]:
    """The ratio, the parts of the extra cost, and its cost per supervised state."""
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
    cases, method = study.rl.cases_per_update, study.method(OURS)
    grown = {
        f"{n} cases": replace(study, rl=replace(study.rl, cases_per_update=n))
        for n in (cases // 2, cases, 2 * cases)
    }
    for n in (2, 4, 8):
        methods = {**study.methods, OURS: replace(method, question_group=n)}
        grown[f"{n} candidates"] = replace(study, methods=methods)
    for n in (2, 3, 5):
        grown[f"{n} turns"] = replace(study, protocol=replace(study.protocol, max_turns=n))
    whole = measure(study, arguments.rounds)
    rounds = max(3, arguments.rounds // 2)
    growth = {what: measure(other, rounds) for what, other in grown.items()}
    rows = [Finding(f"the same with {what}", g["times"], "times") for what, g in growth.items()]
    return report([*findings_of(whole), *rows], whole=whole, growth=growth)


if __name__ == "__main__":
    sys.exit(main())
