"""Posterior and Q*, exact: dynamic programming over all that a doctor can have heard.

What was heard is a multiset of answers, (finding, present or absent). Their order does not matter,
since given disease and kind the answers are independent. `_Lattice` lists every multiset that fits
into a consultation. For each, P(it, disease) is a product of the world's numbers. Backward from
the longest, the value of a multiset is the better of naming the likeliest disease and of the best
question, whose two answers lead to listed multisets. No state is left out, none is sampled, none
is rounded: the sums are exact up to the arithmetic of 64-bit floats.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from clinic_env.v2.world import World

SAME = 1e-9  # values that differ by less are equal
NOTHING = -1  # a turn that neither asks nor names an option
REMEMBERED = 128  # cases of a world whose values are kept


class Values:
    """What is known exactly in a world.

    Args:
        world: the clinic.
    """

    def __init__(self, world: World):
        self.world = world
        self._of = lru_cache(REMEMBERED)(lambda key: CaseValues(world, np.array(key[0]), key[1]))

    def of(self, options: Sequence[int] | np.ndarray, complaint: int) -> "CaseValues":
        """Those of a case: numbers of its diseases, in any order, and of its complaint."""
        return self._of((tuple(sorted(map(int, options))), int(complaint)))


class CaseValues:
    """What is known exactly in the consultations of one case.

    `heard` is int [F, 2] everywhere: how often the patient answered "absent" and "present". `left`
    is how many questions can still be answered. Values are in units of the reward.
    """

    def __init__(self, world: World, options: np.ndarray, complaint: int):
        self.world = world
        self._options = options
        self._lattice = _lattice(len(world.findings), world.questions, world.fresh)
        self._prior = world.prior(options, complaint)[options]
        self._chance = world.answered_present[:, :, options].transpose(0, 2, 1)  # [F, K, H]
        self._later: dict[tuple[int, int], np.ndarray] = {}

    def posterior(self, heard: np.ndarray) -> np.ndarray:
        """float [D], P(disease | all that was heard)."""
        weight = np.zeros(len(self.world.diseases))
        weight[self._options] = self._joint(heard).sum(axis=1)
        return weight / weight.sum()

    def value(self, heard: np.ndarray, left: int) -> float:
        """V*: what the best turns bring from here on, the prices of what was asked left out."""
        level, state = self._lattice.place(heard)
        return float(self._value(level, left)[state] / self._levels[level][0][state])

    def ask(self, heard: np.ndarray, left: int) -> np.ndarray:
        """float [F], Q* of asking about each finding; 0 if no question can be answered."""
        if not left:
            return np.zeros(len(self.world.findings))
        level, state = self._lattice.place(heard)
        weight, after = self._levels[level][0][state], self._lattice.after[level][state]
        # An answer that only repeats the first one leads to the state that one is in.
        known = self._value(level, left - 1)[state]
        reached = self._value(level + 1, left - 1)[after].sum(axis=1)
        return np.where(after[:, 0] < 0, known, reached) / weight - self.world.prices

    def turn(self, heard: np.ndarray, left: int, action: int) -> float:
        """Q* of a turn: a finding's number, F + a disease's, or `NOTHING`."""
        findings = len(self.world.findings)
        if action >= findings:
            return float(self.posterior(heard)[action - findings])
        if not left:
            return 0.0
        if action == NOTHING:
            return self.value(heard, left - 1)
        return float(self.ask(heard, left)[action])

    def best_question(self, heard: np.ndarray, left: int) -> int | None:
        """A finding of the highest Q*, of several the one that is worth most as the last question.

        None if no question can be answered.
        """
        if not left:
            return None
        values, last = self.ask(heard, left), self.ask(heard, 1)
        return int(np.where(values > values.max() - SAME, last, -np.inf).argmax())

    def information(self, heard: np.ndarray) -> np.ndarray:
        """float [F], expected bits that the next answer tells about the disease."""
        joint = self._joint(heard)
        later = _entropy((joint * (1 - self._chance)).sum(axis=2))
        later += _entropy((joint * self._chance).sum(axis=2))
        bits = (_entropy(joint.sum(axis=1)) - later) / joint.sum()
        return bits if self.world.fresh else np.where(heard.any(axis=1), 0.0, bits)

    def after_each_answer(self, heard: np.ndarray, finding: int) -> np.ndarray:
        """float [2, K], P(next answer is "absent" or "present", option | all that was heard)."""
        joint, chance = self._joint(heard), self._chance[finding]
        both = np.stack([joint * (1 - chance), joint * chance]).sum(axis=2)
        return both / joint.sum()

    def _joint(self, heard: np.ndarray) -> np.ndarray:
        """float [K, H], P(disease, kind, all that was heard)."""
        absent, present = heard.T[:, :, None, None]
        likelihood = (1 - self._chance) ** absent * self._chance**present
        return self._prior * likelihood.prod(axis=0)

    @cached_property
    def _levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each level float [states] twice: P(what was heard), and that times the top belief."""
        answers = np.stack([1 - self._chance, self._chance], axis=1).reshape(-1, *self._prior.shape)
        levels: list[tuple[np.ndarray, np.ndarray]] = []
        joint = self._prior[None]
        for before, answer in self._lattice.last:
            joint = joint[before] * answers[answer] if levels else joint
            of_diseases = joint.sum(axis=2)
            levels.append((of_diseases.sum(axis=1), of_diseases.max(axis=1)))
        return levels

    def _value(self, level: int, left: int) -> np.ndarray:
        """float [states], V* of a level's states, times their probability."""
        if (level, left) not in self._later:
            weight, value = self._levels[level]
            if left:
                after = self._lattice.after[level]
                asked = self._value(level + 1, left - 1)[after].sum(axis=2)
                asked -= self.world.prices * weight[:, None]
                asked[after[:, :, 0] < 0] = -np.inf
                value = np.maximum(value, asked.max(axis=1))
            self._later[level, left] = value
        return self._later[level, left]


class _Lattice:
    """Every multiset of answers that fits into a consultation, by the number of its answers.

    Attributes:
        places: for each level, the sorted answers -> number of the state. An answer is twice its
            finding's number, plus 1 if it is "present".
        last: for each level, the state before a last answer, and that answer, int [states] each.
        after: for each level but the last int [states, F, 2], the state after "absent" and after
            "present"; -1 where a finding would only be answered as before.
    """

    def __init__(self, findings: int, questions: int, fresh: bool):
        self.places: list[dict[tuple[int, ...], int]] = [{(): 0}]
        self.last = [(np.zeros(1, np.int64), np.zeros(1, np.int64))]
        self.after: list[np.ndarray] = []
        for _ in range(questions):
            before, after = self.places[-1], np.full((len(self.places[-1]), findings, 2), -1)
            places: dict[tuple[int, ...], int] = {}
            came: list[tuple[int, int]] = []
            for answers, state in before.items():
                asked = set() if fresh else {answer // 2 for answer in answers}
                for answer in range(2 * findings):
                    if answer // 2 in asked:
                        continue
                    longer = tuple(sorted((*answers, answer)))
                    if longer not in places:
                        places[longer] = len(places)
                        came.append((state, answer))
                    after[state, answer // 2, answer % 2] = places[longer]
            self.places.append(places)
            state_before, answer = np.array(came).T
            self.last.append((state_before, answer))
            self.after.append(after)

    def place(self, heard: np.ndarray) -> tuple[int, int]:
        """Level and state of what was heard."""
        answers = np.repeat(np.arange(heard.size), heard.ravel()).tolist()
        return len(answers), self.places[len(answers)][tuple(answers)]


_lattice = lru_cache(maxsize=16)(_Lattice)


def _entropy(joint: np.ndarray) -> np.ndarray:
    """P(answers) times the bits of P(disease | answers), along the last axis."""
    weight = joint.sum(axis=-1, keepdims=True)
    share = np.divide(joint, weight, out=np.zeros_like(joint), where=joint > 0)
    return -(joint * np.log2(share, out=np.zeros_like(share), where=share > 0)).sum(axis=-1)
