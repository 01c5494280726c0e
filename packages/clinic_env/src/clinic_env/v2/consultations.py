"""The rules: N consultations side by side, in numbers and in words.

Every form of the environment is this one. An action is a number: f < F asks about finding f, F + d
names disease d, -1 (`NOTHING`) loses the turn. So no action asks about two findings, and `act`
makes a number of every text.
"""

from collections.abc import Sequence

import numpy as np

from clinic_env.consultation import opening
from clinic_env.v2.cases import Cases, cases_of, checked_split, numbers_per_case, stream
from clinic_env.v2.reading import read
from clinic_env.v2.values import NOTHING
from clinic_env.v2.world import World
from clinic_env.world import LABELS, state_complaint, state_finding

UNHEARD, ABSENT, PRESENT = -1, 0, 1  # what a turn was told


class Consultations:
    """N consultations of one world.

    Args:
        count: N.
        world: the clinic.
        split: the cases', one of `cases.SPLITS`.
        draw: which of the leaderboard's cases; None draws it, which makes cases that nobody knows.

    Attributes:
        cases: the N present cases, `Cases`.
        heard: int [N, F, 2], how often the patients answered "absent" and "present".
        turn: int [N], turns taken.
        done: bool [N].
        draw: the leaderboard's, or empty.
    """

    def __init__(self, count: int, world: World, split: str = "train", draw: str | None = None):
        self.count, self.world, self.split = count, world, split
        self.draw = checked_split(split, draw)
        findings, first = len(world.findings), numbers_per_case(world)
        self.cases = cases_of(world, np.zeros((count, first)))
        self.heard = np.zeros((count, findings, 2), np.int64)
        self.turn = np.zeros(count, np.int64)
        self.done = np.ones(count, bool)
        self._streams: list[np.random.Generator] = []
        self.seed(int(np.random.SeedSequence().generate_state(1)[0]))

    def seed(self, seed: int) -> None:
        """The next cases of row i are those that `seed` + i names."""
        self._streams = [
            stream(self.world, self.split, seed + row, self.draw) for row in range(self.count)
        ]

    def open(self, rows: np.ndarray) -> None:
        """Open the next case in these rows."""
        size = numbers_per_case(self.world)
        if not len(rows):
            return
        drawn = cases_of(self.world, np.stack([self._streams[i].random(size) for i in rows]))
        for name in Cases.__dataclass_fields__:
            getattr(self.cases, name)[rows] = getattr(drawn, name)
        self.heard[rows], self.turn[rows], self.done[rows] = 0, 0, False

    def questions_left(self, row: int) -> int:
        """How many questions can still be answered."""
        return 0 if self.done[row] else int(self.world.questions - self.turn[row])

    def take(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take a turn in each row that is not done.

        Args:
            actions: int [N], as the module says.

        Returns:
            What each turn was told, int [N] of this module's constants, and rewards, float [N]:
            1 for the right disease, and less the price of a question that was answered.

        Raises:
            ValueError: a number is no action.
        """
        findings, diseases = len(self.world.findings), len(self.world.diseases)
        actions = np.asarray(actions, np.int64)
        if (
            actions.shape != (self.count,)
            or not ((actions >= NOTHING) & (actions < findings + diseases)).all()
        ):
            raise ValueError(
                f"actions are {self.count} numbers from -1 to {findings + diseases - 1}"
            )
        open_, last = ~self.done, self.turn == self.world.questions
        asking = open_ & ~last & (actions >= 0) & (actions < findings)
        told = np.full(self.count, UNHEARD)
        rows, asked = np.nonzero(asking)[0], actions[asking]
        told[asking] = self._answer(rows, asked)
        rewards = np.where(asking, -self.world.prices[np.where(asking, actions, 0)], 0.0)
        naming = open_ & (actions >= findings)
        rewards += naming & (actions - findings == self.cases.disease)
        self.turn += open_
        self.done |= open_ & (naming | last)
        return told, rewards

    def _answer(self, rows: np.ndarray, findings: np.ndarray) -> np.ndarray:
        times = self.heard[rows, findings].sum(axis=1)
        again = times if self.world.fresh else np.zeros_like(times)
        answers = self.cases.answers[rows, findings, again].astype(np.int64)
        new = np.ones(len(rows), bool) if self.world.fresh else times == 0
        self.heard[rows[new], findings[new], answers[new]] += 1
        return answers

    # The same in words.

    def options(self, row: int) -> dict[str, str]:
        """Label -> disease, in the order in which they are shown."""
        names = (self.world.diseases[d] for d in self.cases.options[row])
        return dict(zip(LABELS, names, strict=False))

    def opening(self, row: int) -> str:
        """What a doctor reads first."""
        complaint = self.world.complaints[self.cases.complaint[row]]
        return opening(state_complaint(complaint, "plain"), self.options(row))

    def act(self, row: int, text: str) -> tuple[int, str]:
        """The action of a text, and what a text that is none is told."""
        options = self.options(row)
        turn = read(text, self.world.findings, options)
        if turn.option:
            disease = self.world.diseases.index(options[turn.option])
            return len(self.world.findings) + disease, ""
        if turn.finding:
            return self.world.findings.index(turn.finding), ""
        return NOTHING, turn.reply

    def take_texts(self, texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """`take` with the doctors' words; the replies, and the rewards.

        A row that is done has the text "" and an empty reply.
        """
        before = self.done.copy()
        acts = [
            (NOTHING, "") if done else self.act(row, text)
            for row, (text, done) in enumerate(zip(texts, before, strict=True))
        ]
        told, rewards = self.take(np.array([number for number, _ in acts]))
        replies = []
        for row, (number, hint) in enumerate(acts):
            if before[row]:
                replies.append("")
            elif self.done[row]:
                replies.append(f"The diagnosis is {self.world.diseases[self.cases.disease[row]]}.")
            elif told[row] == UNHEARD:
                replies.append(hint)
            else:
                name = self.world.findings[number]
                replies.append(state_finding(name, bool(told[row])))
        return replies, rewards
