"""Groups that are known as probabilities, or for a part of the rows only; and weights.

    SCALEFAIR_DATA=... python benchmarks/paper_tables/uncertain_groups.py
    python benchmarks/paper_tables/uncertain_groups.py --tables law --splits 1

What is measured is always of the true groups, which the fits do not see. Proxies are
cross-fitted on the rows of training: gradient boosting of the model's own features; a
score that depends on the group alone, as a surname does; names of persons; and both.
Data are read from the folder named by SCALEFAIR_DATA; what is missing is skipped.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pandas
from _command import Command, among, at_least, data_file, progress
from _layout import Table, number
from scipy.special import logit, softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import fetch_law_school
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import (
    group_probabilities,
    partial_demographic_parity_gap,
    unmixed_parity_gap,
)

KAPPA = 0.05
N_ROWS = {"law": 8000, "compas": 4000}
_TABLES = ("law", "compas", "census", "missing")
Probabilities = dict[str, pandas.DataFrame]


class Rows(NamedTuple):
    """Standardised features, labels 0 and 1, and the true group of each row."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    names: np.ndarray | None = None  # of persons

    def split(self, n_rows: int, seed: int) -> tuple[Rows, Rows]:
        """Random rows for training, and the others."""
        order = np.random.RandomState(seed).permutation(len(self.y))
        parts = order[:n_rows], order[n_rows:]
        first, second = (
            Rows(*(None if x is None else x[part] for x in self)) for part in parts
        )
        scaler = StandardScaler().fit(first.X)
        return (
            first._replace(X=scaler.transform(first.X)),
            second._replace(X=scaler.transform(second.X)),
        )


def law(n_rows: int | None = None) -> Rows:
    """Law school, white or not."""
    data = fetch_law_school()
    X = np.asarray(data.data, np.float64)[:n_rows]
    y = (data.target == data.target.max()).astype(int)[:n_rows]
    return Rows(X, y, data.sensitive_features.astype(str)[:n_rows])


def compas() -> Rows:
    """COMPAS with the names of the defendants, of three races."""
    path = data_file("compas-propublica", "compas-scores-two-years.csv.gz")
    frame = pandas.read_csv(path)
    days = frame["days_b_screening_arrest"]
    kept = days.between(-30, 30) & (frame["is_recid"] != -1)
    races = ["African-American", "Caucasian", "Hispanic"]
    frame = frame[kept & frame["race"].isin(races) & (frame["c_charge_degree"] != "O")]
    features = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count"]
    X = frame[[*features, "priors_count"]].assign(
        male=frame["sex"] == "Male", felony=frame["c_charge_degree"] == "F"
    )
    names = (frame["first"] + " " + frame["last"]).fillna("").to_numpy(str)
    return Rows(
        X.to_numpy(np.float64),
        1 - frame["two_year_recid"].to_numpy(),  # in favour: no new crime
        frame["race"].to_numpy(str),
        names,
    )


# -- Proxies ------------------------------------------------------------------------


def proxies(rows: Rows, seed: int) -> Probabilities:
    """Cross-fitted probabilities of the groups of these rows."""
    from_features = _crossed(HistGradientBoostingClassifier(), rows.X, rows, seed)
    if rows.names is None:
        label, other = "surname-like", _surnames(rows, seed)
    else:
        words = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), min_df=3)
        model = make_pipeline(words, LogisticRegression(C=3.0, max_iter=1000))
        label, other = "names", _crossed(model, rows.names, rows, seed)
    # Of both: independent given the group, so that odds are multiplied.
    shares = pandas.Series(rows.groups).value_counts(normalize=True).sort_index()
    product = np.log(from_features) + np.log(other) - np.log(shares.to_numpy())
    both = pandas.DataFrame(softmax(product.to_numpy(), axis=1), columns=other.columns)
    return {"features": from_features, label: other, "both": both}


def _crossed(model: Any, X: np.ndarray, rows: Rows, seed: int) -> pandas.DataFrame:
    """Probabilities of the groups by models that have not seen the row."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    P = cross_val_predict(model, X, rows.groups, cv=folds, method="predict_proba")
    return pandas.DataFrame(np.clip(P, 1e-6, 1.0), columns=np.unique(rows.groups))


def _surnames(rows: Rows, seed: int) -> pandas.DataFrame:
    """Posterior of two groups by a score that is normal in each, 1.7 apart."""
    names, codes = np.unique(rows.groups, return_inverse=True)
    score = np.random.RandomState(seed).standard_normal(len(codes)) + 1.7 * codes
    z = 1.7 * (score - 0.85) + logit(codes.mean())
    P = softmax(np.column_stack([np.zeros(len(z)), z]), axis=1)
    return pandas.DataFrame(P, columns=names)


def most_likely(P: pandas.DataFrame) -> np.ndarray:
    """Group of the largest probability."""
    return P.columns.to_numpy(str)[P.to_numpy().argmax(axis=1)]


# -- Fits ---------------------------------------------------------------------------


def fair_classifier(rows: Rows, **groups: Any) -> Any:
    """Fit the classifier that treats groups alike at all thresholds."""
    model = PartiallyFairClassifier(
        interval=(0.0, 1.0), kappa=KAPPA, interactions=False, random_state=0
    )
    return quietly(model.fit, rows.X, rows.y, **groups)


def quietly(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call without warnings of groups of few rows, or of what cannot be met."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **keywords)


def true_gap(scores: np.ndarray, rows: Rows) -> float:
    """Largest gap of the true groups at any threshold."""
    return partial_demographic_parity_gap(scores, sensitive_features=rows.groups)


def largest_loss(rows: Rows, **groups: Any) -> float:
    """Largest loss of a true group by fair PCA of these groups, of two components."""
    model = quietly(FairPCA(2, random_state=0).fit, rows.X, **groups)
    losses = GroupPCA(2).fit(rows.X, sensitive_features=rows.groups)
    best = losses.group_reconstruction_errors_ - losses.group_losses_
    centred = rows.X - model.mean_
    residual = centred - centred @ model.components_.T @ model.components_
    errors = pandas.Series((residual**2).sum(axis=1)).groupby(rows.groups).mean()
    return float((errors.to_numpy() - best).max())


# -- Tables -------------------------------------------------------------------------


def proxy_tables(name: str, rows: Rows, options: Any) -> Iterator[Table]:
    """Gaps as they are estimated, and as they are after training, by each proxy."""
    measured: dict[str, list[dict[str, float]]] = {}
    fitted: dict[str, list[dict[str, float]]] = {}
    n_rows = min(N_ROWS[name], len(rows.y) // 2)
    for seed in range(options.splits):
        start = time.perf_counter()
        train, test = rows.split(n_rows, seed)
        plain = LogisticRegression(max_iter=1000).fit(train.X, train.y)
        scores = plain.decision_function(train.X)
        own = {"sensitive_features": train.groups}
        model = fair_classifier(train, **own)
        known = {"loss": largest_loss(train, **own), **_after(model, train, test)}
        fitted.setdefault("true groups", []).append({**known, "loss": 1.0})
        for proxy, P in proxies(train, seed).items():
            guess, soft = most_likely(P), {"group_probabilities": P}
            hard = {"sensitive_features": guess}
            measured.setdefault(proxy, []).append(
                {
                    "true": true_gap(scores, train),
                    "soft": partial_demographic_parity_gap(scores, **soft),
                    "argmax": partial_demographic_parity_gap(scores, **hard),
                    "unmixed": unmixed_parity_gap(scores, **soft),
                }
            )
            for kind, groups in (("argmax", hard), ("soft", soft)):
                model = fair_classifier(train, **groups)
                loss = largest_loss(train, **groups) / known["loss"]
                run = {**_after(model, train, test), "loss": loss}
                if kind == "soft":
                    run["reported"] = model.partial_parity_gap_
                    run["unmixed"] = model.unmixed_parity_gap_
                fitted.setdefault(f"{proxy}, {kind}", []).append(run)
        progress(f"{name}, split {seed}", time.perf_counter() - start)
    columns = ["true", "soft", "argmax", "unmixed"]
    title = f"{name}: gap of a classifier without constraints, estimated by proxies"
    yield _table(title, "proxy", measured, columns)
    columns = ["gap", "test gap", "test AUC", "reported", "unmixed", "loss"]
    title = f"{name}: true gap of classifiers of kappa {KAPPA}; loss of fair PCA"
    table = _table(title, "groups of the fit", fitted, columns)
    table.notes.append("loss: largest true loss, in units of that with true groups.")
    yield table


def _after(model: Any, train: Rows, test: Rows) -> dict[str, float]:
    scores, new_scores = map(model.decision_function, (train.X, test.X))
    return {
        "gap": true_gap(scores, train),
        "test gap": true_gap(new_scores, test),
        "test AUC": roc_auc_score(test.y, new_scores),
    }


def missing_table(rows: Rows, options: Any) -> Iterator[Table]:
    """Compare what to do with groups that are missing, at random or by features."""
    fitted: dict[str, list[dict[str, float]]] = {}
    n_rows = min(N_ROWS["law"], len(rows.y) // 2)
    for seed in range(options.splits):
        start = time.perf_counter()
        train, test = rows.split(n_rows, seed)
        rng = np.random.RandomState(seed)
        z = logit(0.4) - 1.5 * train.X[:, :2].sum(axis=1)  # of low grades more
        for kind, is_missing in (
            ("at random", rng.random_sample(n_rows) < 0.6),
            ("by features", rng.random_sample(n_rows) < 1 / (1 + np.exp(-z))),
        ):
            groups = train.groups.astype(object)
            groups[is_missing] = None
            known = train._replace(
                X=train.X[~is_missing],
                y=train.y[~is_missing],
                groups=train.groups[~is_missing],
            )
            shares = pandas.Series(known.groups).value_counts(normalize=True)
            choices = {
                "rows dropped": None,
                "no group": group_probabilities(groups),
                "filled by shares": group_probabilities(groups, fill=shares),
            }
            for how, model in (
                ("boosting", HistGradientBoostingClassifier()),
                ("logistic regression", LogisticRegression(max_iter=1000)),
            ):
                P = model.fit(known.X, known.groups).predict_proba(train.X)
                fill = pandas.DataFrame(P, columns=model.classes_)
                choices[f"filled by {how}"] = group_probabilities(groups, fill=fill)
            for choice, filled in choices.items():
                if filled is None:
                    model = fair_classifier(known, sensitive_features=known.groups)
                else:
                    model = fair_classifier(train, group_probabilities=filled)
                run = _after(model, train, test)
                fitted.setdefault(f"{kind}: {choice}", []).append(run)
        progress(f"missing, split {seed}", time.perf_counter() - start)
    title = f"law: groups missing for a part of the rows, kappa {KAPPA}"
    yield _table(title, "missing", fitted, ["gap", "test gap", "test AUC"])


def census_table(n_rows: int | None) -> Iterator[Table]:
    """Survey weights of the census: gaps and losses with them and without."""
    path = data_file("census-adult", "adult.csv.gz")
    frame = pandas.read_csv(path, skipinitialspace=True).head(n_rows or 10**9)
    y = frame.pop("income").str.contains(">50K").to_numpy().astype(int)
    census, sex = (frame.pop(name).to_numpy() for name in ("final-weight", "sex"))
    race = frame.pop("race").to_numpy()
    numbers = frame.select_dtypes("number").to_numpy(np.float64)
    words = pandas.get_dummies(frame.select_dtypes(exclude="number"))
    X = np.hstack([StandardScaler().fit_transform(numbers), words.to_numpy(np.float64)])
    # A sample in which men are drawn at 1 in 5, and weighted by 5.
    rng = np.random.RandomState(0)
    drawn = (sex == "Female") | (rng.random_sample(len(sex)) < 0.2)
    designs = {
        "weights of the census": (np.ones(len(y), bool), census / census.mean()),
        "men drawn at 1 in 5": (drawn, np.where(sex == "Female", 1.0, 5.0)),
    }
    title = "census: what weights change"
    table = Table(
        title, "rows|fit|gap of sex, weighted|accuracy, weighted|loss of race"
    )
    for design, (kept, w) in designs.items():
        rows, w = Rows(X[kept], y[kept], sex[kept]), w[kept]
        effective = w.sum() ** 2 / (w**2).sum()
        start = time.perf_counter()
        for fit, weights in (("without weights", None), ("with weights", w)):
            groups = {"sensitive_features": rows.groups, "sample_weight": weights}
            model = fair_classifier(rows, **groups)
            scores = model.decision_function(rows.X)
            gap = partial_demographic_parity_gap(
                scores, sensitive_features=rows.groups, sample_weight=w
            )
            accuracy = np.average((scores > 0) == rows.y, weights=w)
            pca = FairPCA(10, random_state=0)
            quietly(
                pca.fit,
                rows.X,
                sensitive_features=race[kept],
                sample_weight=weights,
            )
            loss = _weighted_loss(pca, rows.X, race[kept], w)
            cells = (f"{design}: {len(w):,}, effective {effective:,.0f}", fit)
            table.add(*cells, *(number(x, 3) for x in (gap, accuracy, loss)))
        progress(design, time.perf_counter() - start)
    yield table


def _weighted_loss(pca: Any, X: np.ndarray, groups: np.ndarray, w: np.ndarray) -> float:
    """Largest weighted loss of a group by the components of a fit."""
    plain = GroupPCA(pca.n_components).fit(
        X, sensitive_features=groups, sample_weight=w
    )
    best = plain.group_reconstruction_errors_ - plain.group_losses_
    centred = X - np.average(X, axis=0, weights=w)
    residual = centred - centred @ pca.components_.T @ pca.components_
    squares = pandas.DataFrame({"w": w, "s": w * (residual**2).sum(axis=1)})
    sums = squares.groupby(groups).sum()
    return float(((sums["s"] / sums["w"]).to_numpy() - best).max())


def _table(
    title: str, label: str, runs: dict[str, list[dict[str, float]]], columns: list[str]
) -> Table:
    """Means over the splits; all values if they are two."""
    table = Table(title, "|".join([label, *columns]))
    for name, measures in runs.items():
        cells = []
        for column in columns:
            values = [run[column] for run in measures if column in run]
            cells.append(", ".join(number(x, 3) for x in values) or "–")
        table.add(name, *cells)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    command, names = Command(__doc__), list(_TABLES)
    command.option("--tables", type=among(names), default=names, help=",".join(names))
    command.option("--splits", type=at_least(1), default=2, help="random splits (2)")
    options = command.parse(arguments)
    n_rows = 600 if options.quick else None
    tables: list[Table] = []
    for name in options.tables:
        try:
            if name == "census":
                made = census_table(n_rows)
            elif name == "missing":
                made = missing_table(law(n_rows), options)
            else:
                rows = law(n_rows) if name == "law" else compas()
                if options.quick and name == "compas":
                    rows = rows.split(n_rows, 0)[0]
                made = proxy_tables(name, rows, options)
            for table in made:
                tables.append(table)
                command.write(tables)
        except OSError as error:
            command.skip(f"{name}: {error}")
    command.write(tables, last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
