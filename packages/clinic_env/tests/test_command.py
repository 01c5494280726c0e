"""`python -m clinic_env`: played by a person, measured by a program."""

import re
from pathlib import Path

import pytest

from clinic_env.__main__ import main
from clinic_env.players import PLAYERS, measure, table


@pytest.fixture
def typed(monkeypatch):
    def answer(*lines):
        rest = iter(lines)
        monkeypatch.setattr("builtins.input", lambda _: next(rest))

    return answer


def test_a_person_types_a_finding_a_question_and_a_label(typed, capsys):
    typed("amber", "Do you have any azure spots", "a")
    assert main(["play", "--seed", "3", "--show"]) == 0
    told = capsys.readouterr().out
    assert "You have 10 turns" in told
    assert told.count("[A 0.") == 3
    assert re.search(r"^(amber spots (present|absent)|The patient cannot answer)", told, re.M)
    assert "The diagnosis is" in told
    assert told.splitlines()[-1].startswith(("Right.", "Wrong."))


def test_an_empty_line_ends_the_game(typed, capsys):
    typed("")
    assert main(["play"]) == 0
    assert "was left" in capsys.readouterr().out


def test_the_table_has_a_row_for_each_player(tmp_path, capsys):
    player = tmp_path / "mine.py"
    player.write_text("def play(envs):\n    return ['Final Answer: A' for _ in envs]\n")
    assert main(["leaderboard", "--episodes", "20", "--player", str(player)]) == 0
    *_, greedy, best, own = capsys.readouterr().out.splitlines()
    assert greedy.startswith("| greedy on the posterior | ")
    assert best.startswith("| best question (Q*) | ")
    assert own.startswith("| mine | ")
    assert own.endswith("| 0.0 | — | — |")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--player", "none.py"], "--player none.py: no such file"),
        (["--episodes", "1"], "--episodes 1: a mean needs at least 2; give more"),
    ],
)
def test_bad_input_is_told_in_one_line(given, message, capsys):
    assert main(["leaderboard", *given]) == 2
    assert capsys.readouterr().err.startswith(f"clinic_env: error: {message}")


def test_a_file_without_a_player_is_told(tmp_path, capsys):
    (tmp_path / "x.py").write_text("")
    assert main(["leaderboard", "--player", str(tmp_path / "x.py")]) == 2
    assert "it has no function `play(envs)`; add one" in capsys.readouterr().err


def test_the_readme_s_leaderboard_is_what_the_command_prints():
    rows = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").splitlines()
    for name in ("no question", "best question (Q*)"):
        assert table({name: measure(PLAYERS[name])}).splitlines()[-1] in rows
