"""How often a selection rule picks one of the clinic's best first questions."""

import numpy as np

from analysis.collected import Collected
from analysis.continuation import Continued
from analysis.instrument import Instrument
from pcqc.choice import selected_success
from pcqc.clinic.posterior import best_first_questions
from pcqc.clinic.world import World, asked_findings


def picks(collected: Collected, found: Continued) -> dict[str, np.ndarray]:
    """rule -> [states] chance that it takes a question after one best finding and no other."""
    world, best = _best(collected, found)
    hits = [
        [len(asked := asked_findings(world, text)) == 1 and asked <= findings for text in row]
        for row, findings in zip(found.questions, best, strict=True)
    ]
    return selected_success(found.utility, np.array(hits, float).reshape(found.utility.shape))


def chance(collected: Collected, found: Continued) -> np.ndarray:
    """[states] share of best findings among all but the complaint: a random doctor's chance."""
    world, best = _best(collected, found)
    return np.array([len(findings) for findings in best]) / (len(world.findings) - 1)


def _best(collected: Collected, found: Continued) -> tuple[World, list[set[int]]]:
    """The world, and the best first findings of each state's case."""
    instrument = Instrument(collected, collected.study.development)
    cases = [instrument.cases[case_id] for case_id in found.case_ids]
    best = [set(best_first_questions(instrument.world, c, instrument.rates)) for c in cases]
    return instrument.world, best
