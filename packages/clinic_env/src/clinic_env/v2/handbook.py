"""What a player is told of a world before the first case: all that the exact values are made of."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from clinic_env.v2.world import World

RULES = """\
You are a doctor in the clinic `{name}`. Find out which of the options the patient has.
In each turn do one thing: ask about one finding, as in `Question: Any {finding} spots?`, or name \
one option, as in `Final Answer: A`. Naming an option ends the consultation. A turn that does \
neither, or that asks about several findings, is lost.
You have {turns} turns. A question in the last turn is not answered.
Score: {score}."""


def handbook(world: World) -> str:
    """The rules and the world's numbers, for a chat model's system message."""
    score = "1 if the option is right, else 0"
    if world.prices.any():
        score += ", less the price of each question that was answered"
    rules = RULES.format(name=world.name, finding=world.findings[0], turns=world.turns, score=score)
    rates = world.rates / world.rates[world.rates > 0].min()
    lines = [
        rules,
        "",
        "Diseases. A case has some of them as options, each subset equally often. Relative base "
        f"rates: {_each(world.diseases, rates)}.",
        *_kinds(world),
        "Complaints. A case opens with one. It multiplies the rates:",
        *(f"- {name}: {_groups(world.diseases, odds, 'x {:g}')}." for name, odds in _rows(world)),
        *_answers(world),
        "Findings, and how often they are present:",
    ]
    for name, price, present in zip(world.findings, world.prices, world.present, strict=True):
        costs = f", price {price:g}" if price else ""
        kinds = [_groups(world.diseases, 100 * row, "{:g} %") for row in present]
        if len(set(kinds)) == 1:
            kinds = kinds[:1]
        else:
            kinds = [f"kind {i}: {text}" for i, text in enumerate(kinds, 1)]
        lines.append(f"- {name} spots{costs}: {'. '.join(kinds)}.")
    return "\n".join(lines)


def _rows(world: World):
    return zip(world.complaints, world.odds, strict=True)


def _kinds(world: World) -> list[str]:
    if len(world.kinds) == 1:
        return []
    shares = ", ".join(f"kind {i} {share:.0%}" for i, share in enumerate(world.kinds, 1))
    return [f"Patients are of one of several kinds, whatever their disease: {shares}."]


def _answers(world: World) -> list[str]:
    lies = f"Each answer is false with probability {world.lies:g}. " if world.lies else ""
    again = "is answered anew" if world.fresh else "is answered as before"
    return [f"Answers. {lies}A finding that is asked about again {again}."]


def _each(names: Sequence[str], values: np.ndarray) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in zip(names, values, strict=True))


def _groups(names: Sequence[str], values: np.ndarray, form: str) -> str:
    """`98 % of ...; 2 % of the others`: names of equal values together, the commonest value last.

    Values are rounded to what a world's file states, which sums of floats may miss by a bit.
    """
    rounded = [round(float(value), 6) for value in values]
    (common, count), *_ = Counter(rounded).most_common(1)
    if count == len(names):
        return form.format(common) + " of all"
    parts = [
        f"{form.format(v)} of {', '.join(n for n, r in zip(names, rounded, strict=True) if r == v)}"
        for v in sorted(set(rounded) - {common}, reverse=True)
    ]
    return "; ".join([*parts, f"{form.format(common)} of the others"])
