"""How a player is scored: by its decisions, each weighed by Q*, so that luck does not count.

A turn loses V* - Q*: what the best turn would have brought more, on the mean over all patients that
fit what was heard. The losses of a consultation add up to V* at its opening less what the player
reaches, on the mean. So the share that a player has reached of what questions can bring is

    reached = 1 - (sum of losses) / (sum of V* - value of the best guess without a question).

100 % is the best that anybody can do, 0 % is the best guess without a question. A player that knows
the answer from elsewhere, and names it, has lost all that questions bring.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.v2.cases import LEADERBOARD
from clinic_env.v2.consultations import NOTHING
from clinic_env.v2.env import ClinicEnv
from clinic_env.v2.players import Player
from clinic_env.v2.values import Values
from clinic_env.v2.world import load


@dataclass(frozen=True)
class Score:
    """What a player reached in one world.

    Attributes:
        cases: their number.
        reached: share of what questions can bring, and its standard error over cases.
        guess: mean value of the best guess without a question.
        best: mean V* at the openings.
        lost: mean sum of losses; `best - lost` is the player's score without luck.
        score: mean of the rewards, luck and all, and its standard error.
        right: share of right diagnoses.
        questions: mean number that was answered.
        refused: share of turns that neither asked about one finding nor named one option.
    """

    cases: int
    reached: tuple[float, float]
    guess: float
    best: float
    lost: float
    score: tuple[float, float]
    right: float
    questions: float
    refused: float


def measure(
    player: Player,
    world: str,
    cases: int = 250,
    *,
    draw: str | None = None,
    split: str = LEADERBOARD,
    together: int = 64,
) -> Score:
    """Play cases and weigh every turn.

    Args:
        player: gets chats, and never an environment.
        world: name of a frozen world.
        cases: their number, at least 2; case i is the one that seed i names.
        draw: which of the leaderboard's cases; None draws it.
        split: the cases'.
        together: how many consultations are open side by side.

    Raises:
        ValueError: the player gives something else than a text for each chat.
    """
    if cases < 2:
        raise ValueError(f"{cases} cases: a mean needs at least 2; give more")
    values, rows = Values(load(world)), []
    one = ClinicEnv(world, split=split, draw=draw, exact=False, values=values)
    draw = one.game.draw or None
    for start in range(0, cases, together):
        envs = []
        for seed in range(start, min(start + together, cases)):
            env = ClinicEnv(world, split=split, draw=draw, exact=False, values=values)
            env.reset(seed=seed)
            envs.append(env)
        rows += _play(player, envs)
    return _summary(np.array(rows))


def _play(player: Player, envs: Sequence[ClinicEnv]) -> list[tuple[float, ...]]:
    """Per case: guess, V*, losses, score, right, questions, refused turns, turns."""
    guess = [float(env.posterior().max()) for env in envs]
    best = [env.best_value() for env in envs]
    lost, right, asked, refused = (np.zeros(len(envs)) for _ in range(4))
    open_ = list(range(len(envs)))
    while open_:
        for row, text in zip(open_, _texts(player, [envs[i] for i in open_]), strict=True):
            env = envs[row]
            number, _ = env.game.act(0, text)
            lost[row] += env.best_value() - env.value_of(text)
            refused[row] += number == NOTHING
            asked[row] += 0 <= number < len(env.world.findings) and env.questions_left > 0
            _, reward, _, _, _ = env.step(text)
            right[row] = reward > 0  # only the right diagnosis brings anything
        open_ = [row for row in open_ if not envs[row].done]
    scores, turns = [env.score for env in envs], [int(env.game.turn[0]) for env in envs]
    return list(zip(guess, best, lost, scores, right, asked, refused, turns, strict=True))


def _texts(player: Player, envs: Sequence[ClinicEnv]) -> list[str]:
    texts = player([env.messages for env in envs])
    if not isinstance(texts, list) or len(texts) != len(envs):
        raise ValueError(f"the player must give a list of {len(envs)} texts, one for each chat")
    for text in texts:
        if type(text) is not str:
            raise ValueError(f"the player must give texts, and gave a {type(text).__name__}")
    return texts


def _summary(rows: np.ndarray) -> Score:
    guess, best, lost, score, right, asked, refused, turns = rows.T
    gain, count = best - guess, len(rows)
    reached = 1 - lost.sum() / gain.sum()
    spread = (lost - (1 - reached) * gain).std(ddof=1)
    return Score(
        cases=count,
        reached=(float(reached), float(spread / gain.mean() / count**0.5)),
        guess=float(guess.mean()),
        best=float(best.mean()),
        lost=float(lost.mean()),
        score=(float(score.mean()), float(score.std(ddof=1) / count**0.5)),
        right=float(right.mean()),
        questions=float(asked.mean()),
        refused=float(refused.sum() / turns.sum()),
    )


def table(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """Player -> world -> score as a Markdown table; the first number is the mean of the worlds."""
    worlds = list(next(iter(scores.values())))
    names = " | ".join(_short(world) for world in worlds)
    lines = [f"| doctor | all | {names} | questions | refused (%) |"]
    lines.append("|---" * (len(worlds) + 4) + "|")
    for player, of_worlds in scores.items():
        rows = list(of_worlds.values())
        mean = float(np.mean([row.reached[0] for row in rows]))
        error = sum(row.reached[1] ** 2 for row in rows) ** 0.5 / len(rows)
        cells = [_percent(mean, error), *(_percent(*row.reached) for row in rows)]
        cells.append(f"{np.mean([row.questions for row in rows]):.1f}")
        cells.append(f"{100 * np.mean([row.refused for row in rows]):.0f}")
        lines.append(f"| {player} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_worlds(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """World -> each player's score in points, without luck, as a Markdown table."""
    lines = [f"| world | {' | '.join(scores)} |", "|---" * (len(scores) + 1) + "|"]
    for world in next(iter(scores.values())):
        rows = [of_worlds[world] for of_worlds in scores.values()]
        points = " | ".join(f"{100 * (row.best - row.lost):.1f}" for row in rows)
        lines.append(f"| `{world}` | {points} |")
    return "\n".join(lines)


def _short(world: str) -> str:
    return world.rpartition("-")[2]


def _percent(share: float, error: float) -> str:
    return f"{100 * share:.1f} ± {100 * error:.1f}"
