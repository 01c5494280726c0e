"""Players in files: what a cheater finds in its own process, and what a broken one says."""

import runpy
import textwrap

import pytest

from clinic_env.v2 import NAMES, FilePlayer, measure

DRAW = "bad0" * 8
NOTHING_HEARD = 1e-9  # what a blind player may reach: rounding
# Each runs in a process of its own. `named` gives the labels that a file has come to know.
FILES = {
    "objects of the environment": """
        import gc, inspect
        def named(chat):
            frames = [frame.frame.f_locals for frame in inspect.stack()]
            held = [value for place in frames for value in place.values()] + gc.get_objects()
            for one in held:
                if type(one).__name__ == "ClinicEnv" and one.messages[1:2] == chat[1:2]:
                    yield one.reset.__self__._info({})["answer"]
    """,
    "the draw of its parent": """
        import os, re
        from pathlib import Path
        from clinic_env.v2 import ClinicEnv
        def named(chat):
            text = str(os.environ)
            for part in ("cmdline", "environ"):
                for who in ("self", str(os.getppid())):
                    text += Path(f"/proc/{who}/{part}").read_bytes().decode(errors="replace")
            for draw in re.findall(r"\\b[0-9a-f]{32}\\b", text):
                env = ClinicEnv(split="leaderboard", draw=draw, exact=False)
                for seed in range(30):
                    opening, info = env.reset(seed=seed)
                    if opening == chat[1]["content"]:
                        yield info["answer"]
    """,
    "the rules, changed": """
        from clinic_env.v2 import consultations, env, reading, score, values
        consultations.Consultations.take = lambda self, actions: (actions * 0, actions * 0 + 1.0)
        values.CaseValues.turn = lambda *_: 10.0
        values.CaseValues.value = lambda *_: 10.0
        reading.read = lambda *_: reading.Turn(option="A")
        named = lambda chat: "A"
    """,
}
PLAY = """
    def play(chats):
        labels = [next(iter(named(chat)), None) for chat in chats]
        return [f"Final Answer: {label}" if label else "hm" for label in labels]
"""


@pytest.fixture
def cheater(tmp_path):
    """The path of a file of `FILES`."""

    def write(what):
        path = tmp_path / "cheater.py"
        path.write_text(textwrap.dedent(FILES[what]) + textwrap.dedent(PLAY))
        return path

    return write


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_looks_around_finds_nothing(what, cheater):
    with FilePlayer(cheater(what)) as player:
        score = measure(player, NAMES[0], 30)
    assert score.reached[0] <= NOTHING_HEARD
    # It found nothing, and so named nothing; the last one names A, as often right as anybody.
    assert score.right <= (0.4 if what == "the rules, changed" else 0)


def test_the_same_search_finds_the_answer_where_it_can_and_reaches_nothing(cheater, monkeypatch):
    """In the environment's own process, and with the draw in a variable: right, and worth 0."""
    inside = runpy.run_path(str(cheater("objects of the environment")))["play"]
    scores = [measure(inside, NAMES[0], 6, draw=DRAW)]
    monkeypatch.setenv("DRAW", DRAW)
    with FilePlayer(cheater("the draw of its parent")) as player:
        scores.append(measure(player, NAMES[0], 6, draw=DRAW))
    for score in scores:
        assert score.right == 1
        assert score.reached[0] <= NOTHING_HEARD


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def play(chats): return ['hm']", "the player must give a list of 12 texts"),
        ("def play(chats): return ['hm'] * 99", "the player must give a list of 12 texts"),
        ("def play(chats): return [None] * 12", "the player must give texts, and gave a NoneType"),
        ("def play(chats): return 'hm'", "the player must give a list of 12 texts"),
        ("def play(chats): raise SystemExit(0)", "it ended; what it printed says why"),
        ("import os\ndef play(chats): os._exit(0)", "it ended; what it printed says why"),
        ("import os\ndef play(chats): os.write(3, b'x\\n' * 9)", "it wrote into its own answers"),
        ("import os\ndef play(chats): [os.write(i, b'9\\n') for i in (3, 4)]", "own answers"),
        ("x = 1", "it has no function `play(chats)`; add one"),
        ("play = lambda chats: print('hm') or ['hm'] * len(chats)", None),
    ],
)
def test_a_file_that_breaks_the_rules_of_a_player_ends_in_one_line(code, problem, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(code)

    def score():
        with FilePlayer(path) as player:
            return measure(player, NAMES[0], 12, draw=DRAW)

    if problem is None:
        assert score().refused == 1
        return
    with pytest.raises(ValueError, match=problem.replace("(", r"\(").replace(")", r"\)")):
        score()
