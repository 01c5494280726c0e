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
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measure import Finding, Spread, interleaved, report
from pcqc.cases import Case, read_cases
from pcqc.config import Method, Study, load_study
from pcqc.jobs.paths import Paths
from pcqc.jobs.setup import make_scorer, make_setting, role_weights, single_threaded
from pcqc.methods.draw import DrawnGroups, draw_groups
from pcqc.training.learners import GroupLearner
from pcqc.training.policy import Policy
from pcqc.training.rl import Phases
from pcqc.training.trees import grow_trees

BASE, OURS = "terminal_only", "pcqc"
# Phase of the loop -> what PCQC does in it that a Terminal-only update does not.
PARTS = {
    "rollout": "candidates drawn",
    "patient": "candidates answered",
    "scorer": "answers scored",
    "update": "questions trained",
    "rest": "bookkeeping",
}
GROWTH = {"cases": (0.5, 1, 2), "candidates": (2, 4, 8), "turns": (2, 3, 5)}
STILL = 1e-12  # learning rate


@dataclass
class Worker:
    """Updates of one method on the same cases, again and again.

    Attributes:
        seconds: per round, phase -> seconds.
        drawn: what the last round drew.
    """

    study: Study
    method: Method
    cases: list[Case]

    def __post_init__(self):
        weights = role_weights(self.study, "actor")
        model = weights.load()
        settings = replace(self.study.rl, learning_rate=STILL)
        self.learner = GroupLearner(self.method, Policy(model, weights.load(), settings))
        self.setting = make_setting(self.study, weights, model)
        credited = self.method.question_credit != "none"
        self.scorer = make_scorer(self.study) if credited else None
        self.seconds: list[dict[str, float]] = []
        self.drawn: DrawnGroups | None = None

    def step(self) -> None:
        """One update, from empty caches, as in training."""
        phases = Phases()
        engines = [self.setting.actor.engine, self.setting.patient.engine]
        for engine in engines + ([self.scorer.engine] if self.scorer else []):
            engine.reset_cache()
        setting = replace(self.setting, timed=phases.time)
        with phases.time("rest"):
            self.drawn = draw_groups(
                setting, self.scorer, self.method, self.cases, seed=0, update=1
            )
        inside = sum(s for name, s in phases.seconds.items() if name != "rest")
        phases.seconds["rest"] -= inside
        with phases.time("update"):
            self.learner.learn(1, self.drawn)
        self.seconds.append(phases.seconds)

    def counts(self) -> dict[str, float]:
        """How much work an update was."""
        sequences = self.drawn.batch.sequences
        trees = grow_trees(sequences, self.study.rl.tokens_per_micro_batch)
        return {
            "states": len(self.drawn.groups),
            "turns": self.drawn.figures["turns"],
            "sampled_tokens": self.drawn.figures["tokens/actor_all"],
            "sequences": len(sequences),
            "sequence_tokens": sum(len(s.tokens) for s in sequences),
            "tree_tokens": sum(len(tree.tokens) for tree in trees),
        }


def measure(study: Study, cases: Sequence[Case], rounds: int) -> dict:
    """An update of PCQC beside a Terminal-only one.

    Returns:
        `times`: spread of the ratio of their seconds; `parts`: phase -> spread of what it costs
        more, as a share of a Terminal-only update; `per_state`: milliseconds more per supervised
        state; `seconds` and `counts` of either.
    """
    workers = {name: Worker(study, study.method(name), list(cases)) for name in (BASE, OURS)}
    interleaved({name: worker.step for name, worker in workers.items()}, rounds)
    base, ours = (workers[name].seconds[-rounds:] for name in (BASE, OURS))
    whole = [(sum(a.values()), sum(b.values())) for a, b in zip(base, ours, strict=True)]
    parts = {
        phase: Spread.of(
            [
                (b.get(phase, 0.0) - a.get(phase, 0.0)) / total
                for a, b, (total, _) in zip(base, ours, whole, strict=True)
            ]
        )
        for phase in PARTS
    }
    states = max(1, len(workers[OURS].drawn.groups))
    return {
        "times": Spread.of([b / a for a, b in whole]),
        "parts": parts,
        "per_state": Spread.of([1000 * (b - a) / states for a, b in whole]),
        "seconds": {name: _medians(rows) for name, rows in ((BASE, base), (OURS, ours))},
        "counts": {name: worker.counts() for name, worker in workers.items()},
    }


def _medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {phase: float(np.median([row.get(phase, 0.0) for row in rows])) for phase in PARTS}


def grown(study: Study, what: str, size: float) -> tuple[Study, int]:
    """The study with other candidates or turns, and the number of cases of an update."""
    cases = study.rl.cases_per_update
    if what == "cases":
        return study, round(size * cases)
    if what == "turns":
        return replace(study, protocol=replace(study.protocol, max_turns=size)), cases
    method = replace(study.method(OURS), question_group=size)
    return replace(study, methods={**study.methods, OURS: method}), cases


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
    cases = read_cases(Paths.of(study).train_cases)
    found = measure(study, cases[: study.rl.cases_per_update], arguments.rounds)
    findings, growth = split_findings(found), {}
    for what, sizes in GROWTH.items():
        growth[what] = {}
        for size in sizes:
            changed, count = grown(study, what, size)
            row = measure(changed, cases[:count], max(3, arguments.rounds // 2))
            label = count if what == "cases" else size
            findings.append(Finding(f"the same with {label} {what}", row["times"], "times"))
            growth[what][label] = plain(row)
    return report(findings, whole=plain(found), growth=growth)


def plain(found: dict) -> dict:
    """A measurement of `measure` as plain data."""
    return {
        **found,
        "times": vars(found["times"]),
        "per_state": vars(found["per_state"]),
        "parts": {phase: vars(spread) for phase, spread in found["parts"].items()},
    }


if __name__ == "__main__":
    sys.exit(main())
