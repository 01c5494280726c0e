"""`python -m clinic_env`: played by a person, measured by a program."""

import io
import re
import sys
from pathlib import Path

import pytest

from clinic_env.__main__ import main
from clinic_env.players import PLAYERS, measure, table
from clinic_env.v2 import NAMES, RULES, doctor
from clinic_env.v2 import measure as measure_v2
from clinic_env.v2 import table as table_v2
from clinic_env.v2.score import table_of_worlds

README = Path(__file__).parents[1] / "README.md"
README_DRAW = re.compile(r"`--draw ([0-9a-f]{32})`")


@pytest.fixture
def typed(monkeypatch):
    def answer(*lines):
        rest = iter(lines)

        def line(_):
            try:
                return next(rest)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", line)

    return answer


def test_a_person_types_a_finding_a_question_and_a_label(typed, capsys):
    typed("amber", "Do you have any azure spots", "a")
    assert main(["play", "--seed", "3", "--show"]) == 0
    told = capsys.readouterr().out
    assert "You have 4 turns" in told
    assert told.count("[A 0.") == 3
    assert re.search(r"^amber spots (present|absent)", told, re.M)
    assert "The diagnosis is" in told
    assert told.splitlines()[-1].startswith(("Right.", "Wrong."))


def test_an_empty_line_ends_the_game(typed, capsys):
    typed("")
    assert main(["play", "--world", "clinic-v2-lies"]) == 0
    assert "was left" in capsys.readouterr().out


def test_a_person_is_a_row_of_the_leaderboard(typed, capsys):
    typed("olive?", "", "a", "b")
    given = ["leaderboard", "--alone", "--person", "--cases", "2", "--world", NAMES[0]]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert told.count("You are a doctor in the clinic") == 1
    assert re.search(r"^\| you \| -?\d+\.\d ± ", told, re.M)
    assert "The diagnosis is" not in told
    typed("olive?")
    assert main(given) == 2


def test_a_terminal_that_lacks_a_sign_still_gets_the_table(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, "ascii"))
    assert main(["leaderboard", "--cases", "2", "--world", NAMES[0]]) == 0
    sys.stdout.flush()
    assert re.search(rb"\d \? \d", printed.getvalue())


def test_the_table_has_a_row_for_each_player_and_its_draw_repeats_it(tmp_path, capsys):
    player = tmp_path / "mine.py"
    player.write_text("def play(chats):\n    return ['Final Answer: A' for _ in chats]\n")
    given = ["leaderboard", "--cases", "3", "--world", NAMES[0], "--player", str(player)]
    assert main(given) == 0
    first = capsys.readouterr().out
    for name in (*RULES, "mine"):
        assert f"| {name} | " in first
    draw = re.search(r"--draw ([0-9a-f]{32})", first)[1]
    assert main([*given, "--draw", draw]) == 0
    assert capsys.readouterr().out == first
    assert main(given) == 0
    assert draw not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--player", "none.py"], "--player none.py: no such file"),
        (["--cases", "1"], "1 cases: a mean needs at least 2; give more"),
        (["--alone"], "--alone: nobody plays; add --player, --model or --person"),
        (["--split", "train", "--draw", "00"], "the cases of 'train' are the same for all"),
        (["--model", "http://127.0.0.1:9/v1", "--model-name", "m", "--body", "[]"], "--body []:"),
    ],
)
def test_bad_input_is_told_in_one_line(given, message, capsys):
    assert main(["leaderboard", *given]) == 2
    assert capsys.readouterr().err.startswith(f"clinic_env: error: {message}")


def test_a_file_without_a_player_is_told(tmp_path, capsys):
    (tmp_path / "x.py").write_text("")
    assert main(["leaderboard", "--player", str(tmp_path / "x.py")]) == 2
    assert "it has no function `play(chats)`; add one" in capsys.readouterr().err


def test_the_readme_s_leaderboards_are_what_the_commands_print():
    """Two rows of clinic-v1's; of clinic-v2's the cells of one world, from the draw of the page."""
    page = README.read_text(encoding="utf-8")
    for name in ("no question", "best question (Q*)"):
        assert table({name: measure(PLAYERS[name])}).splitlines()[-1] in page.splitlines()
    name, draw = "greedy, one question ahead", README_DRAW.search(page)[1]
    score = {name: {NAMES[0]: measure_v2(doctor(RULES[name]), NAMES[0], draw=draw)}}
    cell = table_v2(score).splitlines()[-1].split(" | ")[2]
    row = next(line for line in page.splitlines() if line.startswith(f"| {name} | "))
    assert row.split(" | ")[2] == cell
    points = table_of_worlds(score).splitlines()[-1].split(" | ")[1].rstrip(" |")
    *_, row = (line for line in page.splitlines() if line.startswith(f"| `{NAMES[0]}` | "))
    assert row.split(" | ")[4] == points
