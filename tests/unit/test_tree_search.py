"""The search of ATPO on scripted roles, and what actor and critic are given of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import PROTOCOL, make_case
from tree_material import SAYS, Critic, make_context

from pcqc.consultation import roll_out
from pcqc.logged.trees import tree_row
from pcqc.methods.atpo.atpo import Atpo
from pcqc.methods.atpo.search_and_pruning import search_trees
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.atpo.trajectories import trajectories
from pcqc.methods.base import Services
from pcqc.methods.sequences import TERMINAL
from pcqc.training.training_sequence import KL
from pcqc_base.errors import UserError
from turn_credit.tree import ADVANTAGES, RunningVariance, atpo, back_up, uncertainty, visits

CASES = [make_case(i) for i in range(3)]
NAME = "1/test"


def grow(context=None, cases=CASES, values=None, memory=None, **settings):
    statistics = RunningVariance({} if memory is None else memory, 0.4)
    tree = TreeSearch(**settings)
    return search_trees(
        context or make_context(), values or Critic(), tree, cases, statistics, NAME
    )


def test_one_candidate_without_pruning_is_plain_consultations():
    searches = grow(candidates=1, prune_probability=0.0)
    plain = roll_out(make_context(), CASES, rollouts=1, seed=1, stage="test")
    for search, (consultation,) in zip(searches, plain, strict=True):
        ((searched, path),) = search.trajectories
        assert searched == consultation
        assert len(path) == len(consultation.turns) + 1 == len(search.tree.nodes)


def test_the_roles_are_called_once_a_level_for_all_cases_and_leaves():
    context, critic = make_context(SAYS[:1]), Critic()
    searches = grow(context, values=critic, candidates=2, prune_probability=0.0)
    assert [len(search.trajectories) for search in searches] == [16] * 3
    assert context.actor.engine.calls == PROTOCOL.max_turns
    assert context.patient.engine.calls == PROTOCOL.max_turns - 1
    assert critic.calls == PROTOCOL.max_turns + 1  # the roots, and each level's states


def test_values_are_the_critic_s_and_uncertainty_follows_from_them():
    critic = Critic()
    searches = grow(values=critic, candidates=3, prune_probability=0.0, variance_weight=0.0)
    for search in searches:
        for i, node in enumerate(search.tree.nodes):
            if node.terminal:
                assert (node.value, len(search.value_tokens[i])) == (0, 0)
                continue
            (outputs,) = critic([search.dialogues[i].state])
            assert node.value == pytest.approx(outputs.mean())
            q = search.tree.action_values(i)
            assert node.uncertainty == pytest.approx(uncertainty(node.value, q, 0.0, 0.0))


def test_any_child_may_be_kept():
    kept = set()
    for number in range(40):
        (search,) = grow(cases=[make_case(number)], prune_probability=1.0, threshold=99.0)
        root = search.tree.nodes[0]
        kept |= {k for k, i in enumerate(root.children) if not search.tree.nodes[i].pruned}
    assert kept == {0, 1, 2, 3}


def test_a_tree_does_not_depend_on_the_cases_beside_it():
    together = grow(variance_weight=0.0)
    for case, search in zip(CASES, together, strict=True):
        (alone,) = grow(cases=[case], variance_weight=0.0)
        assert alone.tree == search.tree


def test_a_prompt_that_is_too_long_is_a_tree_of_one_end():
    context = make_context(prompt_tokens=1)
    (search,) = grow(context, CASES[:1])
    assert [(n.terminal, n.reward) for n in search.tree.nodes] == [(True, -1.0)]
    assert trajectories(search, TreeSearch()) == []


@pytest.mark.parametrize("advantage", ADVANTAGES)
def test_what_the_actor_trains_on(advantage):
    searches, rules = grow(candidates=3, threshold=0.5), TreeSearch(advantage=advantage)
    for search in searches:
        scores = atpo(search.tree, advantage=advantage)
        logged = [node["advantage"] for node in tree_row(search, rules)["nodes"]]
        assert logged == pytest.approx(scores)
        per_token = 0.0
        for (consultation, path), t in zip(
            search.trajectories, trajectories(search, rules), strict=True
        ):
            (sequence,) = t.actor
            term = sequence.terms[TERMINAL]
            assert term.weights.sum() == pytest.approx(1)
            assert (term.weights > 0).sum() == consultation.actor_tokens
            assert np.array_equal(sequence.terms[KL].weights, term.weights)
            for turn, node in zip(consultation.turns, path[1:], strict=True):
                start = len(turn.state)
                stop = start + len(turn.executed.completion.tokens)
                assert sequence.tokens[start:stop] == turn.executed.completion.tokens
                assert set(term.advantages[start:stop]) == {scores[node]}
                per_token += term.advantages[start]
        counts, whole = visits(search.tree), atpo(search.tree, False, advantage)
        assert per_token == pytest.approx(sum(whole[1:][counts[1:] > 0]), abs=1e-9)


def test_what_the_critic_trains_on():
    (search,) = grow(cases=CASES[:1], candidates=3, threshold=0.5)
    targets = back_up(search.tree)
    made = trajectories(search, TreeSearch())
    for (consultation, path), t in zip(search.trajectories, made, strict=True):
        (sequence,) = t.critic
        assert sequence.selected.sum() == 3 * len(consultation.turns)
        for turn, node in zip(consultation.turns, path, strict=False):
            place = slice(len(turn.state) - 3, len(turn.state))
            assert set(sequence.targets[place]) == {targets[node]}
            assert sequence.old_values[place].tolist() == search.value_tokens[node].tolist()


def test_the_release_s_critic_trains_from_the_last_token_of_a_state_on():
    """Three tokens a state here: with i the response's first token these are i-1, i and i+1.

    The last response has two tokens at least, so none falls behind the sequence's end.
    """
    (search,) = grow(cases=CASES[:1], candidates=3, threshold=0.5)
    targets = back_up(search.tree)
    made = trajectories(search, TreeSearch(value_positions="release"))
    for (consultation, path), t in zip(search.trajectories, made, strict=True):
        (sequence,) = t.critic
        expected = {
            len(turn.state) + offset: targets[node]
            for turn, node in zip(consultation.turns, path, strict=False)
            for offset in (-1, 0, 1)
        }
        selected = {int(i): sequence.targets[i] for i in np.flatnonzero(sequence.selected)}
        assert selected == expected
        assert np.isnan(sequence.old_values).all()


def test_targets_of_the_release_end_with_the_sequence():
    """Responses of one token: of the last there are i-1 and i, and no i+1."""
    (search,) = grow(make_context([""]), CASES[:1], candidates=1)
    ((consultation, _),) = search.trajectories
    (trajectory,) = trajectories(search, TreeSearch(value_positions="release"))
    (sequence,) = trajectory.critic
    *earlier, last = [len(turn.state) for turn in consultation.turns]
    assert len(sequence.tokens) == last + 1
    expected = [i + offset for i in earlier for offset in (-1, 0, 1)] + [last - 1, last]
    assert np.flatnonzero(sequence.selected).tolist() == expected


def collect(context, **settings):
    """The rollouts of an update."""
    services = Services(None, 1, critic=SimpleNamespace(values=Critic()))
    return Atpo("Tree", "atpo", tree=TreeSearch(**settings)).collect_rollouts(
        services, context, CASES, 4
    )


def test_an_update_without_a_turn_is_refused():
    with pytest.raises(UserError, match=r"every case is longer than protocol\.prompt_tokens"):
        collect(make_context(prompt_tokens=1))


def test_what_an_update_collects():
    drawn = collect(make_context(), candidates=3)
    metrics = drawn.metrics()
    assert drawn.completed == len(drawn.trajectories) == sum(map(len, drawn.consultations))
    right = [c.predicted == "B" for row in drawn.consultations for c in row]
    assert metrics["accuracy"] == pytest.approx(np.mean(right))
    assert metrics["reward/mean"] == pytest.approx(np.concatenate(drawn.rewards).mean())
    tokens = sum(
        len(d.consultation.turns[-1].executed.completion.tokens)
        for search in drawn.searches
        for d in search.dialogues[1:]
    )
    assert metrics["tokens/actor_all"] == tokens
    for search, gains in zip(drawn.searches, drawn.advantages, strict=True):
        ends = [search.tree.nodes[path[-1]].reward for _, path in search.trajectories]
        assert gains.tolist() == [end - search.tree.nodes[0].value for end in ends]
