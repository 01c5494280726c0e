"""Lexical near-duplicates: every pair of texts whose n-gram counts have a cosine over a threshold.

The search is exact but does not compare all pairs. The dot product of a pair has two parts: the
rare n-grams of the first text, which sparse matrices multiply quickly, and the frequent ones, which
are only bounded. Pairs that the bound does not rule out are computed in full.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

ROWS = 256  # texts of the first set per block
PAIRS = 4096  # candidates per block
# Largest norm of a text's frequent n-grams, as a share of threshold times the text's norm. With a
# smaller share fewer pairs are computed in full; below 1, results do not depend on it.
FREQUENT = 0.8
MARGIN = 1e-9  # for the rounding of bounds; cosines are computed from whole numbers


@dataclass(frozen=True)
class Measure:
    """A cosine between n-gram counts, and the threshold from which two texts are near-duplicates.

    Attributes:
        name: in tables and files.
        analyzer: scikit-learn's: `char` or `word`.
        ngrams: shortest and longest n-gram.
        threshold: of the cosine, included.
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

    Memory is bounded by the texts' n-gram counts and one block of candidates.
    """
    counts = measure.count([*first, *second])
    a, b = counts[: len(first)], counts[len(first) :]
    norms = squared_norms(a), squared_norms(b)
    near: dict[tuple[int, int], float] = {}
    for pairs in possible_pairs(a, b, norms, measure.threshold):
        for (i, j), cosine in zip(pairs.tolist(), _cosines(a, b, norms, pairs), strict=True):
            if cosine >= measure.threshold:
                near[i, j] = float(cosine)
    return near


def squared_norms(counts: sparse.csr_matrix) -> np.ndarray:
    """Squared Euclidean norm of each row; whole numbers."""
    return np.asarray(counts.multiply(counts).sum(axis=1)).ravel()


def possible_pairs(a, b, norms, threshold: float) -> Iterator[np.ndarray]:
    """Per block of rows of `a`: [P, 2] pairs of rows that may reach the threshold, in order.

    By Cauchy-Schwarz the frequent n-grams of a row add at most their norm times the other row's.
    """
    frequency = np.bincount(b.indices, minlength=b.shape[1])
    rare = rare_part(a, frequency, (FREQUENT * threshold) ** 2 * norms[0])
    frequent = np.sqrt(norms[0] - squared_norms(rare))
    transposed = b.T.tocsr()
    lengths = [np.sqrt(np.maximum(norm, 1)) for norm in norms]
    for start in range(0, a.shape[0], ROWS):
        products = (rare[start : start + ROWS] @ transposed).tocoo()
        rows, columns = products.row + start, products.col
        bound = (products.data / lengths[1][columns] + frequent[rows]) / lengths[0][rows]
        possible = np.stack([rows, columns], axis=1)[bound >= threshold - MARGIN]
        yield possible[np.lexsort((possible[:, 1], possible[:, 0]))]


def rare_part(counts: sparse.csr_matrix, frequency: np.ndarray, limit: np.ndarray):
    """Rows without their most frequent n-grams, as many as have a squared norm within a limit.

    Args:
        counts: [texts, n-grams].
        frequency: [n-grams] number of other texts that have it.
        limit: [texts] squared norm that may be left out of a row.
    """
    per_row = np.diff(counts.indptr)
    rows = np.repeat(np.arange(counts.shape[0]), per_row)
    order = np.lexsort((-frequency[counts.indices], rows))
    squares = np.cumsum(counts.data[order] ** 2)
    before = np.concatenate([[0], squares])[counts.indptr[:-1]]
    within = squares - np.repeat(before, per_row)
    kept = order[within > np.repeat(limit, per_row)]
    return sparse.csr_matrix((counts.data[kept], (rows[kept], counts.indices[kept])), counts.shape)


def _cosines(a, b, norms, pairs: np.ndarray) -> np.ndarray:
    """Cosine of each pair of rows, from whole numbers: exact where it is a ratio of them."""
    dots = [
        np.asarray(a[part[:, 0]].multiply(b[part[:, 1]]).sum(axis=1)).ravel()
        for part in np.split(pairs, range(PAIRS, len(pairs), PAIRS))
    ]
    products = norms[0][pairs[:, 0]] * norms[1][pairs[:, 1]]
    return np.concatenate(dots) / np.sqrt(products)
