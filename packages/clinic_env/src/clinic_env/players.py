"""Doctors without a language model, and what any doctor reaches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.consultation import question_about, read_action
from clinic_env.env import ClinicEnv
from clinic_env.posterior import SAME

# Texts of one turn of each open consultation. A player that is a model reads `env.messages`.
Player = Callable[[Sequence[ClinicEnv]], list[str]]


def stop_at_once(envs: Sequence[ClinicEnv]) -> list[str]:
    """Names the likeliest option, and asks nothing."""
    return [_diagnosis(env) for env in envs]


def random_questions(envs: Sequence[ClinicEnv]) -> list[str]:
    """Asks random questions, none twice, as long as the turns last; then the Bayes diagnosis."""
    return [_random(env) for env in envs]


def greedy(envs: Sequence[ClinicEnv]) -> list[str]:
    """Asks as if each question were the last one; stops where none raises the posterior's best."""
    return [_asks(env, 1) for env in envs]


def best(envs: Sequence[ClinicEnv]) -> list[str]:
    """Asks a question of the highest Q*; stops where no question is worth more than answering."""
    return [_asks(env, None) for env in envs]


PLAYERS: dict[str, Player] = {
    "no question": stop_at_once,
    "random questions": random_questions,
    "greedy on the posterior": greedy,
    "best question (Q*)": best,
}


def _diagnosis(env: ClinicEnv) -> str:
    return f"Final Answer: {env.present.labels[int(env.present.posterior().argmax())]}"


def _random(env: ClinicEnv) -> str:
    present = env.present
    left = [f for f in range(len(env.world.findings)) if f not in present.asked]
    if not (left and present.questions_left):
        return _diagnosis(env)
    return question_about(env.world, int(env.rng.choice(left)))


def _asks(env: ClinicEnv, questions: int | None) -> str:
    present = env.present
    if not present.questions_left:
        return _diagnosis(env)
    asked = present.best_question(env.values, questions)
    if present.q_star(env.values, questions)[asked] < present.posterior().max() + SAME:
        return _diagnosis(env)
    return question_about(env.world, asked)


@dataclass(frozen=True)
class Score:
    """What a player reached.

    Attributes:
        episodes: number of cases.
        accuracy: share of right diagnoses, and its standard error.
        questions: mean number asked, the unanswered one of a last turn too.
        best: share of questions of highest Q*.
        loss: points of accuracy that a question's Q* is below the best one's, mean over questions.
        bayes: mean highest posterior at the end: the share that a Bayes diagnosis would get right.
    """

    episodes: int
    accuracy: tuple[float, float]
    questions: float
    best: float
    loss: float
    bayes: float


def measure(player: Player, episodes: int = 1000, seed: int = 0, **settings) -> Score:
    """Play cases `seed`, `seed + 1`, ... side by side.

    Args:
        player: the doctor.
        episodes: number of cases, at least 2; case i has the seed `seed` + i.
        seed: the first case's.
        settings: arguments of `ClinicEnv`.
    """
    envs = [ClinicEnv(exact=False, **settings) for _ in range(episodes)]
    values = envs[0].values
    for number, env in enumerate(envs):
        env.values = values  # of one world: what one consultation computes serves all
        env.reset(seed=seed + number)
    losses: list[float] = []
    asked, waiting = 0, envs
    while waiting:
        for env, text in zip(waiting, player(waiting), strict=True):
            action = read_action(text)
            if action.kind == "question":
                asked += 1
                own = env.present.value_of(values, action)
                losses.append(env.present.best_value(values) - own)
            env.step(text)
        waiting = [env for env in waiting if not env.present.done]
    right = np.array([env.present.reward for env in envs])
    return Score(
        episodes,
        (float(right.mean()), float(right.std(ddof=1) / len(right) ** 0.5)),
        asked / episodes,
        float(np.mean([loss < SAME for loss in losses])) if losses else float("nan"),
        100 * float(np.mean(losses)) if losses else float("nan"),
        float(np.mean([env.present.posterior().max() for env in envs])),
    )


def table(scores: dict[str, Score]) -> str:
    """Name -> score as a Markdown table."""
    lines = [
        "| doctor | right (%) | Bayes on its answers (%) | questions | best ones (%) | lost per "
        "question (points) |",
        "|---|---|---|---|---|---|",
    ]
    for name, score in scores.items():
        mean, error = (100 * share for share in score.accuracy)
        cells = [f"{mean:.1f} ± {error:.1f}", f"{100 * score.bayes:.1f}", f"{score.questions:.1f}"]
        for value, digits in ((100 * score.best, 0), (score.loss, 1)):
            cells.append("—" if np.isnan(value) else f"{value:.{digits}f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
