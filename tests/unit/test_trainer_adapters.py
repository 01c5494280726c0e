"""Adapters for verl, prime-rl and rLLM: recorded consultations get credit on the same tokens.

The trainers are not installed here. Their structures are those of `trainers.json`: names of fields
and arguments as in the commit that it cites, so that an adapter which asks for another one fails.
`make example-verl`, `example-prime-rl` and `example-rllm` run a trainer's test where it is
installed, on its own structures.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from turn_credit import Term, pcqc, token_advantages
from turn_credit.group import Group

BETA = 0.5
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "trainers"
OWN = "OWN_ENVIRONMENT" in os.environ  # the trainer is there: nothing stands in for it
TRAINERS = json.loads((FIXTURES / "trainers.json").read_text())
# Two cases of the published clinic doctor, two consultations each with two candidates at a state,
# as PCQC's `collect_rollouts` gave them on 2026-11-25.
CASES = json.loads((FIXTURES / "consultations.json").read_text())["cases"]


def structure(trainer: str, kind: str, **values):
    """An object with the recorded fields of a class and no other; of the class where that is."""
    fields = TRAINERS[trainer]["classes"][kind]
    assert values.keys() <= set(fields)
    if OWN:
        own = getattr(importlib.import_module(TRAINERS[trainer]["module"]), kind)
        return own.model_construct(**values)
    return SimpleNamespace(**dict.fromkeys(fields) | values)


def responses(case):
    """(consultation, turn, candidate, response) of all that was sampled."""
    for c, consultation in enumerate(case["consultations"]):
        for t, turn in enumerate(consultation["turns"]):
            for k, response in enumerate(turn["responses"]):
                yield c, t, k, response


@pytest.fixture
def adapter(monkeypatch):
    """An adapter's module by its name, with stand-ins for what it imports of the trainer."""
    loaded = []

    def load(name: str, **modules: dict):
        for path, names in () if OWN else modules.items():
            parts = path.split("__")
            for end in range(1, len(parts)):
                monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[0]))
            module = ModuleType(".".join(parts))
            vars(module).update(names)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.syspath_prepend(str(ROOT / "examples" / name.removeprefix("pcqc_")))
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def expected(cases, tokens: int | None = None) -> dict[tuple, np.ndarray]:
    """(case, consultation, turn, candidate) -> advantages of its tokens, from the recorded terms.

    The terms are those that the method's own `collect_rollouts` gave.
    """
    places = [(i, *place[:3]) for i, case in enumerate(cases) for place in responses(case)]
    sampled = {(i, *p[:3]): p[3] for i, case in enumerate(cases) for p in responses(case)}
    terms = [
        Term(*zip(*rows, strict=True), weight)
        for name, weight in (("terminal", 1.0), ("question", BETA))
        if (
            rows := [
                ((row, start, len(sampled[place]["tokens"])), sampled[place][name])
                for row, place in enumerate(places)
                if sampled[place][name] is not None
                for start in [sampled[place]["question_start"] if name == "question" else 0]
            ]
        )
    ]
    shape = (len(places), max(len(response["tokens"]) for response in sampled.values()))
    advantages = token_advantages(shape, terms, tokens)
    return {p: advantages[i, : len(sampled[p]["tokens"])] for i, p in enumerate(places)}


def same(laid: dict, wanted: dict, tolerance: float = 1e-6) -> None:
    assert laid.keys() == wanted.keys()
    for place, values in wanted.items():
        assert np.shape(laid[place]) == values.shape
        np.testing.assert_array_equal(np.array(laid[place]) != 0, values != 0)
        np.testing.assert_allclose(laid[place], values, tolerance)


def credits_of(turn) -> np.ndarray:
    return pcqc(Group(utilities=[[r["utility"] for r in turn["responses"]]]))[0]


@pytest.mark.numerical
def test_verl(adapter):
    torch, pydantic = pytest.importorskip("torch"), pytest.importorskip("pydantic")
    recorded = TRAINERS["verl-project/verl"]
    fields = dict.fromkeys(recorded["classes"]["AgentLoopOutput"], (object, None))

    class AgentLoopOutput(pydantic.create_model("Fields", **fields)):
        def as_dict(self):
            output = self.model_dump(exclude_unset=True)
            output["responses"] = torch.tensor(output.pop("response_ids"))
            output["response_mask"] = torch.tensor(output.pop("response_mask"))
            output["rm_scores"] = torch.zeros(len(output["responses"]))
            return output

    registered = {}

    def register_adv_est(name):
        return lambda function: registered.setdefault(name, function)

    module = adapter(
        "pcqc_verl",
        verl__experimental__agent_loop__agent_loop={
            "AgentLoopOutput": AgentLoopOutput,
            "AgentLoopMetrics": dict,
        },
        verl__trainer__ppo__core_algos={"register_adv_est": register_adv_est},
    )
    rows, prompts, places = [], [], []  # places: of each row, (first token, place, its tokens)
    for i, case in enumerate(CASES):
        for c, consultation in enumerate(case["consultations"]):
            tokens, mask, questions, where = [], [], {}, []
            for t, turn in enumerate(consultation["turns"]):
                tokens, mask = tokens + turn["context"], mask + [0] * len(turn["context"])
                credits = credits_of(turn) if turn["responses"][0]["utility"] is not None else []
                for k, response in enumerate(turn["responses"]):
                    own, begins = response["tokens"], response["question_start"]
                    if k and begins is not None:
                        asked = {(begins, len(own)): credits[k]}
                        rows.append(module.row_of(tokens, own, [1] * len(own), asked, None))
                        prompts.append(case["case_id"])
                        places.append([(0, (i, c, t, k), len(own))])
                first = turn["responses"][0]
                where.append((len(tokens), (i, c, t, 0), len(first["tokens"])))
                if len(credits) and first["question_start"] is not None:
                    begins = len(tokens) + first["question_start"]
                    questions[begins, len(tokens) + len(first["tokens"])] = credits[0]
                tokens, mask = tokens + first["tokens"], mask + [1] * len(first["tokens"])
            rows.append(module.row_of([0], tokens, mask, questions, consultation["reward"]))
            prompts.append(case["case_id"])
            places.append(where)
    padded = {
        name: torch.nn.utils.rnn.pad_sequence([row.as_dict()[name] for row in rows], True)
        for name in ("rm_scores", "response_mask")
    }
    given = {
        "token_level_rewards": padded["rm_scores"],
        "response_mask": padded["response_mask"],
        "index": np.array(prompts, object),
        "config": {"question_weight": BETA},
    }
    assert set(given) == set(recorded["estimator"])
    if OWN:
        advantages = advantages_of_verl(padded, given)
    else:
        advantages, _ = registered["pcqc"](**given)
    assert not advantages[padded["response_mask"] == 0].any()
    # Candidates without a question are no rows.
    laid = {p: np.zeros(v.shape) for p, v in expected(CASES).items()}
    for row, where in zip(advantages.numpy(), places, strict=True):
        laid |= {place: row[start : start + length] for start, place, length in where}
    same(laid, expected(CASES))


def advantages_of_verl(padded: dict, given: dict):
    """As verl's own trainer has them from the registry, of its own batch."""
    from verl.protocol import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data = DataProto.from_dict(
        {"token_level_rewards": padded["rm_scores"], "response_mask": padded["response_mask"]},
        {"uid": given["index"]},
    )
    return compute_advantage(data, "pcqc", config=given["config"]).batch["advantages"]


def test_prime_rl(adapter):
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
        "pcqc_prime_rl",
        prime_rl__orchestrator__algo__base={
            "Algorithm": Algorithm,
            "iter_trainable_traces": trainable,
        },
        prime_rl__orchestrator__algo__routing={"assign_advantages": assign_advantages},
    )
    algorithm = module.PCQC(None, None)
    algorithm.question_weight = BETA
    node = lambda **values: structure("PrimeIntellect-ai/verifiers", "MessageNode", **values)  # noqa: E731
    for i, case in enumerate(CASES):
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


def test_rllm(adapter):
    module = adapter("pcqc_rllm")
    made = lambda kind, **values: structure("rllm-org/rllm", kind, **values)  # noqa: E731
    for case in CASES:
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
