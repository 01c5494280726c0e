"""Near-duplicates are exactly those that comparing every pair would find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from data_prep.lexical import CHARACTERS, WORDS, Measure, near_duplicates

WORDS_OF_TEXTS = ["a", "5", "fever", "cough", "pain", "x1", "knee", "of", "of", "the", "the", "the"]
words = st.sampled_from(WORDS_OF_TEXTS)
texts = st.lists(st.lists(words, min_size=3, max_size=30).map(" ".join), min_size=1, max_size=12)
MEASURES = [CHARACTERS, WORDS, Measure("loose", "word", (1, 1), 0.4)]


def every_pair(first, second, measure):
    """Cosine [first, second] of every pair, by scikit-learn."""
    pattern = r"\b\w+\b" if measure.analyzer == "word" else None
    counts = CountVectorizer(
        analyzer=measure.analyzer, ngram_range=measure.ngrams, token_pattern=pattern
    ).fit_transform([*first, *second])
    return cosine_similarity(counts[: len(first)], counts[len(first) :])


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
@settings(max_examples=60, deadline=None)
@given(first=texts, second=texts)
def test_none_is_missed_and_none_invented(measure, first, second):
    # Some of the second texts are made near to the first ones.
    second = second + [text + " cough" for text in first]
    near = near_duplicates(first, second, measure)
    dense = every_pair(first, second, measure)
    # The dense cosines are rounded: those at the threshold itself are decided by whole numbers.
    sure = {tuple(p) for p in np.argwhere(dense >= measure.threshold + 1e-9).tolist()}
    maybe = {tuple(p) for p in np.argwhere(dense >= measure.threshold - 1e-9).tolist()}
    assert sure <= near.keys() <= maybe
    assert list(near) == sorted(near)
    assert near == pytest.approx({pair: dense[pair] for pair in near})


def numbered(start, count):
    return [f"w{number}" for number in range(start, start + count)]


def test_a_cosine_at_the_threshold_itself_counts():
    """100 words each, 90 in common, are a cosine of 0.9; 89 in common are not."""
    measure = Measure("words", "word", (1, 1), 0.90)
    text, other = numbered(0, 100), numbered(200, 11)
    at, below = " ".join(text[:90] + other[:10]), " ".join(text[:89] + other)
    assert near_duplicates([" ".join(text)], [below, at], measure) == {(0, 1): 0.9}


def test_a_text_without_ngrams_is_near_to_none():
    assert near_duplicates(["!", "some words"], ["?", "some words"], WORDS) == {(1, 1): 1.0}
