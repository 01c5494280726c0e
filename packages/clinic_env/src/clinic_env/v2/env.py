"""`ClinicEnv`: one consultation after Gymnasium's interface, text in and text out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clinic_env.v2.consultations import Consultations
from clinic_env.v2.handbook import handbook
from clinic_env.v2.values import CaseValues, Values
from clinic_env.v2.world import NAMES, load
from clinic_env.world import LABELS, ask, state_finding

FIRST = np.zeros(1, np.int64)


class ClinicEnv:
    """A doctor asks a patient, then names the diagnosis.

    Args:
        world: name of a frozen world.
        split: the cases', one of `cases.SPLITS`.
        draw: which of the leaderboard's cases; None draws it.
        exact: whether `info` tells what is known exactly; without it a step takes microseconds.
        values: the world's, where several environments share what they compute.

    Attributes:
        game: the rules, `Consultations` of one row.
        instruction: the handbook, for a chat model's system message.
    """

    def __init__(
        self,
        world: str = NAMES[0],
        *,
        split: str = "train",
        draw: str | None = None,
        exact: bool = True,
        values: Values | None = None,
    ):
        self.world, self.exact = load(world), exact
        self.game = Consultations(1, self.world, split, draw)
        self.values = values or Values(self.world)
        self.instruction = handbook(self.world)
        self._known: CaseValues | None = None
        self._turns: list[tuple[str, str]] = []
        self._opening, self._score = "", 0.0
        self._beliefs: list[float] = []
        self._states: list[frozenset] = []

    @property
    def messages(self) -> list[dict[str, str]]:
        """The consultation as a chat, new at each call: handbook, opening, and the turns."""
        chat = [_message("system", self.instruction), _message("user", self._opening)]
        for text, reply in self._turns:
            chat += [_message("assistant", text), _message("user", reply)]
        return chat

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Open a consultation.

        Args:
            seed: names the case, and those of later calls without one.
            options: part of Gymnasium's interface; nothing is read from it.

        Returns:
            The case's opening, and `info` (see `step`) with `instruction`, the handbook.
        """
        if seed is not None:
            self.game.seed(seed)
        self.game.open(FIRST)
        self._opening, self._score = self.game.opening(0), 0.0
        self._turns, self._beliefs, self._states = [], [], []
        cases = self.game.cases
        self._known = self.values.of(cases.options[0], cases.complaint[0])
        return self._opening, {"instruction": self.instruction, **self._info({})}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a turn.

        Args:
            action: a doctor's words; see `reading.read`.

        Returns:
            The reply, the reward (1 for the right diagnosis, less the price of an answered
            question), whether the consultation has ended, False (turns are a part of the task, so
            nothing cuts a consultation short), and `info`, which is for a trainer and never for
            the doctor:

            - `answer`: label of the correct option; `turn`: turns taken; `score`: rewards so far.
            - `posterior`: label -> its exact probability; `stop_value`: the highest of them.
            - `q_star`: finding -> Q*, the score to come if the best turns follow; empty at the end.
            - `best_question`: the text of one of highest Q*; None where none can be answered.
            - `turn_rewards`: of this turn, see `_turn_rewards`; empty after `reset`.
            - `group`: at the end, what `turn_credit.Group` needs (`group_of` joins several).

        Raises:
            RuntimeError: no consultation is open.
        """
        if self.done:
            raise RuntimeError("no consultation is open: reset the environment")
        number, _ = self.game.act(0, action)
        before = self._before(number) if self.exact else {}
        (reply,), (reward,) = self.game.take_texts([action])
        self._turns.append((action, reply))
        self._score += float(reward)
        return reply, float(reward), self.done, False, self._info(before)

    @property
    def done(self) -> bool:
        """Whether no consultation is open."""
        return bool(self.game.done[0])

    @property
    def score(self) -> float:
        """The rewards of the consultation so far."""
        return self._score

    def posterior(self) -> np.ndarray:
        """float [D], exact P(disease | all answers so far)."""
        return self.known.posterior(self.heard)

    def best_value(self) -> float:
        """V*: the score to come if every turn is a best one; 0 at the end."""
        return 0.0 if self.done else self.known.value(self.heard, self.questions_left)

    def value_of(self, text: str) -> float:
        """Q*: the score to come of a text if the best turns follow."""
        return self.known.turn(self.heard, self.questions_left, self.game.act(0, text)[0])

    @property
    def heard(self) -> np.ndarray:
        """int [F, 2], how often the patient answered "absent" and "present"."""
        return self.game.heard[0]

    @property
    def questions_left(self) -> int:
        """Questions that can still be answered."""
        return self.game.questions_left(0)

    @property
    def known(self) -> CaseValues:
        """What is known exactly of the case.

        Raises:
            RuntimeError: none was opened.
        """
        if self._known is None:
            raise RuntimeError("no consultation is open: reset the environment")
        return self._known

    def candidates(self, texts: Sequence[str]) -> dict[str, list]:
        """What texts would bring at the present state; none of them is a turn.

        Returns:
            `replies` to each; `utilities`, the exact probability of the correct option after the
            reply; `expected`, the same over all diseases and replies; `q_star`. A text that is not
            answered leaves the belief as it is.
        """
        rows: dict[str, list] = {"replies": [], "utilities": [], "expected": [], "q_star": []}
        for text in texts:
            number, _ = self.game.act(0, text)
            reply, heard = "", self.heard
            if 0 <= number < len(self.world.findings) and self.questions_left:
                heard, present = self._after(number)
                reply = state_finding(self.world.findings[number], present)
            rows["replies"].append(reply)
            rows["utilities"].append(self._belief(heard))
            rows["expected"].append(self._expected(number))
            rows["q_star"].append(self.value_of(text))
        return rows

    def _after(self, finding: int) -> tuple[np.ndarray, bool]:
        """What would be heard after a question, and its answer."""
        heard, answers = self.heard.copy(), self.game.cases.answers[0, finding]
        times = int(heard[finding].sum())
        present = bool(answers[times if self.world.fresh else 0])
        if self.world.fresh or not times:
            heard[finding, int(present)] += 1
        return heard, present

    def _belief(self, heard: np.ndarray) -> float:
        return float(self.known.posterior(heard)[self.game.cases.disease[0]])

    def _expected(self, number: int) -> float:
        """Mean over diseases and replies of the belief in the correct disease after a turn."""
        heard = self.heard
        asks = 0 <= number < len(self.world.findings) and self.questions_left
        if not asks or (heard[number].any() and not self.world.fresh):
            return float((self.posterior() ** 2).sum())
        joint = self.known.after_each_answer(heard, number)
        return float(((joint**2).sum(axis=1) / joint.sum(axis=1)).sum())

    def _before(self, number: int) -> dict[str, float]:
        """What is known before a turn."""
        belief = self._belief(self.heard)
        self._beliefs.append(belief)
        self._states.append(frozenset(self._turns))
        lead = self.known.turn(self.heard, self.questions_left, number) - self.best_value()
        expected = self._expected(number) - float((self.posterior() ** 2).sum())
        return {"belief": belief, "expected": expected, "q_star": lead}

    def _turn_rewards(self, before: Mapping[str, float]) -> dict[str, float]:
        """Rewards of one turn that need the clinic alone.

        - `gain`: change of the correct option's probability (MT-GRPO's and IGPO's turn reward).
        - `log_gain`: the same of its logarithm (the change of TIPS's potential).
        - `expected_gain`: `gain` over all options and replies, before one is drawn.
        - `q_star`: Q* of the turn less that of the best one, V*; never above 0.
        """
        belief = self._belief(self.heard)
        return {
            "gain": belief - before["belief"],
            "log_gain": float(np.log(belief / before["belief"])),
            "expected_gain": before["expected"],
            "q_star": before["q_star"],
        }

    def _info(self, before: Mapping[str, float]) -> dict[str, Any]:
        game, names = self.game, self.world.findings
        place = int((game.cases.options[0] == game.cases.disease[0]).argmax())
        info = {"answer": LABELS[place], "turn": int(game.turn[0]), "score": self._score}
        if not self.exact:
            return info
        left, belief = self.questions_left, self.posterior()[game.cases.options[0]].tolist()
        best = self.known.best_question(self.heard, left)
        values = self.known.ask(self.heard, left).tolist() if left else []
        info["posterior"] = dict(zip(LABELS, belief, strict=False))
        info["stop_value"] = max(belief)
        info["q_star"] = dict(zip(names, values, strict=False))
        info["best_question"] = None if best is None else question_about(names[best])
        info["turn_rewards"] = self._turn_rewards(before) if before else {}
        if self.done:
            group = {"rewards": [self._score], "beliefs": [self._beliefs], "states": [self._states]}
            info["group"] = group
        return info


def question_about(finding: str) -> str:
    """A doctor's text that asks about a finding."""
    return f"Question: {ask(finding)}"


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
