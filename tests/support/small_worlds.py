"""Worlds of the clinic that are small enough to work out by hand, and cases in them."""

from clinic_env.world import World, draw_patient
from pcqc.cases.case import Case
from pcqc.seeds import generator
from pcqc_base.settings import Clinic
from pcqc_clinic.build import TRAINING
from pcqc_clinic.world import as_case

FIVE_DISEASES = Clinic(
    diseases=5,
    complaints=2,
    complaint_odds=3,
    noise=0.1,
    seed=3,
    training_cases=5,
    sft_conversations=5,
    sft_questions=(0, 1),
)
# Patients of both diseases complain of fatigue. Coral spots tell them apart nearly always, olive
# ones sometimes, jade ones never.
WORLD = World(
    ("amber", "azure"),
    ("coral", "olive", "jade"),
    ((0.9, 0.5, 0.3), (0.1, 0.1, 0.3)),
    ("fatigue",),
    ((1.0,), (1.0,)),
    (0.5, 0.5),
)
CASE = Case(
    case_id="case-0",
    source="clinic",
    initial="fatigue present.",
    question="Which?",
    options={"A": "amber", "B": "azure"},
    facts=("coral spots present.", "olive spots absent."),
    answer="A",
    origin={"file": "synthetic", "row": 0},
)
UNKNOWN = "The patient cannot answer this."


def drawn(world: World, count: int = 4, benchmark=TRAINING, rates=None) -> list:
    """Cases of three options, each with its patient."""
    rng = generator(1, "test")
    rates = world.rates("uniform") if rates is None else rates
    patients = [draw_patient(world, rng, 3, rates) for _ in range(count)]
    return [
        (as_case(world, patient, f"test-{i}", benchmark, rng), patient)
        for i, patient in enumerate(patients)
    ]
