"""Golden files: what a consultation is made of, token by token, under two tokenizers.

`pytest tests/integration/pretrained/test_golden.py --golden` writes them; read the difference.
"""

from pathlib import Path

import numpy as np
from golden import golden_text
from helpers import INSTRUCTION, make_case

from pcqc.clinic.tokenizer import make_tokenizer
from pcqc.clinic.world import as_case, ask, draw_patient, make_world, state_finding
from pcqc.study import Benchmark, load_study

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"


def kept(name: str, text: str, rewrite: bool) -> str:
    """The golden file, which becomes `text` where it is to be written anew."""
    path = GOLDEN / f"{name}.txt"
    if rewrite:
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def test_the_clinics_tokenizer(rewrite):
    study = load_study("clinic")
    world = make_world(study.clinic)
    rng = np.random.default_rng(0)
    patient = draw_patient(world, rng, 4, world.rates("uniform"))
    case = as_case(world, patient, "golden-1", Benchmark("Golden", "held_out"), rng)
    first, second = patient.options[:2]
    name = case.options[case.answer]
    text = golden_text(
        "the clinic's tokenizer",
        make_tokenizer(world, INSTRUCTION),
        case,
        [
            f"<think>{name}</think>Question: {ask(world.findings[first])}",
            f"<think>{name}</think>Final Answer: {case.answer}",
        ],
        f"<think>{name}</think>Question: {ask(world.findings[second])}",
        state_finding(world.findings[first], patient.present[first]),
    )
    assert text == kept("clinic", text, rewrite)


def test_smollm2(smollm2, rewrite):
    text = golden_text(
        "SmolLM2's tokenizer and chat template",
        smollm2,
        make_case(
            initial="A 54-year-old man has chest pain.",
            question="What is the most likely diagnosis?",
            options={"A": "Angina", "B": "Pericarditis", "C": "Pneumonia", "D": "Reflux"},
        ),
        [
            "<think>\nIs it worse lying down?\n</think>\n\nQuestion: Does posture change the pain?",
            "<think>\nThat fits Pericarditis.\n</think>\n\nFinal Answer: B",
        ],
        "<think>\nThe heart?\n</think>\n\nQuestion: What does the ECG show?",
        "The pain grows worse on lying down (38.5 °C at home).",
    )
    assert text == kept("smollm2", text, rewrite)
