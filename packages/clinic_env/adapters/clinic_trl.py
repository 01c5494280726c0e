"""The clinic for TRL: `GRPOTrainer(..., environment_factory=ClinicTools)`.

TRL offers the public methods as tools, appends what `reset` returns to the prompt, and takes the
reward from `get_reward`. A dataset's column `seed` says which case a row is; rows of one group then
share it.
"""

from typing import Any

from clinic_env.consultation import question_about
from clinic_env.env import ClinicEnv


class ClinicTools:
    """One consultation as tools; TRL makes one for each rollout and resets it."""

    def __init__(self) -> None:
        self._env = ClinicEnv(exact=False)

    def reset(self, seed: int | None = None, **_: Any) -> str:
        """Open a case.

        Args:
            seed: of the case; None goes on with the one that follows.
        """
        opening, _info = self._env.reset(seed=seed)
        return f"You can ask {self._env.present.questions_left} questions.\n{opening}"

    def ask(self, finding: str) -> str:
        """Ask the patient about one finding.

        Args:
            finding: the colour of the spots, such as "amber".

        Returns:
            The patient's answer.
        """
        numbers = self._env.world.finding_numbers
        if finding not in numbers:
            raise ValueError(f"no such finding; the findings are {', '.join(numbers)}")
        return self._take(question_about(self._env.world, numbers[finding]))

    def diagnose(self, label: str) -> str:
        """Give the final diagnosis. This ends the consultation.

        Args:
            label: of the option, such as "A".

        Returns:
            The correct diagnosis.
        """
        return self._take(f"Final Answer: {label}")

    def get_reward(self) -> float:
        """1 for the correct diagnosis, else 0; 0 too where none was given."""
        return self._env.present.reward

    def _take(self, text: str) -> str:
        if self._env.present.done:
            raise ValueError("the consultation has ended")
        return self._env.step(text)[0]
