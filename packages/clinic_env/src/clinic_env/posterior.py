"""The exact posterior of the diagnosis, the value of questions, and the best accuracy they reach.

That is of clinic-v1, which the studies use; clinic-v2's is in `clinic_env/v2/values.py`.
All functions read complaint, options and facts from the case's text. Base rates are uniform, but
where a function takes them: with those of the case's benchmark its values are the best possible.

Findings with the same likelihoods for all options of a case are exchangeable, so a state of
knowledge is a count for each such group: how many are present, how many absent. A finding that is
equally likely under all options says nothing. Cases that differ only in names share all values.
"""

import math
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from clinic_env.world import Opening, World, read_findings

SAME = 1e-9  # values that differ by less are equal


def evidence(world: World, dialogue: dict) -> dict[int, bool]:
    """Findings that the patient stated in a dialogue (a row of the evaluation's dialogues).

    A statement counts even if the patient model misquotes its facts.
    """
    stated: dict[int, bool] = {}
    for turn in dialogue["turns"]:
        if turn.get("answer"):
            stated.update(read_findings(world, turn["answer"]))
    return stated


def posterior(
    world: World, case: Opening, answered: dict[int, bool], rates: np.ndarray | None = None
) -> np.ndarray:
    """P(option | complaint, answered findings), one entry per option of the case.

    Args:
        world: the clinic.
        case: a clinic case.
        answered: finding index -> present.
        rates: base rates of the D diseases; uniform by default.
    """
    weight = _joint(world, case, rates)
    table = likelihoods(world, case)
    for finding, present in answered.items():
        weight = weight * (table[:, finding] if present else 1 - table[:, finding])
    return weight / weight.sum()


def likelihoods(world: World, case: Opening) -> np.ndarray:
    """[options, findings] P(finding | option)."""
    return world.table[_option_indices(world, case)]


def answers_to(world: World, case: Opening, findings: Collection[int]) -> np.ndarray:
    """[answers, options] P(answer | option) of every answer about some findings at once."""
    table = likelihoods(world, case)[:, sorted(findings)]
    return np.array(
        [
            np.prod(np.where(present, table, 1 - table), axis=1)
            for present in product((True, False), repeat=len(findings))
        ]
    )


def best_accuracy(world: World, case: Opening, questions: int, *, after_random: int = 0) -> float:
    """Accuracy of the Bayes diagnosis after `questions` best questions, each chosen on the answers.

    The base rates are uniform. The patient can answer about every finding. Further questions change
    nothing.

    Args:
        world: the clinic.
        case: a clinic case.
        questions: their number.
        after_random: random, never repeated questions asked before them.
    """
    return _Questions(world, case).accuracy(after_random, questions)


def random_accuracy(world: World, case: Opening, questions: int) -> float:
    """Accuracy of the Bayes diagnosis after `questions` random, never repeated questions."""
    return _Questions(world, case).accuracy(questions, 0)


class Values:
    """Q* of a world: the accuracy after each question if the best ones follow; computed once.

    Args:
        world: the clinic.
        rates: base rates of the D diseases; uniform by default.
    """

    def __init__(self, world: World, rates: np.ndarray | None = None):
        self.world, self.rates = world, rates
        self._questions: dict[tuple, _Questions] = {}
        self._computed: dict[tuple, dict[int, float]] = {}

    def __call__(
        self, case: Opening, answered: dict[int, bool], silent: Collection[int], questions: int
    ) -> dict[int, float]:
        """Finding -> accuracy after asking about it, of every finding of the world.

        A question that was asked before or says nothing has the accuracy of those that follow it.

        Args:
            case: a clinic case.
            answered: finding -> present, of the questions answered so far.
            silent: findings about which the patient could not answer.
            questions: how many may still be asked, the valued one included; at least 1.
        """
        # The order of the options and the facts do not change it.
        of_case = (case.initial, frozenset(case.options.values()), frozenset(silent))
        key = (*of_case, frozenset(answered.items()), questions)
        if key not in self._computed:
            if of_case not in self._questions:
                self._questions[of_case] = _Questions(self.world, case, self.rates, silent)
            self._computed[key] = self._questions[of_case].values(answered, questions)
        return self._computed[key]


class _Questions:
    """The questions of one case: its findings in exchangeable groups.

    Args:
        world: the clinic.
        case: a clinic case.
        rates: base rates of the D diseases; uniform by default.
        silent: findings about which the patient could not answer.
    """

    def __init__(self, world: World, case: Opening, rates=None, silent: Collection[int] = ()):
        self.count = len(world.findings)
        weight = _joint(world, case, rates)
        # The likeliest option first: cases that differ in the order of options share a tree.
        order = np.argsort(-weight, kind="stable")
        table = likelihoods(world, case)[order]
        groups: dict[tuple[float, ...], list[int]] = {}
        for finding in range(self.count):
            if np.ptp(table[:, finding]) > 0 and finding not in silent:
                groups.setdefault(tuple(table[:, finding].tolist()), []).append(finding)
        columns = sorted(groups)
        self.groups = [groups[column] for column in columns]
        sizes = tuple(map(len, self.groups))
        prior = tuple((weight[order] / weight.sum()).round(12).tolist())
        self.tree = _tree(prior, tuple(columns), sizes)

    def accuracy(self, chance: int, best: int) -> float:
        """Accuracy after `chance` random questions, then `best` best ones."""
        chance, informative = min(chance, self.count), sum(map(len, self.groups))
        silent = self.count - informative
        total = 0.0
        # `asked` of the random questions are about findings that say something.
        for asked in range(min(chance, informative) + 1):
            ways = math.comb(informative, asked) * math.comb(silent, chance - asked)
            if ways:
                total += ways * self.tree.accuracy(asked, best)
        return total / math.comb(self.count, chance)

    def values(self, answered: dict[int, bool], questions: int) -> dict[int, float]:
        """Question -> probability of the right diagnosis after it, so many questions being left."""
        state = []
        for group in self.groups:
            answers = [answered[f] for f in group if f in answered]
            state.append((sum(answers), len(answers) - sum(answers)))
        uninformative, of_groups = self.tree.values(state, questions)
        values = dict.fromkeys(range(self.count), uninformative)
        for group, value in zip(self.groups, of_groups, strict=True):
            values |= {finding: value for finding in group if finding not in answered}
        return values


class _Tree:
    """Backward induction over states of knowledge.

    Values are joint weights of accuracy and answers: their sums need no division.

    Args:
        prior: P(option) before any question, one entry per option.
        columns: P(present | option) of each group's findings, one entry per option.
        sizes: findings of each group.
    """

    def __init__(
        self,
        prior: tuple[float, ...],
        columns: tuple[tuple[float, ...], ...],
        sizes: tuple[int, ...],
    ):
        # Per group all counts (present, absent), that of no question first.
        self.states = [
            [(p, a) for p in range(size + 1) for a in range(size + 1 - p)] for size in sizes
        ]
        self.unasked = [
            np.array([size - sum(c) for c in states])
            for size, states in zip(sizes, self.states, strict=True)
        ]
        self.after = [_after_one_more(states) for states in self.states]
        joint = np.array(prior).reshape(-1, *[1] * len(sizes))
        for group, (column, states) in enumerate(zip(columns, self.states, strict=True)):
            p, (present, absent) = np.array(column)[:, None], np.array(states).T
            shape = [len(prior), *[1] * len(sizes)]
            shape[group + 1] = len(states)
            joint = joint * (p**present * (1 - p) ** absent).reshape(shape)
        self.weight, self.best = joint.sum(0), [joint.max(0)]
        # roots[best][chance]: accuracy after `chance` random questions, then `best` best ones.
        self.roots: dict[int, list[float]] = {}

    def accuracy(self, chance: int, best: int) -> float:
        """Accuracy after `chance` random questions that say something, then `best` best ones."""
        if best not in self.roots:
            value, self.roots[best] = self._after_best(best), []
            for _ in range(sum(int(unasked[0]) for unasked in self.unasked) + 1):
                self.roots[best].append(float(value.flat[0] / self.weight.flat[0]))
                value = self._after_chance(value)
        return self.roots[best][chance]

    def values(self, state: Sequence[tuple[int, int]], questions: int) -> tuple[float, list[float]]:
        """Accuracy after a question that says nothing, and after a question of each group."""
        counts = zip(self.states, state, strict=True)
        place = tuple(states.index(count) for states, count in counts)
        later, weight = self._after_best(questions - 1), self.weight[place]
        asked = [0.0] * len(state)
        for group, (at, after) in enumerate(zip(place, self.after, strict=True)):
            if self.unasked[group][at]:
                before, behind = place[:group], place[group + 1 :]
                present, absent = (later[(*before, new, *behind)] for new in after[:, at])
                asked[group] = float((present + absent) / weight)
        return float(later[place] / weight), asked

    def _after_best(self, questions: int) -> np.ndarray:
        """Value of every state with `questions` best questions to come."""
        most = sum(int(unasked[0]) for unasked in self.unasked)
        while len(self.best) <= min(questions, most):
            value = self.best[-1]
            for group in range(len(self.states)):
                value = np.maximum(value, self._ask(self.best[-1], group))
            self.best.append(value)
        return self.best[min(questions, most)]

    def _ask(self, value: np.ndarray, group: int) -> np.ndarray:
        """Value of asking about one more finding of a group; 0 where all were asked about."""
        total = np.zeros_like(value)
        for after in self.after[group]:
            reached = np.take(value, np.maximum(after, 0), group)
            total += np.where(self._along(group, after >= 0), reached, 0)
        return total

    def _after_chance(self, value: np.ndarray) -> np.ndarray:
        """Value of a question about a random finding of those not asked yet."""
        total, left = np.zeros_like(value), np.zeros_like(value)
        for group, unasked in enumerate(self.unasked):
            total += self._along(group, unasked) * self._ask(value, group)
            left += self._along(group, unasked)
        return np.where(left > 0, total / np.maximum(left, 1), value)

    def _along(self, group: int, values: np.ndarray) -> np.ndarray:
        """Values along the axis of a group."""
        return values.reshape([-1 if g == group else 1 for g in range(len(self.states))])


_tree = lru_cache(maxsize=64)(_Tree)


def _after_one_more(states: list[tuple[int, int]]) -> np.ndarray:
    """[2, states] the state after one more present, or absent; -1 where all have been asked."""
    place = {counts: i for i, counts in enumerate(states)}
    present = [place.get((p + 1, a), -1) for p, a in states]
    absent = [place.get((p, a + 1), -1) for p, a in states]
    return np.array([present, absent])


def _option_indices(world: World, case: Opening) -> list[int]:
    """Numbers of the options' diseases; ValueError naming an option that is none of the world's."""
    try:
        return [world.diseases.index(text) for text in case.options.values()]
    except ValueError:
        (unknown, *_) = [text for text in case.options.values() if text not in world.diseases]
        raise ValueError(f"the option {unknown!r} is no disease of this world") from None


def _joint(world: World, case: Opening, rates: np.ndarray | None) -> np.ndarray:
    """Unnormalised P(option, complaint), one entry per option."""
    options = _option_indices(world, case)
    rates = world.rates("uniform") if rates is None else rates
    return (rates * world.complaint_likelihood(case))[options]
