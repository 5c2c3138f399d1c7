"""Text-like sparse rows with groups: documents of topics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils import Bunch

from scalefair._docs import documented
from scalefair._entries import check_count, random_generator
from scalefair.datasets._samples import TEXTS, Floats, Ints, check_shares, draw_groups

_DOCUMENTS_DESCR = """\
Topic documents: {n_samples} sparse rows of tf-idf weights over {n_features} words,
drawn from {n_topics} topics that {n_groups} groups use with different frequencies.
{nnz} stored entries, density {density:.3g}. `target` is the main topic of each
document.
"""


@documented(**TEXTS)
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
    %(random_state)s

    Returns
    -------
    data : Bunch
        - data : canonical csr_array of shape (n_samples, n_features), int32 indices
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - target : ndarray of int, shape (n_samples,), the main topic
        - DESCR : str

    %(raises)s

    Examples
    --------
    >>> from scalefair.datasets import make_topic_documents
    >>> data = make_topic_documents(1000, 2000, density=0.01, random_state=0)
    >>> data.data.shape, round(data.data.nnz / 2_000_000, 3)
    ((1000, 2000), 0.01)
    """
    shares = check_shares(group_probabilities)
    check_count("n_samples", n_samples, shares.size, "one for each group")
    check_count("n_features", n_features, 2)
    check_count("n_topics", n_topics, 2)
    if not 1 <= density * n_features <= 0.1 * n_features:
        raise ValueError(
            f"density must be at most 0.1 and leave at least one word per document "
            f"(density * n_features >= 1), got {density}."
        )
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}.")
    # Topics of documents, words of topics, lengths, then the words themselves.
    rng = random_generator(random_state)
    groups = draw_groups(n_samples, shares, rng)
    topics = _draw_topics(groups, shares.size, n_topics, rng)
    distributions = _word_distributions(n_features, n_topics, rng)
    lengths = _draw_lengths(topics, distributions, density * n_features, rng)
    counts = _draw_counts(lengths, topics, distributions, rng)
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    X = sparse.csr_array(weights, dtype=dtype)
    return Bunch(
        data=X,
        sensitive_features=groups,
        target=topics[:, 0].copy(),
        DESCR=_DOCUMENTS_DESCR.format(
            n_samples=n_samples,
            n_features=n_features,
            n_topics=n_topics,
            n_groups=shares.size,
            nnz=X.nnz,
            density=X.nnz / (n_samples * n_features),
        ),
    )


def _draw_topics(
    groups: Ints, n_groups: int, n_topics: int, rng: np.random.Generator
) -> Ints:
    """Draw the main and the second topic of each document, shape (n_samples, 2)."""
    # Frequencies 1 / rank**0.5, times log-normal factors of the group.
    base = np.arange(1, n_topics + 1) ** -0.5
    topics = np.empty((groups.size, 2), np.int64)
    for g in range(n_groups):
        frequencies = base * np.exp(rng.standard_normal(n_topics))
        frequencies /= frequencies.sum()
        # Both topics are drawn from the same frequencies: they may be equal.
        members = groups == g
        topics[members] = rng.choice(n_topics, (members.sum(), 2), p=frequencies)
    return topics


def _word_distributions(
    n_features: int, n_topics: int, rng: np.random.Generator
) -> Floats:
    """Return cumulative probabilities of words, shape (n_topics + 1, n_features).

    The last row is the distribution that all topics have in common.
    """
    # Zipf-Mandelbrot: the offset flattens the law, as to remove stop words does.
    zipf = 1 / (np.arange(n_features) + 10.0)
    distributions = np.tile(zipf, (n_topics + 1, 1))
    # Topics multiply it by log-normal factors, whose logarithms have deviation 2.
    distributions[:-1] *= np.exp(2.0 * rng.standard_normal((n_topics, n_features)))
    np.cumsum(distributions, axis=1, out=distributions)
    distributions /= distributions[:, -1:]
    return distributions


def _draw_lengths(
    topics: Ints, distributions: Floats, n_distinct: float, rng: np.random.Generator
) -> Ints:
    """Draw numbers of words of which `n_distinct` on average are distinct."""

    def as_integers(lengths: Floats) -> Ints:
        """Round to the nearest integers; a document has a word at least."""
        return np.maximum(np.rint(lengths), 1).astype(np.int64)

    # Lengths relative to their mean are log-normal: deviation 0.5 of the logarithm.
    n = topics.shape[0]
    # exp(s z) has the mean exp(s^2 / 2), which is divided out.
    relative = np.exp(0.5 * rng.standard_normal(n) - 0.5**2 / 2)
    # Words repeat, so that lengths have to be larger than `n_distinct`: fit their mean
    # to a sample of documents by fixed-point iteration, up to a hundredth.
    pilot = rng.choice(n, size=min(n, 2000), replace=False)
    mean = n_distinct
    for _ in range(8):
        lengths = as_integers(mean * relative[pilot])
        counts = _draw_counts(lengths, topics[pilot], distributions, rng)
        # Distinct words that are wanted in the pilot, by those that were drawn.
        ratio = n_distinct * pilot.size / counts.nnz
        if abs(ratio - 1) < 1e-2:
            break
        mean *= ratio
    return as_integers(mean * relative)


def _draw_counts(
    lengths: Ints, topics: Ints, distributions: Floats, rng: np.random.Generator
) -> sparse.csr_array:
    """Draw the words of each document, and count them."""
    rows = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    # Of the words 0.5 are from the common distribution, 0.35 from the main topic and
    # 0.15 from the second one.
    choice = rng.random(rows.size)
    # Number of the distribution that each word comes from, (n_words,): a topic, or the
    # last row for the common one.
    source = topics[rows, (choice > 0.5 + 0.5 * 0.7) * 1]
    source[choice < 0.5] = distributions.shape[0] - 1
    # Draw the words of one distribution after the other, by inverse transform sampling.
    order = np.argsort(source, kind="stable")
    ends = np.cumsum(np.bincount(source, minlength=distributions.shape[0]))
    # `order` lists the words by their distribution; those of one are one slice of it.
    columns = np.empty(rows.size, np.int32)
    start = 0
    for cumulative, end in zip(distributions, ends, strict=True):
        # The word is the first one whose cumulative probability exceeds a uniform
        # number.
        uniform = rng.random(end - start)
        columns[order[start:end]] = np.searchsorted(cumulative, uniform, side="right")
        start = end
    n_features = distributions.shape[1]
    np.minimum(columns, n_features - 1, out=columns)  # a draw may round up to 1
    entries, shape = np.ones(rows.size), (lengths.size, n_features)
    return sparse.coo_array((entries, (rows, columns)), shape=shape).tocsr()
