"""All relations that the paper's tables and sentences imply."""

from collections.abc import Iterator

from analysis.consistency import accuracy, other
from analysis.consistency.checks import Check
from analysis.published import Published

RELATIONS = (
    accuracy.averages,
    accuracy.runs_behind_means,
    accuracy.whole_turns,
    accuracy.pcqc_runs,
    accuracy.question_supervision,
    accuracy.same_state_q1,
    accuracy.paired,
    accuracy.fixed_checkpoints,
    other.generation_length,
    other.training_cost,
    other.continuation,
    other.prose,
    other.training,
)


def every(paper: Published) -> Iterator[Check]:
    """All checks, in the order of the tables."""
    for relation in RELATIONS:
        yield from relation(paper)
