"""Time, memory and exactness of the overlap audit.

    python -m benchmarks.overlap [--training 14256] [--evaluation 1954]

Prompts are the published MedQA cases, replicated with words replaced; where those are not at
../shared/data, texts of the same length and word frequencies. Among them are near-duplicates just
over and just under each threshold. Smaller shares of the prompts show how time grows. What was
found is checked against every pair of a sample, and for all planted pairs, by scikit-learn's own
cosines. Prints JSON; exits with 1 if a bound is missed.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from benchmarks.measure import Finding, report, resident_gib
from data_prep.convert import convert_file
from data_prep.lexical import CHARACTERS, WORDS, Measure
from data_prep.overlap import Audit, Prompt, find_overlap, read_prompts

FILES = ("atpo/medqa_test_dataset.jsonl", "mediq/medqa_dev_convo.jsonl")
MEASURES = (CHARACTERS, WORDS)
BOUNDS = {"seconds": 180, "gibibytes": 4}
PLANTED = 40  # evaluation prompts with near-duplicates planted, per measure
SAMPLE = 60  # evaluation prompts compared with every training prompt
SHARES = (0.25, 0.5, 1.0)
ROUNDING = 1e-9  # scikit-learn's cosines are rounded; ours are of whole numbers


def base_texts(rng: np.random.Generator) -> list[str]:
    """Normalised prompts of the published cases, or texts like them."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not all((folder / file).is_file() for file in FILES):
        words = [f"w{rank}" for rank in range(20_000)]
        weights = 1 / (np.arange(len(words)) + 3)
        weights /= weights.sum()
        return [" ".join(rng.choice(words, 48, p=weights)) for _ in range(2500)]
    with tempfile.TemporaryDirectory() as scratch:
        to = Path(scratch) / "cases.jsonl"
        texts = []
        for file in FILES:
            convert_file(folder / file, to)
            texts += [prompt.full for prompt in read_prompts("base", to)]
    return texts


def replicate(texts: list[str], count: int, rng: np.random.Generator) -> list[str]:
    """The texts, then copies of them with 30 to 90 % of their words replaced by others' words."""
    words = np.array([word for text in texts for word in text.split()])
    copies = list(texts[:count])
    while len(copies) < count:
        own = np.array(texts[rng.integers(len(texts))].split())
        replaced = rng.random(len(own)) < rng.uniform(0.3, 0.9)
        own = np.where(replaced, rng.choice(words, len(own)), own)
        copies.append(" ".join(own))
    return copies


def cosines(measure: Measure, texts: list[str], others: list[str]) -> np.ndarray:
    """Cosines [texts, others] by scikit-learn."""
    pattern = r"\b\w+\b" if measure.analyzer == "word" else None
    counts = CountVectorizer(
        analyzer=measure.analyzer, ngram_range=measure.ngrams, token_pattern=pattern
    ).fit_transform([*texts, *others])
    return cosine_similarity(counts[: len(texts)], counts[len(texts) :])


def around_threshold(text: str, measure: Measure, rng: np.random.Generator) -> tuple[str, str]:
    """Versions of a text with one word after another replaced: the last one over the threshold, and
    the first one under it."""
    words = text.split()
    versions = []
    for number, place in enumerate(rng.permutation(len(words))):
        words[place] = f"zq{number}"
        versions.append(" ".join(words))
    under = int(np.argmax(cosines(measure, [text], versions)[0] < measure.threshold - ROUNDING))
    return versions[under - 1] if under else text, versions[under]


def as_prompts(name: str, texts: list[str]) -> list[Prompt]:
    return [Prompt(name, str(index), text, text) for index, text in enumerate(texts)]


def found_pairs(audit: Audit, measure: Measure) -> set[tuple[str, str]]:
    """Evaluation and training text of each pair that a measure found."""
    return {
        (pair.evaluation.full, pair.training.full)
        for pair in audit.pairs
        if measure.name in pair.cosines
    }


def wrong_pairs(audit: Audit, measure: Measure, texts: list[str], training: list[str]) -> dict:
    """Pairs of some evaluation texts with all training texts that are missed, or invented."""
    true = cosines(measure, texts, training)
    pairs = found_pairs(audit, measure)
    found = np.array([[(text, other) in pairs for other in training] for text in texts])
    return {
        "missed": int((~found & (true >= measure.threshold + ROUNDING)).sum()),
        "invented": int((found & (true < measure.threshold - ROUNDING)).sum()),
    }


def growth(evaluation: list[str], training: list[str]) -> tuple[list[dict], Audit]:
    """Time at growing shares of the prompts, and the audit of all of them."""
    rows = []
    for share in SHARES:
        evaluated = as_prompts("evaluation", evaluation[: int(share * len(evaluation))])
        trained = as_prompts("training", training[: int(share * len(training))])
        start = time.perf_counter()
        audit = find_overlap(evaluated, trained)
        seconds = time.perf_counter() - start
        rows.append(
            {
                "evaluation": len(evaluated),
                "training": len(trained),
                "seconds": round(seconds, 2),
                "candidates": audit.candidates,
                "microseconds_per_candidate": round(
                    1e6 * seconds / sum(audit.candidates.values()), 2
                ),
            }
        )
    return rows, audit


def check(audit: Audit, measure: Measure, planted, sample: list[str], training: list[str]) -> dict:
    """How many planted pairs were found, and what a full comparison of a sample says."""
    found = found_pairs(audit, measure)
    return {
        "found": len(found),
        "planted": len(planted),
        "planted_over_found": sum((text, over) in found for text, over, _ in planted),
        "planted_under_found": sum((text, under) in found for text, _, under in planted),
        **wrong_pairs(audit, measure, sample, training),
    }


def exact(checks: dict) -> bool:
    """Whether every planted pair over the threshold was found, and no other was or should be."""
    return all(
        row["planted_over_found"] == row["planted"]
        and row["planted_under_found"] == row["missed"] == row["invented"] == 0
        for row in checks.values()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--training", type=int, default=14_256)
    parser.add_argument("--evaluation", type=int, default=1_954)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = base_texts(rng)
    half = len(texts) // 2
    evaluation = replicate(texts[:half], arguments.evaluation, rng)
    planted = {
        measure: [(text, *around_threshold(text, measure, rng)) for text in evaluation[:PLANTED]]
        for measure in MEASURES
    }
    versions = [text for triples in planted.values() for triple in triples for text in triple[1:]]
    training = versions + replicate(texts[half:], arguments.training - len(versions), rng)
    rows, audit = growth(evaluation, training)
    gibibytes = resident_gib()
    sample = [*evaluation[:PLANTED], *(str(text) for text in rng.choice(evaluation, SAMPLE))]
    checks = {
        measure.name: check(audit, measure, triples, sample, training)
        for measure, triples in planted.items()
    }
    prompts = f"{arguments.training:,} training and {arguments.evaluation:,} evaluation prompts"
    seconds = rows[-1]["seconds"]
    findings = [
        Finding(f"audit of {prompts}", seconds, "s", most=BOUNDS["seconds"]),
        Finding("memory for it", gibibytes, "GiB", most=BOUNDS["gibibytes"]),
        Finding("answers that are exact", float(exact(checks)), "of 1", least=1),
    ]
    return report(findings, gibibytes=round(gibibytes, 2), growth=rows, checks=checks)


if __name__ == "__main__":
    sys.exit(main())
