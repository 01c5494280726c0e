"""The clinic for TRL: `GRPOTrainer(..., environment_factory=ClinicTools)`.

TRL offers the public methods as tools, appends what `reset` returns to the prompt, and takes the
reward from `get_reward`. A dataset's column `seed` says which case of the split `train` a row is;
rows of one group then share it. For another world derive a class that sets `WORLD`.
"""

from typing import Any

from clinic_env.v2.env import ClinicEnv, question_about


class ClinicTools:
    """One consultation as tools; TRL makes one for each rollout and resets it."""

    WORLD = "clinic-v2-budget"

    def __init__(self) -> None:
        self._env = ClinicEnv(self.WORLD, exact=False)

    def reset(self, seed: int | None = None, **_: Any) -> str:
        """Open a case.

        Args:
            seed: the case's; None goes on with the one that follows.
        """
        opening, _info = self._env.reset(seed=seed)
        return f"{self._env.instruction}\n\n{opening}"

    def ask(self, finding: str) -> str:
        """Ask the patient about one finding.

        Args:
            finding: the colour of the spots, such as "amber".

        Returns:
            The patient's answer.
        """
        findings = self._env.world.findings
        if finding not in findings:
            raise ValueError(f"no such finding; the findings are {', '.join(findings)}")
        return self._take(question_about(finding))

    def diagnose(self, label: str) -> str:
        """Give the final diagnosis. This ends the consultation.

        Args:
            label: the option's, such as "A".

        Returns:
            The correct diagnosis.
        """
        return self._take(f"Final Answer: {label}")

    def get_reward(self) -> float:
        """1 for the correct diagnosis, else 0, less the prices of the questions."""
        return self._env.score

    def _take(self, text: str) -> str:
        if self._env.done:
            raise ValueError("the consultation has ended")
        return self._env.step(text)[0]
