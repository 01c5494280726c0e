"""`ClinicEnv`: a consultation after Gymnasium's interface, text in and text out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clinic_env.consultation import Consultation, question_about, read_action
from clinic_env.frozen import load
from clinic_env.posterior import Values
from clinic_env.world import ClinicCase, asked_findings, draw_patient, write_case

INSTRUCTION = (
    "You are a doctor. Find out which of the options the patient has. In each turn either ask "
    "about one finding, as in `Question: Any amber spots?`, or give the label of your diagnosis, "
    "as in `Final Answer: A`. You have {turns} turns; the last one must be the final answer."
)


class ClinicEnv:
    """A doctor asks a patient, then names the diagnosis; the reward is 1 if it is right, else 0.

    Args:
        world: name of a frozen world.
        exact: whether `info` tells what is known exactly; without it a step takes microseconds.
        rules: what is changed of the world's `Rules`, by name; a world so changed is another task.

    Attributes:
        rng: draws the cases.
    """

    def __init__(self, world: str = "clinic-v1", *, exact: bool = True, **rules: Any):
        self.world, frozen = load(world)
        self.rules, self.exact = replace(frozen, **rules), exact
        self.rates = self.world.rates(self.rules.base_rates)
        self.values = Values(self.world, self.rates)
        self.rng = np.random.default_rng()
        self._present: Consultation | None = None
        self._beliefs: list[float] = []
        self._states: list[frozenset] = []

    @property
    def instruction(self) -> str:
        """The rules, for a chat model's system message."""
        return INSTRUCTION.format(turns=self.rules.max_turns)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The consultation as a chat, without a system message."""
        present = self.present
        chat = [{"role": "user", "content": present.opening}]
        for action, reply in zip(present.actions, present.replies, strict=True):
            chat += [{"role": "assistant", "content": action}, {"role": "user", "content": reply}]
        return chat

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Open a consultation.

        Args:
            seed: that of the cases from here on; None goes on with the cases that follow.
            options: `case`, a `ClinicCase` to play in place of a drawn one.

        Returns:
            The case's opening, and `info` (see `step`).
        """
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        case = (options or {}).get("case") or self._draw()
        self._present = Consultation(self.world, case, self.rules.max_turns, self.rates)
        self._beliefs, self._states = [], []
        return self._present.opening, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a turn.

        Args:
            action: a text; see `consultation.read_action`.

        Returns:
            The reply, the reward, whether the consultation has ended, False (nothing cuts a
            consultation short: turns are a part of the task), and `info`, which is for a trainer
            and never for the doctor:

            - `answer`: label of the correct option; `turn`: turns taken.
            - `posterior`: label -> its exact probability; `stop_value`: the highest of them.
            - `q_star`: finding -> Q*, accuracy if the best questions follow; empty at the end.
            - `best_question`: the text of one of highest Q*; None at the end.
            - `turn_rewards`: of this turn, see `_turn_rewards`; empty after `reset`.
            - `group`: at the end, what `turn_credit.Group` needs (`group_of` joins several).
        """
        present = self.present
        before = self._before(action) if self.exact else {}
        reply = present.take(action)
        info = self._info()
        if self.exact:
            info["turn_rewards"] = self._turn_rewards(before)
            if present.done:
                info["group"] = {
                    "rewards": [present.reward],
                    "beliefs": [self._beliefs],
                    "states": [self._states],
                }
        return reply, present.reward if present.done else 0.0, present.done, False, info

    def candidates(self, actions: Sequence[str]) -> dict[str, Any]:
        """What questions would bring at the present state; none of them is asked.

        Returns:
            `replies` of each candidate; `utilities`, the exact probability of the correct option
            after the reply; `expected`, the same over all replies; `q_star`. One that is not
            answered leaves the belief as it is.
        """
        present, rows = self.present, []
        for text in actions:
            action = read_action(text)
            asks = action.kind == "question" and present.questions_left > 0
            question = action.text if asks else ""
            rows.append(
                (
                    present.reply(sorted(asked_findings(self.world, question))) if asks else "",
                    present.utility(question),
                    present.expected_utility(question),
                    present.value_of(self.values, action),
                )
            )
        names = ("replies", "utilities", "expected", "q_star")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    @property
    def present(self) -> Consultation:
        """The open consultation, or the one that ended last.

        Raises:
            RuntimeError: none was opened.
        """
        if self._present is None:
            raise RuntimeError("no consultation is open: reset the environment first")
        return self._present

    def _draw(self) -> ClinicCase:
        options = int(self.rng.choice(self.rules.options))
        patient = draw_patient(self.world, self.rng, options, self.rates)
        return write_case(
            self.world, patient, self.rng, self.rules.recorded_facts, self.rules.wording
        )

    def _before(self, text: str) -> dict[str, float]:
        """What is known before a turn."""
        present, action = self.present, read_action(text)
        belief = present.posterior()
        self._beliefs.append(present.belief())
        self._states.append(frozenset(zip(present.actions, present.replies, strict=True)))
        lead = present.value_of(self.values, action) - present.best_value(self.values)
        before = {"belief": self._beliefs[-1], "expected": 0.0, "q_star": lead}
        if action.kind == "question" and present.questions_left:
            expected = present.expected_utility(action.text)
            before["expected"] = expected - float((belief**2).sum())
        return before

    def _turn_rewards(self, before: dict[str, float]) -> dict[str, float]:
        """Rewards of one turn that need the clinic alone.

        - `gain`: change of the correct option's probability (MT-GRPO's and IGPO's turn reward).
        - `log_gain`: the same of its logarithm (the change of TIPS's potential).
        - `expected_gain`: `gain` over all options and replies, before one is drawn.
        - `q_star`: Q* of the turn less that of the best one, V*; never above 0.
        """
        belief = self.present.belief()
        return {
            "gain": belief - before["belief"],
            "log_gain": float(np.log(belief / before["belief"])),
            "expected_gain": before["expected"],
            "q_star": before["q_star"],
        }

    def _info(self) -> dict[str, Any]:
        present = self.present
        info: dict[str, Any] = {"answer": present.case.answer, "turn": present.turns}
        if not self.exact:
            return info
        belief, values = present.posterior().tolist(), present.q_star(self.values)
        names, best = self.world.findings, present.best_question(self.values)
        return {
            **info,
            "posterior": dict(zip(present.labels, belief, strict=True)),
            "stop_value": max(belief),
            "q_star": {names[finding]: value for finding, value in values.items()},
            "best_question": None if best is None else question_about(self.world, best),
            "turn_rewards": {},
        }


def group_of(infos: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """The fields of a `turn_credit.Group`, of consultations of one case.

    Args:
        infos: the last `info` of each.
    """
    names = ("rewards", "beliefs", "states")
    return {name: [row for info in infos for row in info["group"][name]] for name in names}
