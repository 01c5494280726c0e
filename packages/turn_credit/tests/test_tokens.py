"""From a loss mask to token advantages, padded or flat; numbers or torch's tensors."""

import numpy as np
import pytest

from turn_credit import (
    Group,
    Term,
    beliefs_of,
    credit_update,
    flat_advantages,
    pcqc,
    reward_to_go,
    token_advantages,
    turn_spans,
)

# Three rows, padded to eight: two turns; one turn that was cut off at the end of its row; two turns
# that touch, so that they are numbered.
MASK = [[0, 1, 1, 0, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 2, 2, 2, 0, 0, 0]]
SPANS = [(0, 1, 3), (0, 4, 5), (1, 2, 8), (2, 0, 2), (2, 2, 5)]


def test_a_turn_is_a_run_of_equal_numbers():
    assert turn_spans(MASK) == SPANS
    assert turn_spans(np.array(MASK), turns=[2, 1, 2]) == SPANS
    assert turn_spans(np.array(MASK) > 0) == [*SPANS[:3], (2, 0, 5)]
    # Padded on the left, and rows of their own lengths.
    assert turn_spans([[0, 0, 1, 1], [0, 1]]) == [(0, 2, 4), (1, 1, 2)]
    assert turn_spans([[0, 0], []]) == []


def test_rewards_of_turns_become_advantages_of_tokens():
    """To go: 0.5 + 1, 1 | 0 | 2, 2. The first turn's others have means 1, 1.75 and 0.75."""
    group = Group(turn_rewards=[[0.5, 1.0], [None], [None, 2.0]])
    assert group.rewards == [1.5, 0, 2]
    credits = reward_to_go(group)
    assert np.concatenate(credits) == pytest.approx([0.5, -1, -1.75, 1.25, 1])
    advantages = token_advantages((3, 8), [Term(turn_spans(MASK, group.lengths), credits)])
    expected = np.zeros((3, 8))
    for (row, start, stop), value in zip(SPANS, [0.5, -1, -1.75, 1.25, 1], strict=True):
        expected[row, start:stop] = value
    # One term alone: its tokens have its credits.
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)


def test_flat_rows_have_the_numbers_of_padded_ones():
    lengths = [6, 8, 5]
    terms = [
        Term(SPANS, [1.0, -1.0, 0.5, 2.0, -2.0]),
        Term([(0, 4, 5), (2, 3, 5)], [3.0, -3.0], weight=0.5),
    ]
    padded = token_advantages((3, 8), terms)
    flat = flat_advantages(lengths, terms)
    assert flat.shape == (19,)
    for row, own in zip(padded, np.split(flat, np.cumsum(lengths)[:-1]), strict=True):
        assert own.tolist() == row[: len(own)].tolist()
        assert not row[len(own) :].any()
    # N = 14, N_T = 14, N_Q = 3: token 4 of row 0 has both.
    assert flat[4] == pytest.approx(-1 + 0.5 * 3 * 14 / 3)


def test_many_short_rows_need_no_more_than_their_tokens():
    """As padded rows these would be 8 TB."""
    lengths = np.full(1000, 10)
    lengths[0] = 1_000_000
    flat = flat_advantages(lengths, [Term([(0, 999_990, 1_000_000), (999, 0, 10)], [1.0, -1.0])])
    assert (flat[999_989], flat[999_990], flat[-1]) == (0, 1, -1)


@pytest.mark.parametrize("shape", [(0, 4), (2, 4)])
def test_a_batch_without_terms_or_tokens_has_no_advantages(shape):
    for terms in ([], [Term([], [])]):
        advantages = token_advantages(shape, terms)
        assert advantages.shape == shape
        assert not advantages.any()


def test_beliefs_are_shares_of_the_options_or_the_answer_s_own_probability():
    logs = [np.log([[0.1, 0.3], [0.2, 0.2]]), np.log([[0.5, 0.125]])]
    first, second = beliefs_of(logs, correct=[1, 0])
    assert first == pytest.approx([0.75, 0.5])
    assert second == pytest.approx([0.8])
    (alone,) = beliefs_of([np.log([0.25, 0.5])])
    assert alone == pytest.approx([0.25, 0.5])
    # Unlikely answers do not underflow, nor does an impossible option harm.
    (far,) = beliefs_of([[[-2000.0, -2000.0, -np.inf]]], [0])
    assert far == pytest.approx([0.5])


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.numerical
@pytest.mark.parametrize("kind", ["bfloat16", "float32", "float64"])
def test_tensors_come_back_as_tensors(torch, kind):
    """0.5, 0.25 and 0.25 are exact in bfloat16; mean 1/3, deviation sqrt(1 / 48)."""
    dtype = getattr(torch, kind)
    utilities = [torch.tensor([0.5, 0.25, 0.25], dtype=dtype, requires_grad=True)]
    (credits,) = pcqc(Group(utilities=utilities))
    assert credits.dtype == (torch.float64 if kind == "float64" else torch.float32)
    assert not credits.requires_grad
    expected = np.array([2, -1, -1]) / 12 / (1 / 48**0.5 + 1e-6)
    np.testing.assert_allclose(credits.numpy(), expected, rtol=1e-6)
    mask = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=torch.bool)
    advantages = token_advantages((3, 4), [Term(turn_spans(mask), credits)])
    assert advantages.dtype == credits.dtype
    assert advantages[0].tolist() == pytest.approx([0, expected[0], expected[0], 0], rel=1e-6)


@pytest.mark.numerical
def test_tensors_on_another_device_stay_there(torch):
    """The meta device has no numbers to read, so that only what comes back is looked at."""
    from turn_credit.tensors import as_tensor

    there = as_tensor(np.ones(2), torch.ones(3, dtype=torch.bfloat16, device="meta"))
    assert (there.device.type, there.dtype, there.shape) == ("meta", torch.float32, (2,))


@pytest.mark.numerical
def test_a_list_of_single_tensors_and_an_update_of_both_kinds(torch):
    rewards = [torch.tensor(0.0), torch.tensor(1.0, requires_grad=True)]
    tensors = Group(rewards, values=torch.tensor([[0.5, 0.75], [0.5, 1.0]]))
    numbers = Group([1], values=[[0.5, 0.25]])
    credits = credit_update("vineppo", [numbers, tensors])
    plain = credit_update("vineppo", [numbers, Group([0, 1], values=[[0.5, 0.75], [0.5, 1.0]])])
    for own, other in zip(credits, plain, strict=True):
        assert all(torch.is_tensor(row) for row in own)
        np.testing.assert_allclose(np.array([r.numpy() for r in own]), np.array(other), rtol=1e-6)
    assert credit_update("grpo", [Group(rewards, turns=[1, 2])])[0][1].dtype == torch.float32


def test_numbers_need_no_torch():
    import subprocess
    import sys

    code = "import sys, turn_credit; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
