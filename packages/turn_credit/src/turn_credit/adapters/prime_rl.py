"""PCQC in prime-rl: an algorithm that credits the nodes of a group's traces.

A trace of verifiers is a graph of messages, so a candidate question that was not asked is one more
sampled node beside the one that was, at the same parent. The environment says of each question
where it is and what the frozen scorer made of its answer:

    trace.info["questions"] = [{"node": 3, "start": 12, "state": 2, "utility": 0.4, "asked": True}]

`start` counts the node's sampled tokens; questions of one `state` are compared, the asked one
first. Add a `PCQCAlgoConfig` to `prime_rl.configs.algorithm` and `"pcqc": PCQC` to
`ALGORITHM_CLASSES`, as its docs/algorithms.md tells.

Read in PrimeIntellect-ai/prime-rl 559b447 (`orchestrator/algo/`, `trainer/rl/loss.py`) and
PrimeIntellect-ai/verifiers a60a606 (`v1/graph.py`, `v1/trace.py`). `make example-prime-rl` runs
this file in both; where they are not there, the test has traces with the recorded names and shapes.
"""

from collections.abc import Sequence

from prime_rl.orchestrator.algo.base import Algorithm, iter_trainable_traces
from prime_rl.orchestrator.algo.routing import assign_advantages

from turn_credit import Group, Term, terminal_advantages, token_advantages
from turn_credit import pcqc as question_credits


class PCQC(Algorithm):
    """A_T on all sampled tokens of the consultations, A_Q on the questions of all candidates.

    Each term is a mean over its own tokens of the group; the trainer divides by those of the batch.
    """

    question_weight = 1.0  # beta

    async def score_group(self, episodes) -> None:
        """Write the credits of a group's episodes into their traces."""
        credit([trace for _, trace in iter_trainable_traces(episodes)], self.question_weight)


def credit(traces: Sequence, question_weight: float = 1.0) -> None:
    """Assign the advantages of all sampled tokens of one example's traces."""
    # A row for every node with sampled tokens, in the order of `assign_advantages`.
    places = [
        (i, n) for i, trace in enumerate(traces) for n, x in enumerate(trace.nodes) if any(x.mask)
    ]
    rows = {place: row for row, place in enumerate(places)}
    sizes = [sum(traces[i].nodes[n].mask) for i, n in places]
    questions = [(i, q) for i, trace in enumerate(traces) for q in trace.info.get("questions", ())]
    others = {(i, q["node"]) for i, q in questions if not q["asked"]}
    outcomes = terminal_advantages([trace.reward for trace in traces])
    played = [(row, outcomes[place[0]]) for place, row in rows.items() if place not in others]
    terms = [Term([(row, 0, sizes[row]) for row, _ in played], [a for _, a in played])]
    states: dict[tuple, list[tuple[int, dict]]] = {}
    for i, question in questions:
        states.setdefault((i, question["state"]), []).append((i, question))
    of_states = question_credits(
        Group(utilities=[[q["utility"] for _, q in s] for s in states.values()])
    )
    spans, credits = [], []
    for state, of_state in zip(states.values(), of_states, strict=True):
        for (i, question), value in zip(state, of_state, strict=True):
            row = rows[i, question["node"]]
            if question["start"] is not None:  # it asks something
                spans.append((row, question["start"], sizes[row]))
                credits.append(value)
    if spans:
        terms.append(Term(spans, credits, question_weight))
    advantages = token_advantages((len(rows), max(sizes)), terms, sum(sizes))
    for i, trace in enumerate(traces):
        of_trace = [row for (j, _), row in rows.items() if j == i]
        assign_advantages(
            trace, [a for row in of_trace for a in advantages[row, : sizes[row]].tolist()]
        )
