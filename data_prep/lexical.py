"""Lexical near-duplicates: every pair of texts whose n-gram counts have a cosine over a threshold.

Counts are whole numbers, so a cosine is exact where it is a ratio of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

ROWS = 256  # texts of the first set per block


@dataclass(frozen=True)
class Measure:
    """A cosine between n-gram counts, and the threshold from which two texts are near-duplicates.

    Attributes:
        name: in tables and files.
        analyzer: scikit-learn's: `char` or `word`.
        ngrams: shortest and longest n-gram.
        threshold: the least cosine, included.
    """

    name: str
    analyzer: str
    ngrams: tuple[int, int]
    threshold: float

    def count(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Counts [texts, n-grams]. Words are runs of letters and digits, single ones too."""
        vectorizer = CountVectorizer(
            analyzer=self.analyzer,
            ngram_range=self.ngrams,
            token_pattern=r"\b\w+\b" if self.analyzer == "word" else None,
            lowercase=False,
            dtype=np.int64,
        )
        return vectorizer.fit_transform(texts)


CHARACTERS = Measure("char_5gram", "char", (5, 5), 0.85)
WORDS = Measure("word_1_2gram", "word", (1, 2), 0.90)


def near_duplicates(
    first: Sequence[str], second: Sequence[str], measure: Measure
) -> dict[tuple[int, int], float]:
    """(i, j) -> cosine(first[i], second[j]) of every pair that reaches the threshold, in order.

    Memory is bounded by the texts' n-gram counts and one block of pairs.
    """
    counts = measure.count([*first, *second])
    a, b = counts[: len(first)], counts[len(first) :]
    norms = _squared_norms(a), _squared_norms(b)
    transposed = b.T.tocsr()
    near: dict[tuple[int, int], float] = {}
    for start in range(0, len(first), ROWS):
        # The product has no entry for a pair that shares no n-gram.
        products = (a[start : start + ROWS] @ transposed).tocoo()
        rows, columns = products.row + start, products.col
        cosines = products.data / np.sqrt(norms[0][rows] * norms[1][columns])
        for k in np.flatnonzero(cosines >= measure.threshold):
            near[int(rows[k]), int(columns[k])] = float(cosines[k])
    return dict(sorted(near.items()))


def _squared_norms(counts: sparse.csr_matrix) -> np.ndarray:
    """Squared Euclidean norm of each row; whole numbers."""
    return np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
