"""The adapter for verl: recorded consultations get credit on the same tokens.

`make example-verl` runs this where verl is installed, on its own structures.
"""

import numpy as np
import pytest
from trainers import BETA, LAYOUTS, OWN, TRAINERS, credits_of, expected, laid_out, load, same

pytestmark = pytest.mark.numerical


@pytest.fixture(params=LAYOUTS)
def cases(request):
    return laid_out(request.param)


@pytest.fixture
def verl(monkeypatch):
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

    return load(
        monkeypatch,
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


def test_the_rewards_of_a_row_of_verl_add_up_to_its_outcome(verl, cases):
    """verl's metrics and its validation take the sum for the score."""
    rows, _, _ = rows_of_verl(verl, cases)
    sums = padded_by_verl(rows)["rm_scores"].sum(1)
    outcomes = iter(c["reward"] for case in cases for c in case["consultations"])
    for row, total in zip(rows, sums.tolist(), strict=True):
        consultation = row.token_rewards[verl.WHO] == verl.CONSULTATION
        # Sums of some ten numbers near 1, in float32.
        assert total == pytest.approx(next(outcomes) if consultation else 0, abs=1e-5)


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
