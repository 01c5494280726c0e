"""What an update of PCQC costs beyond one of Terminal-only GRPO, and where.

    python -m benchmarks.pcqc_cost [--study clinic] [--rounds 7]

Both start from the study's Shared SFT actor and draw the same consultations. PCQC also draws
candidates, has them answered and scored, and trains on their question tokens: its extra cost is
split into these. Then the candidates grow. The learning rate is close to zero, so that every round
does the same work. Needs the study's models and cases: `make results`, or its rules up to
`sft` and `prepare`. Prints JSON.
"""

import argparse
import sys
from dataclasses import replace

import numpy as np

from benchmarks.measure import Finding, Quartiles, interleaved, report
from pcqc.determinism import single_threaded
from pcqc_gpu.timed_updates import Worker
from pcqc_study.study_file import Study, load_study

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


def measure(study: Study, rounds: int) -> tuple[list[Finding], dict[str, Worker]]:
    """An update of PCQC beside a Terminal-only one: their ratio, and its parts; the two workers."""
    study = replace(study, rl=replace(study.rl, learning_rate=LEARNING_RATE))
    workers = {name: Worker(study, name) for name in (BASE, OURS)}
    interleaved({name: worker.step for name, worker in workers.items()}, rounds)
    # [rounds, phases] of both; some phases are PCQC's alone.
    base, ours = (
        np.array([[s.get(phase, 0.0) for phase in PARTS] for s in worker.seconds[-rounds:]])
        for worker in workers.values()
    )
    whole = base.sum(1)
    shares = (ours - base) / whole[:, None]
    findings = [
        Finding(
            "a PCQC update beside a Terminal-only one", Quartiles.of(ours.sum(1) / whole), "times"
        )
    ]
    for part, share in zip(PARTS.values(), shares.T, strict=True):
        unit = "of a Terminal-only update"
        findings.append(Finding(f"of that, {part}", Quartiles.of(share.tolist()), unit))
    return findings, workers


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--study", default="clinic")
    parser.add_argument("--rounds", type=int, default=7, help="updates of each method that count")
    arguments = parser.parse_args()
    single_threaded()
    study = load_study(arguments.study)
    findings, _ = measure(study, arguments.rounds)
    for n in (2, 4, 8):
        methods = {**study.methods, OURS: replace(study.method(OURS), question_group=n)}
        (times, *_), _ = measure(replace(study, methods=methods), max(3, arguments.rounds // 2))
        findings.append(replace(times, what=f"the same with {n} candidates"))
    return report(findings)


if __name__ == "__main__":
    sys.exit(main())
