"""Writes consultations: what doctor and patient say in the SFT data and the pretraining corpus."""

import numpy as np

from clinic_env.posterior import posterior
from clinic_env.world import World, ask, read_findings, state_finding
from pcqc.cases import prompts
from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange

# An option is ruled out when it is less than this many times as likely as the likeliest.
RULED_OUT = 0.1


def still_likely(world: World, case: Case, exchanges: list[Exchange]) -> list[str]:
    """Options not ruled out by the answers so far, the likeliest last.

    Options whose sign was asked about but not answered come first: asking again brings nothing.
    """
    answered: dict[int, bool] = {}
    for exchange in exchanges:
        answered.update(read_findings(world, exchange.answer))
    asked = {exchange.question for exchange in exchanges}
    names = list(case.options.values())
    signs = [world.diseases.index(name) for name in names]
    in_vain = [ask(world.findings[f]) in asked and f not in answered for f in signs]
    probability = posterior(world, case, answered).round(9)
    likely = np.flatnonzero(probability >= RULED_OUT * probability.max())
    return [names[i] for i in sorted(likely, key=lambda i: (not in_vain[i], probability[i]))]


def best_question(world: World, case: Case, exchanges: list[Exchange]) -> int | None:
    """The sign of the likeliest option that was not asked about; None if no question is needed."""
    asked = {exchange.question for exchange in exchanges}
    likely = still_likely(world, case, exchanges)
    signs = [world.diseases.index(name) for name in reversed(likely)]
    unasked = [f for f in signs if ask(world.findings[f]) not in asked]
    return unasked[0] if unasked and len(likely) > 1 else None


def spoken_turns(world: World, case: Case, exchanges: list[Exchange]) -> list[tuple[str, str]]:
    """(thinking, action) of each of the doctor's turns: the questions, then the diagnosis.

    Its thinking lists the options still likely, as `still_likely` orders them; it names the last.
    """
    likely = [still_likely(world, case, exchanges[:turn]) for turn in range(len(exchanges) + 1)]
    leading = likely[-1][-1]
    label = next(label for label, name in case.options.items() if name == leading)
    actions = [f"{prompts.QUESTION_MARKER} {exchange.question}" for exchange in exchanges]
    actions.append(f"{prompts.ANSWER_MARKER} {label}")
    return [
        (f"{prompts.THINK_OPEN}{', '.join(names)}{prompts.THINK_CLOSE}", action)
        for names, action in zip(likely, actions, strict=True)
    ]


def random_exchanges(
    world: World, case: Case, questions: int, rng: np.random.Generator
) -> list[Exchange]:
    """Up to `questions` different random questions, until one option is left."""
    exchanges: list[Exchange] = []
    for finding in rng.permutation(len(world.findings))[:questions]:
        if len(still_likely(world, case, exchanges)) == 1:
            break
        exchanges.append(_exchange(world, case, int(finding)))
    return exchanges


def best_exchanges(world: World, case: Case, questions: int) -> list[Exchange]:
    """Up to `questions` best questions, until one option is left or all of them were asked."""
    exchanges: list[Exchange] = []
    while len(exchanges) < questions:
        if (finding := best_question(world, case, exchanges)) is None:
            break
        exchanges.append(_exchange(world, case, finding))
    return exchanges


def _exchange(world: World, case: Case, finding: int) -> Exchange:
    """The question about a finding, answered if the facts say it."""
    facts = read_findings(world, " ".join(case.facts))
    answer = prompts.UNANSWERABLE
    if finding in facts:
        answer = state_finding(world.findings[finding], facts[finding])
    return Exchange(ask(world.findings[finding]), answer)


def recorded_conversation(
    world: World, case: Case, instruction: str, exchanges: list[Exchange]
) -> list[dict[str, str]] | None:
    """Messages of a conversation with these exchanges, then the diagnosis; None if it is wrong."""
    turns = spoken_turns(world, case, exchanges)
    if turns[-1][1] != f"{prompts.ANSWER_MARKER} {case.answer}":
        return None
    messages = [
        {"role": "system", "content": instruction},
        {"role": "user", "content": prompts.actor_prompt(case.public)},
    ]
    for turn, (thinking, action) in enumerate(turns):
        messages.append({"role": "assistant", "content": thinking + action})
        if turn < len(exchanges):
            messages.append({"role": "user", "content": exchanges[turn].answer})
    return messages
