"""Play in the clinic, or measure doctors and speed."""

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from clinic_env import speed
from clinic_env.v2.cases import LEADERBOARD, SPLITS, new_draw
from clinic_env.v2.chats import Chat
from clinic_env.v2.endpoint import Endpoint
from clinic_env.v2.env import ClinicEnv
from clinic_env.v2.own_process import FilePlayer
from clinic_env.v2.players import RULES, Player, doctor
from clinic_env.v2.score import Score, measure, table, table_of_worlds
from clinic_env.v2.world import NAMES


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 2 and one line where the input is wrong."""
    given = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal's encoding may lack a sign
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clinic_env", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "be the doctor: type a question, or a label; an empty line ends the game"
    play = commands.add_parser("play", help=text, description=text)
    play.add_argument("--world", default=NAMES[0], choices=NAMES)
    play.add_argument("--seed", type=int, help="of the case; random by default")
    play.add_argument("--show", action="store_true", help="show posterior and best question")
    text = "measure doctors on cases that nobody has seen; print a table"
    board = commands.add_parser("leaderboard", help=text, description=text)
    add = board.add_argument
    add("--world", action="append", choices=NAMES, help="one of the worlds; all by default")
    add("--cases", type=int, default=250, help="of each world")
    add("--split", choices=SPLITS, default=LEADERBOARD, help="for trials: validation")
    add("--draw", help="repeat the cases of an earlier table, by the draw that it printed")
    add(
        "--player", type=Path, action="append", default=[], metavar="FILE",
        help="Python file with `play(chats) -> texts`; it is run, in a process of its own",
    )  # fmt: skip
    add("--person", action="store_true", help="play yourself")
    add("--model", metavar="URL", help="a chat model's URL, up to /v1")
    add("--model-name", metavar="NAME", help="the model's name on that server")
    add("--key-variable", default="OPENAI_API_KEY", help="environment variable of its API key")
    add("--body", default="{}", metavar="JSON", help="fields of its requests, as temperature")
    add("--parallel", type=int, default=8, help="most requests at a time")
    add("--alone", action="store_true", help="leave our own doctors out")
    add("--worlds", action="store_true", help="print each world's scores in points too")
    text = "steps a second on one core"
    commands.add_parser("speed", help=text, description=text)
    return parser


def _play(env: ClinicEnv, seed: int | None, show: bool) -> None:
    text, info = env.reset(seed=seed)
    print(f"{env.instruction}\n\n{text}")
    best, lost = 0, 0.0
    while not env.done:
        if show:
            chances = ", ".join(f"{name} {p:.2f}" for name, p in info["posterior"].items())
            print(f"  [{chances}; {info['best_question']}]")
        typed = _typed()
        if not typed:
            print("\nThe consultation was left.")
            return
        text, reward, _, _, info = env.step(typed)
        print(text)
        best += info["turn_rewards"]["q_star"] > -1e-9
        lost -= info["turn_rewards"]["q_star"]
    verdict = "Right" if reward > 0 else "Wrong"
    turns = f"{best} of your {info['turn']} turns were best ones"
    print(f"{verdict}. {turns}; {100 * lost:.1f} points lost.")


def _typed() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


class Person:
    """Whoever sits at the keyboard, as a player: one consultation at a time."""

    def __init__(self) -> None:
        self._handbook = ""

    def __call__(self, chats: Sequence[Chat]) -> list[str]:
        """What is typed; an empty line is asked for again."""
        (chat,) = chats
        if chat[0]["content"] != self._handbook:
            self._handbook = chat[0]["content"]
            print(f"\n{self._handbook}")
        if len(chat) == 2:
            print()
        print(chat[-1]["content"])
        with contextlib.suppress(EOFError):
            while True:
                if typed := input("> ").strip():
                    return [typed]
        raise ValueError("the keyboard's input has ended before the cases did")


def _leaderboard(given: argparse.Namespace) -> None:
    worlds = given.world or list(NAMES)
    draw = given.draw or (new_draw() if given.split == LEADERBOARD else None)
    scores: dict[str, dict[str, Score]] = {}
    with contextlib.ExitStack() as ends:
        for name, player in _players(given, ends).items():
            together = 1 if isinstance(player, Person) else 64
            scores[name] = {
                world: measure(
                    player, world, given.cases, draw=draw, split=given.split, together=together
                )
                for world in worlds
            }
    print(table(scores))
    if given.worlds:
        print(f"\n{table_of_worlds(scores)}")
    # Only now, when no player can use it any more.
    named = f"--draw {draw}" if draw else f"--split {given.split}"
    print(f"\n{given.cases} cases of each world: {named}")


def _players(given: argparse.Namespace, ends: contextlib.ExitStack) -> dict[str, Player]:
    players = {} if given.alone else {name: doctor(rule) for name, rule in RULES.items()}
    for path in given.player:
        player = ends.enter_context(FilePlayer(path))
        players[player.name] = player
    if given.model:
        endpoint = Endpoint(
            given.model,
            given.model_name,
            key_variable=given.key_variable,
            body=_fields(given.body),
            parallel=given.parallel,
        )
        players[endpoint.model] = endpoint
    if given.person:
        players["you"] = Person()
    if not players:
        raise ValueError("--alone: nobody plays; add --player, --model or --person")
    return players


def _fields(text: str) -> dict:
    with contextlib.suppress(json.JSONDecodeError):
        if isinstance(fields := json.loads(text), dict):
            return fields
    raise ValueError(f"--body {text}: give a JSON object, such as '{{\"temperature\": 0}}'")


if __name__ == "__main__":
    sys.exit(main())
