"""Progress of a fit, reported through scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["FitProgress"]

_N_TASKS = 3  # affinity, eigenvectors, labels


class FitProgress:
    """Task tree of one fit: a root, one task per phase, one leaf per eigenpair."""

    def __init__(self, estimator: Any, X: Any) -> None:
        self.estimator = estimator
        self.context = estimator._init_callback_context(max_subtasks=_N_TASKS)
        self.context.call_on_fit_task_begin(estimator=estimator, X=X)

    @contextmanager
    def task(self, name: str, n_parts: int = 0) -> Iterator[Callable[..., None]]:
        """Report a phase; yields a function to call with the parts done so far."""
        context = self.context.subcontext(task_name=name, max_subtasks=n_parts)
        context.call_on_fit_task_begin(estimator=self.estimator)
        reported = 0

        def report(n_done: int, *_: Any) -> None:
            nonlocal reported
            while reported < min(n_done, n_parts):
                leaf = context.subcontext(task_name="part")
                leaf.call_on_fit_task_begin(estimator=self.estimator)
                leaf.call_on_fit_task_end(estimator=self.estimator)
                reported += 1

        yield report
        context.call_on_fit_task_end(estimator=self.estimator)

    def close(self) -> None:
        """Report the end of the fit."""
        self.context.call_on_fit_task_end(
            estimator=self.estimator, reconstruction_attributes={}
        )
