"""Play in the clinic, or measure doctors and speed."""

import argparse
import runpy
import sys
from pathlib import Path

from clinic_env import speed
from clinic_env.consultation import read_action
from clinic_env.env import ClinicEnv
from clinic_env.frozen import NAMES
from clinic_env.players import PLAYERS, measure, table
from clinic_env.world import ask


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 2 and one line where the input is wrong."""
    parser = argparse.ArgumentParser(prog="python -m clinic_env", description=__doc__)
    parser.add_argument("--world", default=NAMES[0], choices=NAMES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "be the doctor: type a question, or a label; an empty line ends the game"
    play = commands.add_parser("play", help=text, description=text)
    play.add_argument("--seed", type=int, help="of the case; random by default")
    play.add_argument("--show", action="store_true", help="show posterior and best question")
    text = "measure doctors; print a table"
    board = commands.add_parser("leaderboard", help=text, description=text)
    board.add_argument("--episodes", type=int, default=1000)
    board.add_argument("--seed", type=int, default=0, help="of the first case")
    board.add_argument(
        "--player", type=Path, action="append", default=[], metavar="FILE",
        help="Python file with `play(envs) -> texts`; it is run",
    )  # fmt: skip
    text = "steps a second on one core"
    commands.add_parser("speed", help=text, description=text)
    given = parser.parse_args(arguments)
    try:
        if given.command == "play":
            _play(ClinicEnv(given.world), given.seed, given.show)
        elif given.command == "speed":
            for name, rate in speed.measure():
                print(f"{name:<24} {rate:>12,.0f} steps a second")
        else:
            _leaderboard(given)
    except ValueError as problem:
        print(f"clinic_env: error: {problem}", file=sys.stderr)
        return 2
    return 0


def _play(env: ClinicEnv, seed: int | None, show: bool) -> None:
    text, info = env.reset(seed=seed)
    print(f"{env.instruction}\n\n{text}")
    done, best, lost = False, 0, 0.0
    while not done:
        if show:
            chances = ", ".join(f"{name} {p:.2f}" for name, p in info["posterior"].items())
            print(f"  [{chances}; {info['best_question']}]")
        try:
            typed = input("> ").strip()
        except EOFError:
            typed = ""
        if not typed:
            print("\nThe consultation was left.")
            return
        text, reward, done, _, info = env.step(_action(env, typed))
        print(text)
        best += info["turn_rewards"]["q_star"] > -1e-9
        lost -= info["turn_rewards"]["q_star"]
    verdict = "Right" if reward else "Wrong"
    turns = f"{best} of your {info['turn']} turns were best ones"
    print(f"{verdict}. {turns}; {100 * lost:.1f} points lost.")


def _action(env: ClinicEnv, typed: str) -> str:
    """What a person types: an action, a label, a finding's name, or any other question."""
    if read_action(typed).kind != "none":
        return typed
    if typed.upper() in env.present.labels:
        return f"Final Answer: {typed.upper()}"
    return f"Question: {ask(typed) if typed in env.world.findings else typed}"


def _leaderboard(given: argparse.Namespace) -> None:
    if given.episodes < 2:
        raise ValueError(f"--episodes {given.episodes}: a mean needs at least 2; give more")
    players = dict(PLAYERS)
    for path in given.player:
        if not path.is_file():
            raise ValueError(f"--player {path}: no such file; name a Python file")
        names = runpy.run_path(str(path))
        if "play" not in names:
            raise ValueError(f"--player {path}: it has no function `play(envs)`; add one")
        players[names.get("NAME", path.stem)] = names["play"]
    scores = {
        name: measure(player, given.episodes, given.seed, world=given.world)
        for name, player in players.items()
    }
    print(table(scores))


if __name__ == "__main__":
    sys.exit(main())
