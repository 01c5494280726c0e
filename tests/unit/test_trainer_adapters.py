"""Adapters for prime-rl and rLLM: recorded consultations get credit on the same tokens.

`make example-prime-rl` and `example-rllm` run a trainer's test where it is installed, on its own
structures.
"""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from trainers import BETA, LAYOUTS, OWN, expected, laid_out, load, responses, same, structure


@pytest.fixture(params=LAYOUTS)
def cases(request):
    return laid_out(request.param)


@pytest.fixture
def adapter(monkeypatch):
    return functools.partial(load, monkeypatch)


def test_prime_rl(adapter, cases):
    def assign_advantages(trace, values):
        nodes = [node for node in trace.nodes if any(node.mask)]
        ends = np.cumsum([sum(node.mask) for node in nodes])
        assert len(values) == ends[-1]
        for node, own in zip(nodes, np.split(np.array(values), ends[:-1]), strict=True):
            node.advantages = own.tolist()

    class Algorithm:
        def __init__(self, config, policy_pool):
            self.policy_pool = policy_pool

    trainable = lambda episodes: ((e, t) for e in episodes for t in e.traces)  # noqa: E731
    module = adapter(
        "prime_rl",
        prime_rl__orchestrator__algo__base={
            "Algorithm": Algorithm,
            "iter_trainable_traces": trainable,
        },
        prime_rl__orchestrator__algo__routing={"assign_advantages": assign_advantages},
    )
    algorithm = module.PCQC(None, None)
    algorithm.question_weight = BETA
    node = lambda **values: structure("PrimeIntellect-ai/verifiers", "MessageNode", **values)  # noqa: E731
    for i, case in enumerate(cases):
        traces, places = [], {}
        for c, consultation in enumerate(case["consultations"]):
            nodes, told, parent = [], [], None
            for t, turn in enumerate(consultation["turns"]):
                length = len(turn["context"])
                nodes.append(node(token_ids=turn["context"], mask=[False] * length, parent=parent))
                state = parent = len(nodes) - 1
                for k, response in enumerate(turn["responses"]):
                    own = response["tokens"]
                    # The generation prompt is on the response's node, and is not sampled.
                    nodes.append(
                        node(token_ids=[0, *own], mask=[False] + [True] * len(own), parent=state)
                    )
                    places[c, len(nodes) - 1] = (i, c, t, k)
                    parent = len(nodes) - 1 if k == 0 else parent
                    if response["utility"] is not None:
                        told.append({"node": len(nodes) - 1, "state": t, "asked": k == 0})
                        told[-1] |= {"start": response["question_start"]}
                        told[-1] |= {"utility": response["utility"]}
            if "tail" in consultation:
                answer = consultation["tail"]
                nodes.append(node(token_ids=answer, mask=[False] * len(answer), parent=parent))
            trace = structure(
                "PrimeIntellect-ai/verifiers",
                "Trace",
                nodes=nodes,
                info={"questions": told},
                rewards={"right": SimpleNamespace(value=consultation["reward"])},
                agent=SimpleNamespace(trainable=True),
                ok=True,
            )
            if not OWN:  # there it is the sum of the rewards
                trace.reward = consultation["reward"]
            traces.append(trace)
        coroutine = algorithm.score_group([SimpleNamespace(traces=traces)])
        with pytest.raises(StopIteration):
            coroutine.send(None)
        laid = {p: traces[c].nodes[n].advantages for (c, n), p in places.items()}
        # prime-rl divides by all sampled tokens, those of the candidates' thoughts among them.
        sampled = sum(len(r["tokens"]) for *_, r in responses(case))
        wanted = expected([case], sampled)
        same(laid, {(i, *place[1:]): values for place, values in wanted.items()})


def test_rllm(adapter, cases):
    module = adapter("rllm")
    made = lambda kind, **values: structure("rllm-org/rllm", kind, **values)  # noqa: E731
    for case in cases:
        trajectories, places = [], {}
        for c, consultation in enumerate(case["consultations"]):
            steps = []
            for t, turn in enumerate(consultation["turns"]):
                for k, response in enumerate(turn["responses"]):
                    told = None
                    if response["utility"] is not None:
                        told = {"state": (c, t), "question_start": response["question_start"]}
                        told["utility"] = response["utility"]
                    step = made("Step", response_ids=response["tokens"], metadata=told)
                    places[0, c, t, k] = step
                    if k:
                        candidate = made("Trajectory", name="candidate", steps=[step])
                        trajectories.append(candidate)
                    else:
                        steps.append(step)
            doctor = made("Trajectory", name="doctor", steps=steps, reward=consultation["reward"])
            # Before its candidates: the asked question is the first of its state.
            trajectories.insert(0, doctor)
        episode = made("Episode", id=f"{case['case_id']}:0", trajectories=trajectories)
        module.credit([episode], BETA)
        if OWN:
            taken_by_rllm(episode)
        sampled = sum(len(r["tokens"]) for *_, r in responses(case))
        same({place: s.advantage for place, s in places.items()}, expected([case], sampled))
        assert all(isinstance(step.advantage, list) for step in places.values())


def taken_by_rllm(episode) -> None:
    """rLLM's own trainer takes the advantages as they are, or fails."""
    from rllm.trainer.algorithms import advantage, config, transform

    groups, _ = transform.transform_episodes_to_trajectory_groups(
        [episode], config.TransformConfig()
    )
    steps = [step for t in episode.trajectories for step in t.steps]
    before = [list(step.advantage) for step in steps]
    settings = config.AlgorithmConfig(use_precomputed_advantage=True)
    told = advantage.collect_reward_and_advantage_from_trajectory_groups(groups, settings)
    assert [step.advantage for step in steps] == before
    doctors = [value for row in before[: len(episode.trajectories[0].steps)] for value in row]
    assert told["advantage/doctor/max"] >= max(doctors)
