"""The exact posterior of the diagnosis, and the best accuracy that questions can reach.

All functions read complaint, options and facts from the case's text. With the base rates of the
case's benchmark, they give the best that any doctor could do.
"""

import numpy as np

from pcqc.cases import Case
from pcqc.clinic.world import World, read_findings


def evidence(world: World, dialogue: dict) -> dict[int, bool]:
    """Findings that the patient stated in a dialogue (a row of the evaluation's dialogues).

    A statement counts even if the patient model misquotes its facts.
    """
    found: dict[int, bool] = {}
    for turn in dialogue["turns"]:
        if turn.get("answer"):
            found.update(read_findings(world, turn["answer"]))
    return found


def posterior(
    world: World, case: Case, answered: dict[int, bool], rates: np.ndarray | None = None
) -> np.ndarray:
    """P(option | complaint, answered findings), one entry per option of the case.

    Args:
        world: the clinic.
        case: a clinic case.
        answered: finding index -> present.
        rates: base rates of the D diseases; uniform by default.
    """
    weight = _joint(world, case, rates)
    table = world.table[_option_indices(world, case)]
    (complaint,) = read_findings(world, case.initial)
    for finding, present in answered.items():
        if finding != complaint:
            weight = weight * (table[:, finding] if present else 1 - table[:, finding])
    return weight / weight.sum()


def best_accuracy(
    world: World, case: Case, questions: int, rates: np.ndarray | None = None
) -> float:
    """Accuracy of the Bayes diagnosis after `questions` best questions, each chosen on the answers.

    The patient can answer about every finding but the complaint. Further questions change nothing.
    """
    return _accuracy(world, case, questions, rates, best=True)


def random_accuracy(
    world: World, case: Case, questions: int, rates: np.ndarray | None = None
) -> float:
    """Accuracy of the Bayes diagnosis after `questions` random, never repeated questions."""
    return _accuracy(world, case, questions, rates, best=False)


def best_first_questions(world: World, case: Case, rates: np.ndarray | None = None) -> list[int]:
    """Findings to ask about when only one question is allowed: those of the highest accuracy."""
    outcome, unknown = _outcome_weights(world, case, rates)
    root = (2,) * len(unknown)
    values = []
    for axis in range(len(unknown)):
        no, yes = (root[:axis] + (answer,) + root[axis + 1 :] for answer in (0, 1))
        values.append(outcome[no] + outcome[yes])
    top = max(values)
    return [finding for finding, value in zip(unknown, values, strict=True) if value > top - 1e-12]


def _option_indices(world: World, case: Case) -> list[int]:
    return [world.diseases.index(text) for text in case.options.values()]


def _joint(world: World, case: Case, rates: np.ndarray | None) -> np.ndarray:
    """Unnormalised P(option, complaint), one entry per option."""
    options = _option_indices(world, case)
    (complaint,) = read_findings(world, case.initial)
    rates = world.rates("uniform") if rates is None else rates
    return rates[options] * world.table[options, complaint]


def _outcome_weights(world: World, case: Case, rates) -> tuple[np.ndarray, list[int]]:
    """max over options of P(option, answers), for every state of knowledge.

    Returns:
        An array with one axis per unknown finding (0 absent, 1 present, 2 not asked) and the
        finding of each axis.
    """
    weight = _joint(world, case, rates)
    (complaint,) = read_findings(world, case.initial)
    unknown = [f for f in range(len(world.findings)) if f != complaint]
    table = world.table[_option_indices(world, case)]
    joint = weight.reshape(-1, *[1] * len(unknown))
    for axis, finding in enumerate(unknown):
        p = table[:, finding]
        shape = [len(p)] + [1] * len(unknown)
        shape[axis + 1] = 3
        joint = joint * np.stack([1 - p, p, np.ones_like(p)], axis=1).reshape(shape)
    return joint.max(axis=0), unknown


def _accuracy(world: World, case: Case, questions: int, rates, best: bool) -> float:
    """Backward induction over states of knowledge; sums of joint weights need no division."""
    value, unknown = _outcome_weights(world, case, rates)
    axes = range(len(unknown))
    for _ in range(min(questions, len(unknown))):
        asked = [_after_asking(value, axis) for axis in axes]
        if best:
            new = value.copy()
            for axis, after in zip(axes, asked, strict=True):
                part = _not_asked(new, axis)
                np.maximum(part, after, out=part)
        else:
            total, count = np.zeros_like(value), np.zeros_like(value)
            for axis, after in zip(axes, asked, strict=True):
                _not_asked(total, axis)[...] += after
                _not_asked(count, axis)[...] += 1
            new = np.where(count > 0, total / np.maximum(count, 1), value)
        value = new
    return float(value[(2,) * len(unknown)] / _joint(world, case, rates).sum())


def _after_asking(value: np.ndarray, axis: int) -> np.ndarray:
    """Value of asking about the finding of `axis`, in every state where it is not asked yet."""
    return np.take(value, 0, axis) + np.take(value, 1, axis)


def _not_asked(value: np.ndarray, axis: int) -> np.ndarray:
    """View of the states where the finding of `axis` is not asked yet."""
    index: list[slice | int] = [slice(None)] * value.ndim
    index[axis] = 2
    return value[tuple(index)]
