"""Sparse documents of two or more groups that write about different topics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils import Bunch

from scalefair._random_state import random_generator
from scalefair.datasets import _common as common
from scalefair.datasets._common import Floats, Ints

_ZIPF_OFFSET = 10.0  # flattens the law, as the removal of stop words does
_COMMON = 0.5  # share of the words that do not depend on the topic
_FIRST_TOPIC = 0.7  # share of the others that come from the document's main topic
# Topics have frequencies 1 / rank**0.5; standard deviations of logarithms: of these
# per group, of a word's probability per topic, of a document's length.
_TOPIC_DECAY = 0.5
_GROUP_SPREAD, _TOPIC_SPREAD, _LENGTH_SPREAD = 1.0, 2.0, 0.5
_PILOT = 2000  # documents that calibrate the length

_DESCR = """\
Topic documents: {} sparse rows of tf-idf weights over {} words,
drawn from {} topics that {} groups use with different frequencies.
{} stored entries, density {:.3g}. `target` is the main topic of each document.
"""


@common.generator
def make_topic_documents(
    n_samples: int = 100_000,
    n_features: int = 50_000,
    *,
    density: float = 1e-3,
    n_topics: int = 100,
    group_probabilities: Sequence[float] = (0.7, 0.3),
    dtype: Any = np.float64,
    random_state: Any = None,
) -> Bunch:
    r"""Generate sparse text-like data whose groups differ in their topics.

    Each document has a main topic and a second one, drawn with the frequencies of
    its group. Half of its words come from a common Zipf-Mandelbrot distribution,
    :math:`p_j \propto 1 / (j + 10)`, the others from the topics, which multiply the
    common probabilities by independent log-normal factors. Counts are weighted by
    :math:`(1 + \log c)` times the inverse document frequency, rows scaled to norm 1.

    Parameters
    ----------
    n_samples : int, default=100_000
        Number of documents.
    n_features : int, default=50_000
        Number of words. The most frequent come first.
    density : float, default=1e-3
        Wanted share of stored entries, met within a few per cent; at most 0.1.
    n_topics : int, default=100
        Number of topics, at least 2; each takes ``8 * n_features`` bytes meanwhile.
    group_probabilities : sequence of float, default=(0.7, 0.3)
        Probability of each group; they sum to 1. Every group gets a document.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the weights.

    Returns
    -------
    data : Bunch
        - data : canonical csr_array of shape (n_samples, n_features), int32 indices
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - target : ndarray of int, shape (n_samples,), the main topic

    Examples
    --------
    >>> from scalefair.datasets import make_topic_documents
    >>> data = make_topic_documents(1000, 2000, density=0.01, random_state=0)
    >>> data.data.shape, round(data.data.nnz / 2_000_000, 3)
    ((1000, 2000), 0.01)
    """
    shares = common.check_shares(group_probabilities)
    common.check_count("n_samples", n_samples, shares.size, "one for each group")
    common.check_count("n_features", n_features, 2)
    common.check_count("n_topics", n_topics, 2)
    if not 1 <= density * n_features <= 0.1 * n_features:
        raise ValueError(
            f"density must be at most 0.1 and leave at least one word per document "
            f"(density * n_features >= 1), got {density}."
        )
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}.")
    rng = random_generator(random_state)
    groups = common.draw_groups(n_samples, shares, rng)
    topics = _draw_topics(groups, shares.size, n_topics, rng)
    words = _word_distributions(n_features, n_topics, rng)
    lengths = _draw_lengths(topics, words, density * n_features, rng)
    counts = _draw_counts(lengths, topics, words, rng)
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    X = sparse.csr_array(weights, dtype=dtype)
    return Bunch(
        data=X,
        sensitive_features=groups,
        target=topics[:, 0].copy(),
        DESCR=_DESCR.format(
            *(n_samples, n_features, n_topics, shares.size),
            *(X.nnz, X.nnz / (n_samples * n_features)),
        ),
    )


def _draw_topics(
    groups: Ints, n_groups: int, n_topics: int, rng: np.random.Generator
) -> Ints:
    """Draw the main and the second topic of each document, shape (n_samples, 2)."""
    base = np.arange(1, n_topics + 1) ** -_TOPIC_DECAY
    topics = np.empty((groups.size, 2), np.int64)
    for g in range(n_groups):
        frequencies = base * np.exp(_GROUP_SPREAD * rng.standard_normal(n_topics))
        frequencies /= frequencies.sum()
        members = groups == g
        topics[members] = rng.choice(n_topics, (members.sum(), 2), p=frequencies)
    return topics


def _word_distributions(
    n_features: int, n_topics: int, rng: np.random.Generator
) -> Floats:
    """Return cumulative probabilities of the words in each topic, then in common."""
    common = 1 / (np.arange(n_features) + _ZIPF_OFFSET)
    words = np.tile(common, (n_topics + 1, 1))
    words[:-1] *= np.exp(_TOPIC_SPREAD * rng.standard_normal((n_topics, n_features)))
    np.cumsum(words, axis=1, out=words)
    words /= words[:, -1:]
    return words


def _draw_lengths(
    topics: Ints, words: Floats, n_distinct: float, rng: np.random.Generator
) -> Ints:
    """Draw words per document such that `n_distinct` on average are distinct."""

    def round_up(lengths: Floats) -> Ints:
        return np.maximum(np.rint(lengths), 1).astype(np.int64)

    n = topics.shape[0]
    relative = np.exp(_LENGTH_SPREAD * rng.standard_normal(n) - _LENGTH_SPREAD**2 / 2)
    pilot = rng.choice(n, size=min(n, _PILOT), replace=False)
    mean = n_distinct
    for _ in range(8):
        lengths = round_up(mean * relative[pilot])
        counts = _draw_counts(lengths, topics[pilot], words, rng)
        ratio = n_distinct * pilot.size / counts.nnz
        if abs(ratio - 1) < 1e-2:
            break
        mean *= ratio
    return round_up(mean * relative)


def _draw_counts(
    lengths: Ints, topics: Ints, words: Floats, rng: np.random.Generator
) -> sparse.csr_array:
    """Count the words of each document."""
    document = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    which = rng.random(document.size)
    source = topics[document, (which > _COMMON + (1 - _COMMON) * _FIRST_TOPIC) * 1]
    source[which < _COMMON] = words.shape[0] - 1
    order = np.argsort(source, kind="stable")
    ends = np.cumsum(np.bincount(source, minlength=words.shape[0]))
    word = np.empty(document.size, np.int32)
    start = 0
    for cumulative, end in zip(words, ends, strict=True):
        drawn = rng.random(end - start)
        word[order[start:end]] = np.searchsorted(cumulative, drawn, side="right")
        start = end
    np.minimum(word, words.shape[1] - 1, out=word)  # a draw may round up to 1
    entries, shape = np.ones(document.size), (lengths.size, words.shape[1])
    return sparse.coo_array((entries, (document, word)), shape=shape).tocsr()
