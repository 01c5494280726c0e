"""The search of ATPO on scripted roles, and what actor and critic are given of it."""

import dataclasses

import numpy as np
import pytest
from helpers import INSTRUCTION, PROTOCOL, make_case, make_tokenizer

from pcqc.config import Decoding, Method, TreeSearch
from pcqc.consultation import Setting, roll_out
from pcqc.credit.tree import RunningVariance, advantages, back_up, uncertainty, visits
from pcqc.engines.scripted import ScriptedEngine
from pcqc.errors import UserError
from pcqc.methods.draw import draw_trees
from pcqc.methods.sequences import KL, TERMINAL
from pcqc.methods.tree_batch import trajectories
from pcqc.methods.tree_search import search_trees
from pcqc.protocol import ChatFormat
from pcqc.roles import Actor, Patient

COUGH, FEVER = "Question: any cough", "Question: any fever"
SAYS = (COUGH, FEVER, "no idea", "Final Answer: A", "Final Answer: B")
CASES = [make_case(i) for i in range(3)]
NAME = "1/test"


class Counted(ScriptedEngine):
    """Counts its calls."""

    calls = 0

    def generate(self, requests, sampling):
        self.calls += 1
        return super().generate(requests, sampling)


def make_setting(says=SAYS, **protocol) -> Setting:
    """An actor that picks among `says` by its random stream, and a patient with one answer."""
    chat = ChatFormat(make_tokenizer(), INSTRUCTION)
    actor = Counted(lambda prompt, s: [*chat.encode(says[s % len(says)]), chat.end_of_turn])
    patient = Counted(lambda prompt, s: [*chat.encode("No cough."), chat.end_of_turn])
    decoding = Decoding(temperature=1.0, top_p=1.0, max_tokens=PROTOCOL.action_tokens)
    rules = dataclasses.replace(PROTOCOL, **protocol)
    return Setting(Actor(actor, chat, decoding), Patient(patient, chat, decoding), chat, rules)


class Critic:
    """Outputs that are a function of the state alone; counts its calls."""

    calls = 0

    def __call__(self, states):
        self.calls += 1
        return [np.random.default_rng(sum(s) * 7919 + len(s)).normal(size=3) for s in states]


def grow(setting=None, cases=CASES, values=None, memory=None, **settings):
    statistics = RunningVariance({} if memory is None else memory, 0.4)
    tree = TreeSearch(**settings)
    return search_trees(
        setting or make_setting(), values or Critic(), tree, cases, statistics, NAME
    )


def test_one_candidate_without_pruning_is_plain_consultations():
    searches = grow(candidates=1, prune_probability=0.0)
    plain = roll_out(make_setting(), CASES, rollouts=1, seed=1, stage="test")
    for one, (consultation,) in zip(searches, plain, strict=True):
        ((found, path),) = one.trajectories
        assert found == consultation
        assert len(path) == len(consultation.turns) + 1 == len(one.tree.nodes)


def test_a_plain_consultation_lies_in_every_wider_tree():
    searches = grow(candidates=3, prune_probability=0.0)
    plain = roll_out(make_setting(), CASES, rollouts=1, seed=1, stage="test")
    for one, (consultation,) in zip(searches, plain, strict=True):
        assert consultation in [found for found, _ in one.trajectories]


def test_the_roles_are_called_once_a_level_for_all_cases_and_leaves():
    setting, critic = make_setting(SAYS[:1]), Critic()
    searches = grow(setting, values=critic, candidates=2, prune_probability=0.0)
    assert [len(one.trajectories) for one in searches] == [16] * 3
    assert setting.actor.engine.calls == PROTOCOL.max_turns
    assert setting.patient.engine.calls == PROTOCOL.max_turns - 1
    assert critic.calls == PROTOCOL.max_turns + 1  # the roots, and each level's states


def test_a_tree_that_never_ends_early_grows_to_the_budget_and_goes_on_in_chains():
    setting = make_setting(SAYS[:1], max_turns=5)
    (one,) = grow(setting, CASES[:1], budget=16, candidates=4, prune_probability=0.0)
    depths = [node.depth for node in one.tree.nodes]
    assert [depths.count(d) for d in range(6)] == [1, 4, 16, 16, 16, 16]
    # Questions to the end: no final answer.
    assert {n.reward for n in one.tree.nodes if n.terminal} == {-1.0}


def test_the_rewards_are_those_of_right_wrong_and_no_final_answer():
    searches = grow(make_setting((*SAYS, "Final Answer: X")), candidates=4, prune_probability=0.0)
    seen = set()
    for one in searches:
        for consultation, path in one.trajectories:
            expected = {"B": 3.0, None: -1.0}.get(consultation.predicted, 0.0)
            assert one.tree.nodes[path[-1]].reward == expected
            seen.add(expected)
        assert all(n.reward == 0 for n in one.tree.nodes if not n.terminal)
    assert seen == {3.0, 0.0, -1.0}


def test_values_are_the_critic_s_and_uncertainty_follows_from_them():
    critic = Critic()
    searches = grow(values=critic, candidates=3, prune_probability=0.0, variance_weight=0.0)
    for one in searches:
        for i, node in enumerate(one.tree.nodes):
            if node.terminal:
                assert (node.value, len(one.value_tokens[i])) == (0, 0)
                continue
            (outputs,) = critic([one.dialogues[i].state])
            assert node.value == pytest.approx(outputs.mean())
            q = one.tree.action_values(i)
            assert node.uncertainty == pytest.approx(uncertainty(node.value, q, 0.0, 0.0))


@pytest.mark.parametrize(("probability", "threshold"), [(1.0, 99.0), (0.0, 99.0), (1.0, -99.0)])
def test_pruning_keeps_one_child_where_the_state_is_certain(probability, threshold):
    searches = grow(candidates=4, prune_probability=probability, threshold=threshold)
    for one in searches:
        for node in one.tree.nodes:
            if len(node.children) > 1:
                kept = [i for i in node.children if not one.tree.nodes[i].pruned]
                assert len(kept) == (1 if probability and threshold > 0 else 4)
        # A pruned state is not followed; an end, pruned or not, is a trajectory.
        for node in one.tree.nodes:
            assert not (node.pruned and node.children)
        assert len(one.trajectories) == sum(n.terminal for n in one.tree.nodes)


def test_the_kept_child_is_drawn_among_all():
    kept = set()
    for number in range(40):
        (one,) = grow(cases=[make_case(number)], prune_probability=1.0, threshold=99.0)
        root = one.tree.nodes[0]
        kept |= {k for k, i in enumerate(root.children) if not one.tree.nodes[i].pruned}
    assert kept == {0, 1, 2, 3}


def test_a_tree_does_not_depend_on_the_cases_beside_it():
    together = grow(variance_weight=0.0)
    for case, one in zip(CASES, together, strict=True):
        (alone,) = grow(cases=[case], variance_weight=0.0)
        assert alone.tree == one.tree


def test_statistics_are_taken_on_level_by_level():
    memory = {}
    (one,) = grow(cases=CASES[:1], memory=memory, candidates=4, prune_probability=0.0)
    assert memory["0"] == [pytest.approx(np.var(one.tree.action_values(0))), 0.0]
    levels = {n.depth for n in one.tree.nodes if len(n.children) > 1}
    assert set(memory) == {"all", *map(str, levels)}


def test_a_prompt_that_is_too_long_is_a_tree_of_one_end():
    setting = make_setting(prompt_tokens=1)
    (one,) = grow(setting, CASES[:1])
    assert [(n.terminal, n.reward) for n in one.tree.nodes] == [(True, -1.0)]
    assert trajectories(one, by_visits=True) == []


def test_what_the_actor_trains_on():
    searches = grow(candidates=3, threshold=0.5)
    for one in searches:
        scores = advantages(one.tree)
        per_token = 0.0
        for (consultation, path), t in zip(
            one.trajectories, trajectories(one, by_visits=True), strict=True
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
        counts, whole = visits(one.tree), advantages(one.tree, by_visits=False)
        assert per_token == pytest.approx(sum(whole[1:][counts[1:] > 0]), abs=1e-9)


def test_what_the_critic_trains_on():
    (one,) = grow(cases=CASES[:1], candidates=3, threshold=0.5)
    targets = back_up(one.tree)
    for (consultation, path), t in zip(one.trajectories, trajectories(one, True), strict=True):
        (sequence,) = t.critic
        assert sequence.selected.sum() == 3 * len(consultation.turns)
        for turn, node in zip(consultation.turns, path, strict=False):
            place = slice(len(turn.state) - 3, len(turn.state))
            assert set(sequence.targets[place]) == {targets[node]}
            assert sequence.old_values[place].tolist() == one.value_tokens[node].tolist()


def test_an_update_without_a_turn_is_refused():
    method, statistics = Method("Tree", tree=TreeSearch()), RunningVariance({}, 0.4)
    with pytest.raises(UserError, match=r"every case is longer than protocol\.prompt_tokens"):
        draw_trees(
            make_setting(prompt_tokens=1), Critic(), method, CASES, statistics, seed=1, update=4
        )


def test_what_an_update_draws():
    method = Method("Tree", tree=TreeSearch(candidates=3))
    drawn = draw_trees(
        make_setting(), Critic(), method, CASES, RunningVariance({}, 0.4), seed=1, update=4
    )
    assert drawn.completed == len(drawn.trajectories) == sum(map(len, drawn.consultations))
    right = [c.predicted == "B" for row in drawn.consultations for c in row]
    assert drawn.figures["accuracy"] == pytest.approx(np.mean(right))
    assert drawn.figures["reward/mean"] == pytest.approx(np.concatenate(drawn.rewards).mean())
    tokens = sum(
        len(d.consultation.turns[-1].executed.completion.tokens)
        for one in drawn.searches
        for d in one.dialogues[1:]
    )
    assert drawn.figures["tokens/actor_all"] == tokens
    for one, gains in zip(drawn.searches, drawn.advantages, strict=True):
        ends = [one.tree.nodes[path[-1]].reward for _, path in one.trajectories]
        assert gains.tolist() == [end - one.tree.nodes[0].value for end in ends]
