"""What a doctor's question asks about."""

import re

from data_prep.clinic.world import World


def asked_findings(world: World, question: str) -> set[int]:
    """Findings that a question names, by index."""
    words = set(re.findall(r"\w+", question))
    return {i for i, name in enumerate(world.findings) if name in words}
