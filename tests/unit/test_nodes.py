"""The simulated schedule of an update on several nodes: what is sure by hand."""

import pytest

from benchmarks.nodes import NETWORK, _device, _learning, on_nodes, simulate
from pcqc.settings import load_study


@pytest.mark.parametrize(
    ("dialogues", "least", "token", "end", "work"),
    [
        # 10 steps of both and 10 of the longer one, each as long as reading the weights takes.
        ([[10.0], [20.0]], 2.0, 0.5, 40.0, 15.0),
        # As long as the batch's tokens take: 10 steps of two, then 10 of one; no time is lost.
        ([[10.0], [20.0]], 1.0, 2.0, 60.0, 60.0),
        # An answer takes 25 steps between two turns.
        ([[10.0, 10.0]], 1.0, 0.0, 45.0, 0.0),
        # Beside which another dialogue goes on.
        ([[10.0, 10.0], [50.0]], 1.0, 0.0, 50.0, 0.0),
        ([], 1.0, 1.0, 0.0, 0.0),
    ],
)
def test_a_device_ends_with_its_last_dialogue(dialogues, least, token, end, work):
    assert _device(dialogues, least, token) == (pytest.approx(end), pytest.approx(work))


@pytest.fixture(scope="module")
def paper():
    return load_study("paper")


def test_a_slow_network_costs_the_learner_of_several_nodes_alone(paper):
    method = paper.method("pcqc")
    single, two = (on_nodes(paper, count) for count in (1, 2))
    assert _learning(single, method, network=1e9) == _learning(single, method)
    fast, slow = (_learning(two, method, network=speed) for speed in (NETWORK, 1e9))
    assert slow > 3 * fast
    # A device has two micro-batches, each with the policy's forward pass, the reference's, and a
    # backward pass that gathers again. A node that keeps the weights is spared all but the first's
    # forward passes; a 16th of 8,190,735,360 bf16 weights is a device's own.
    saved = 4 * 2 * 8_190_735_360 * 15 / 16 / 1e6
    slow = [_learning(two, method, kept=kept, network=1e6) for kept in (False, True)]
    assert slow[0] - slow[1] == pytest.approx(saved, rel=1e-3)


def test_more_nodes_shorten_the_learning_and_leave_the_longest_dialogue(paper):
    method = paper.method("pcqc")
    single, eight = (simulate(on_nodes(paper, count), method) for count in (1, 8))
    assert eight.update == pytest.approx(single.update / 8, rel=0.02)
    assert eight.rollout > single.rollout / 2
    assert 1 - eight.busy / eight.rollout > 1 - single.busy / single.rollout
