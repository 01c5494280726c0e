"""Adapters for verl, prime-rl and rLLM: recorded consultations get credit on the same tokens.

The trainers are not installed here. Their structures are those of `trainers.json`: names of fields
and arguments as in the commit that it cites, so that an adapter which asks for another one fails.
`make example-verl`, `example-prime-rl` and `example-rllm` run a trainer's test where it is
installed, on its own structures.
"""

import copy
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


def no_candidates(case):
    for turn in turns_of(case):
        del turn["responses"][1:]
        turn["responses"][0] |= {"utility": None, "question": None}


def asks_at_once(case):
    """Questions stand at the first token of their response, and of the whole consultation."""
    for turn in turns_of(case):
        for response in turn["responses"]:
            if response["question_start"] is not None:
                response["tokens"] = response["tokens"][response["question_start"] :]
                response["question_start"] = 0


def cut_after_an_answer(case):
    """The last turn is not played: consultations end in a patient's answer."""
    for consultation in case["consultations"]:
        consultation["tail"] = consultation["turns"].pop()["context"]


def cut_within_a_turn(case):
    """A question is the last that is sampled, cut off after its first token."""
    for consultation in case["consultations"]:
        consultation["turns"].pop()
        for response in consultation["turns"][-1]["responses"]:
            stop = (response["question_start"] or len(response["tokens"]) - 2) + 1
            response["tokens"] = response["tokens"][:stop]


def turns_of(case):
    return [turn for consultation in case["consultations"] for turn in consultation["turns"]]


LAYOUTS = {
    "recorded": (None, None),
    "no candidates": (no_candidates, no_candidates),
    "candidates of one case": (None, no_candidates),
    "asks at once": (asks_at_once, asks_at_once),
    "cut after an answer": (cut_after_an_answer, cut_after_an_answer),
    "cut within a turn": (cut_within_a_turn, cut_within_a_turn),
}


@pytest.fixture(params=LAYOUTS)
def cases(request):
    """The cases, changed as a layout says."""
    made = copy.deepcopy(CASES)
    for case, change in zip(made, LAYOUTS[request.param], strict=True):
        if change:
            change(case)
    return made


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
        module = f"turn_credit.adapters.{name}"
        if not OWN:  # it is imported with the stand-ins, and forgotten with them
            sys.modules.pop(module, None)
            loaded.append(module)
        return importlib.import_module(module)

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


@pytest.fixture
def verl(adapter):
    """The adapter for verl, and what it registers."""
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

    return adapter(
        "verl",
        verl__experimental__agent_loop__agent_loop={
            "AgentLoopOutput": AgentLoopOutput,
            "AgentLoopMetrics": dict,
        },
        verl__trainer__ppo__core_algos={"register_adv_est": register_adv_est},
    )


def rows_of_verl(module, cases):
    """Rows, prompt of each, and (first token, place, tokens) of all that is sampled in it."""
    rows, prompts, places = [], [], []
    for i, case in enumerate(cases):
        for c, consultation in enumerate(case["consultations"]):
            prompt = consultation["turns"][0]["context"]
            tokens, mask, questions, where = [], [], {}, []
            for t, turn in enumerate(consultation["turns"]):
                if t:
                    tokens, mask = tokens + turn["context"], mask + [0] * len(turn["context"])
                credits = credits_of(turn) if turn["responses"][0]["utility"] is not None else []
                for k, response in enumerate(turn["responses"]):
                    own, begins = response["tokens"], response["question_start"]
                    if k and begins is not None:
                        asked = {(begins, len(own)): credits[k]}
                        given = prompt + tokens, own, [1] * len(own), asked
                        rows.append(module.row_of(*given, None))
                        prompts.append(case["case_id"])
                        places.append([(module.HEAD, (i, c, t, k), len(own))])
                first = turn["responses"][0]
                where.append((module.HEAD + len(tokens), (i, c, t, 0), len(first["tokens"])))
                if len(credits) and first["question_start"] is not None:
                    begins = len(tokens) + first["question_start"]
                    questions[begins, len(tokens) + len(first["tokens"])] = credits[0]
                tokens, mask = tokens + first["tokens"], mask + [1] * len(first["tokens"])
            tail = consultation.get("tail", [])
            tokens, mask = tokens + tail, mask + [0] * len(tail)
            rows.append(module.row_of(prompt, tokens, mask, questions, consultation["reward"]))
            assert [*rows[-1].prompt_ids, *rows[-1].response_ids] == prompt + tokens
            prompts.append(case["case_id"])
            places.append(where)
    return rows, prompts, places


def padded_by_verl(rows, width: int = 0) -> dict:
    """Rewards and masks of rows, padded on the right to the longest or further."""
    import torch

    fields = [row.as_dict() for row in rows]
    padded = {
        name: torch.nn.utils.rnn.pad_sequence([own[name] for own in fields], True)
        for name in ("rm_scores", "response_mask")
    }
    return {n: torch.nn.functional.pad(tensor, (0, width)) for n, tensor in padded.items()}


def verl_advantages(module, padded, prompts):
    given = {
        "token_level_rewards": padded["rm_scores"],
        "response_mask": padded["response_mask"],
        "index": np.array(prompts, object),
        "config": {"question_weight": BETA},
    }
    assert set(given) == set(TRAINERS["verl-project/verl"]["estimator"])
    return advantages_of_verl(padded, given) if OWN else module.pcqc(**given)[0]


@pytest.mark.numerical
@pytest.mark.parametrize("width", [0, 7])
def test_verl(verl, cases, width):
    rows, prompts, places = rows_of_verl(verl, cases)
    padded = padded_by_verl(rows, width)
    # verl fills a batch up with rows that are not trained.
    padded = {name: tensor[[*range(len(rows)), 0]].clone() for name, tensor in padded.items()}
    for tensor in padded.values():
        tensor[-1] = 0
    advantages = verl_advantages(verl, padded, [*prompts, prompts[0]])
    assert not advantages[padded["response_mask"] == 0].any()
    # Candidates without a question are no rows.
    laid = {p: np.zeros(v.shape) for p, v in expected(cases).items()}
    for row, where in zip(advantages.numpy(), places, strict=False):
        laid |= {place: row[start : start + length] for start, place, length in where}
    same(laid, expected(cases))


@pytest.mark.numerical
def test_the_rewards_of_a_row_of_verl_add_up_to_its_outcome(verl, cases):
    """verl's metrics and its validation take the sum for the score."""
    rows, _, _ = rows_of_verl(verl, cases)
    sums = padded_by_verl(rows)["rm_scores"].sum(1)
    outcomes = iter(c["reward"] for case in cases for c in case["consultations"])
    for row, total in zip(rows, sums.tolist(), strict=True):
        consultation = row.token_rewards[verl.WHO] == verl.CONSULTATION
        # Sums of some ten numbers near 1, in float32.
        assert total == pytest.approx(next(outcomes) if consultation else 0, abs=1e-5)


@pytest.mark.numerical
def test_two_processes_of_verl_have_the_gradient_of_one(verl, cases):
    """Rows dealt out unevenly: `agg_loss` divides by all tokens and multiplies by processes."""
    import torch

    if OWN:
        from verl.trainer.ppo.core_algos import agg_loss
    else:

        def agg_loss(losses, mask, mode, dp_size, batch_num_tokens):
            assert mode == "token-mean"
            return (losses * mask).sum() / batch_num_tokens * dp_size

    rows, prompts, _ = rows_of_verl(verl, cases)
    padded = padded_by_verl(rows)
    advantages, mask = verl_advantages(verl, padded, prompts), padded["response_mask"]
    torch.manual_seed(0)
    whole = torch.randn(advantages.shape).requires_grad_()  # log-probabilities
    parts = whole.detach().clone().requires_grad_()
    count = int(mask.sum())
    agg_loss(-advantages * whole, mask, "token-mean", 1, count).backward()
    cut = len(rows) // 3
    for own in (slice(cut), slice(cut, None)):
        loss = agg_loss(-advantages[own] * parts[own], mask[own], "token-mean", 2, count)
        (loss / 2).backward()  # data parallelism averages gradients
    assert torch.linalg.norm(parts.grad - whole.grad) < 1e-5 * torch.linalg.norm(whole.grad)
    # And each term is a mean over its own tokens.
    asked = padded["rm_scores"][:, verl.HEAD :].ne(0) & mask[:, verl.HEAD :].bool()
    if asked.any():
        share = (whole.grad[:, verl.HEAD :] * asked).abs().sum()
        assert share > 0.1


@pytest.mark.numerical
def test_what_verl_cannot_take_is_refused(verl):
    fine = ([1, 2, 3, 4], [5, 6, 7], [1, 1, 0], {(0, 2): 0.5}, 1.0)
    with pytest.raises(ValueError, match="a prompt of 3 tokens; the row needs 4 at least"):
        verl.row_of([1, 2, 3], *fine[1:])
    with pytest.raises(ValueError, match=r"question \(2, 4\) leaves a response of 3 tokens"):
        verl.row_of(*fine[:3], {(2, 4): 0.5}, 1.0)
    with pytest.raises(ValueError, match=r"question \(1, 3\) leaves .* or meets another"):
        verl.row_of(*fine[:3], {(0, 2): 0.5, (1, 3): 0.5}, 1.0)
    with pytest.raises(ValueError, match=r"question \(0, 2\) has credit nan; leave it out"):
        verl.row_of(*fine[:3], {(0, 2): float("nan")}, 1.0)
    padded = padded_by_verl([verl.row_of(*fine), verl.row_of(*fine)])
    given = padded["rm_scores"], padded["response_mask"], np.array(["a", "a"], object)
    with pytest.raises(ValueError, match="use_kl_in_reward changes the credits"):
        verl.pcqc(*given, config={"use_kl_in_reward": True})
    given[0][1, 0] = 0
    with pytest.raises(ValueError, match="row 1 does not say who it is; return `row_of"):
        verl.pcqc(*given)


@pytest.mark.numerical
def test_verl_s_engine_log_probabilities_stay_beside_their_tokens(verl):
    row = verl.row_of([1, 2, 3, 4], [5, 6], [1, 1], {}, 1.0, [-0.5, -0.25])
    assert row.response_logprobs == [0, 0, 0, -0.5, -0.25]
    assert row.response_ids == [2, 3, 4, 5, 6]


def advantages_of_verl(padded: dict, given: dict):
    """As verl's own trainer has them from the registry, of its own batch."""
    from verl.protocol import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data = DataProto.from_dict(
        {"token_level_rewards": padded["rm_scores"], "response_mask": padded["response_mask"]},
        {"uid": given["index"]},
    )
    return compute_advantage(data, "pcqc", config=given["config"]).batch["advantages"]


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
