"""The tables of the paper, made anew: what runs, what is shown, what differs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import _printed as printed
import numpy as np
from _evidence import best_average_balance, least_cut
from _layout import EMPTY, Table, number, seconds, spread
from _methods import METHODS, Run, repeat, run_admm
from _problems import (
    MissingDataError,
    Problem,
    block_model,
    facebooknet,
    random_affinity,
)
from _session import FFSC_ROWS, UFSC_ROWS, Session
from sklearn.metrics import adjusted_rand_score

_NAMES = {"auto": "ours (auto)", "dual": "ours (dual)", "ADMM": "ADMM (theirs)"}


def table_1(session: Session) -> Table:
    """m-SBM."""
    k, h = (4, 2) if session.quick else (50, 5)
    table = Table(
        1,
        f"m-SBM, k = {k}, h = {h}",
        "n|method|s printed|s ours|balance printed|balance ours|ARI",
    )
    for n in (300,) if session.quick else (5000, 7500, 10000):
        problem = block_model(n, k, h, (10, 7, 4, 1))
        for method in METHODS:
            runs = session.run(problem, method, k)
            time, balance = printed.TABLE_1.get(n, {}).get(method, (None, None))
            table.add(
                n,
                _NAMES.get(method, method),
                number(time),
                seconds(runs) if runs else EMPTY,
                number(balance),
                spread(runs, "balance") if runs else EMPTY,
                number(_agreement(problem, runs)) if runs else EMPTY,
            )
    n = 300 if session.quick else 5000
    table.notes += [_weak_block_model(session, n, k, h), _long_admm(session, n, k, h)]
    return table


def table_2(session: Session) -> Table:
    """Measure times on real data."""
    table = Table(
        2,
        f"seconds on real data, k = {session.k_real}",
        "data|n|method|printed|ours|‖F^T H‖²|relaxed cost",
    )
    for problem in session.real(table):
        for method in METHODS:
            runs = session.run(problem, method, session.k_real)
            table.add(
                problem.name,
                problem.n,
                _NAMES.get(method, method),
                number(printed.TABLE_2[problem.name].get(method)),
                seconds(runs) if runs else EMPTY,
                spread(runs, "fairness", 2) if runs else EMPTY,
                number(session.k_real - runs[0].trace, 6) if runs else EMPTY,
            )
    table.notes.append(
        "Census: which attributes, how they are encoded and which are the seven groups "
        "is not printed; here twelve attributes are left when the sampling weight, the "
        "income and the groups (marital status, the only column with seven values) are "
        "taken out, categories are numbered and all are standardised. 4area is a "
        "re-creation (DBLP crawled in 2020, DeepWalk in 8 dimensions), not the data of "
        "Ahmadian et al. (2019). Costs and balances of "
        "both can therefore not be compared with the printed ones."
    )
    return table


def table_3(session: Session) -> Table:
    """Cost and balance on real data."""
    k = session.k_real
    table = Table(
        3,
        f"clustering cost, balance and time relative to ours (auto), k = {k}",
        "data|method|cost printed|cost ours|balance printed|balance ours|"
        "time printed|time ours",
    )
    for problem in session.real(table):
        ours = np.mean([run.seconds for run in session.run(problem, "auto", k)])
        for method in METHODS[1:]:
            runs = session.run(problem, method, k)
            cost, balance, ratio = printed.TABLE_3[problem.name].get(
                method, (None, None, None)
            )
            table.add(
                problem.name,
                _NAMES.get(method, method),
                number(cost),
                spread(runs, "cost"),
                number(balance),
                spread(runs, "balance"),
                number(ratio),
                number(np.mean([run.seconds for run in runs]) / ours, 3),
            )
        _explain_cost(table, problem, k)
    table.notes.append(
        "Cost is the normalised cut. No normalised cut exceeds the number of clusters, "
        "so the printed 131 to 242 of Census and 4area, with 25, are another quantity. "
        "The printed times are relative to ADMM."
    )
    return table


def table_4(session: Session) -> Table:
    """Run the comparators."""
    k = session.k_real
    table = Table(
        4,
        f"comparators FFSC and UFSC, k = {k}; printed / ours",
        "data|method|seconds|cost|balance|‖F^T H‖²|‖H^T H - I‖²",
    )
    names = ("seconds", "cost", "balance", "fairness", "orthogonality")
    for problem in session.real(table):
        for method in ("FFSC", "UFSC", "ADMM", "auto", "dual"):
            runs = session.run(problem, method, k)
            told = printed.TABLE_4[problem.name].get(method, (None,) * 5)
            cells = [spread(runs, name, 3) if runs else EMPTY for name in names]
            table.add(
                problem.name,
                _NAMES.get(method, method),
                *[f"{number(a)} / {b}" for a, b in zip(told, cells, strict=True)],
            )
    table.notes += [
        "FFSC and UFSC are implementations from published descriptions. Here FFSC "
        "moves whole nodes and H is the scaled indicator of its clusters: orthonormal, "
        "unlike the printed one. Its printed costs, 1068 to 285174, are no normalised "
        "cuts, which are at most k.",
        f"FFSC is not run beyond {FFSC_ROWS} rows, UFSC not beyond {UFSC_ROWS}; the "
        "paper saw UFSC time out on Census and 4area. For UFSC ‖F^T H‖² is that of its "
        "own F, without self-loops.",
        "LastFM: the printed cost and balance of UFSC (3.54, 0.016) are those of a "
        "normalised cut and a balance as defined here, and near ours; 1.09 and 0.0093 "
        "of ADMM on the same graph are not (table 3).",
        "The printed ‖F^T H‖² of ADMM, 1e-6 to 1.4e-5, is not reached by ten "
        "iterations from alpha = 0.005: see the rows above, and tables 2 and 5.",
    ]
    return table


def table_5(session: Session) -> Table:
    """First penalty of ADMM."""
    n, k, h = (150, 5, 2) if session.quick else (1000, 25, 2)
    n_runs = 1 if session.quick else 5
    table = Table(
        5,
        f"first penalty of ADMM, RandLaplace, n = {n}, k = {k}, h = {h}, "
        f"{n_runs} runs; printed / ours with T = 10 / with T = 100 (one run)",
        "alpha|iterations|cost: 2k - Ncut|balance|‖F^T H‖²|‖F^T M H‖²|‖H^T H - I‖²",
    )
    problems = [random_affinity(n, h, seed) for seed in range(n_runs)]
    for alpha, told in printed.TABLE_5.items():
        short = [run_admm(p, k, i, alpha, 10) for i, p in enumerate(problems)]
        for run in short:
            run.extra["opposite"] = 2 * k - run.cost
        long = run_admm(problems[0], k, 0, alpha, 20 if session.quick else 100)
        long.extra["opposite"] = 2 * k - long.cost
        told_fairness = (*told[:3], told[3], None, told[4])
        getters: list[Callable[[Run], float]] = [
            lambda run: run.extra["n_iter"],
            lambda run: run.extra["opposite"],
            lambda run: run.balance,
            lambda run: run.fairness,
            lambda run: run.extra["product"],
            lambda run: run.orthogonality,
        ]
        cells = [
            f"{number(a)} / {number(float(np.mean([get(run) for run in short])))} / "
            f"{number(get(long))}"
            for a, get in zip(told_fairness, getters, strict=True)
        ]
        table.add(alpha, *cells)
        print(f"table 5, alpha={alpha}", file=sys.stderr, flush=True)
    sizes = np.bincount(problems[0].groups)
    random = k + (n - k) / (n - 1)
    exact = session.run(problems[0], "auto", k)
    table.notes += [
        f"The printed cost, 25.98 to 26.09, exceeds k = 25, which no normalised cut "
        f"and no Tr(H^T L H) here can: exactly solved, Ncut is {exact[0].cost:.4g} and "
        f"Tr(H^T L H) {k - exact[0].trace:.4g}. It fits Tr(Hh^T (M + I) Hh) = "
        "2k - Ncut, Hh the scaled indicator of the clusters, which is better when "
        f"larger: {random:.2f} for a random partition, {2 * k - exact[0].cost:.2f} for "
        "the exact solution.",
        f"The printed balance of 1.0 is impossible: the groups have {sizes[0]} and "
        f"{sizes[1]} members (probability 0.3), so all clusters at balance 1 cannot "
        f"be, and proportional ones have {sizes.min() / sizes.max():.2f}.",
        "The printed fairness, 8e-8 to 1e-6 (squared or not is not said), is not "
        "reached in F^T H, nor with 100 iterations; ‖F^T M H‖² comes near it where "
        "alpha starts at 0.05 or more. The algorithm as printed constrains F^T M H, "
        "and from 0.005 alpha grows by doubling for most of the ten iterations. The "
        "printed 5 to 9 iterations need a stopping rule that is not printed; here the "
        "residuals of the problem it solves would have to fall below 1e-4.",
    ]
    return table


def table_6(session: Session) -> Table:
    """RandLaplace."""
    table = Table(
        6,
        "seconds on RandLaplace, h = 5",
        "k|n|method|printed|ours|relaxed cost|‖F^T H‖²",
    )
    counts = (3,) if session.quick else (10, 25, 50)
    for n in (200,) if session.quick else (5000, 7500, 10000):
        problem = random_affinity(n, 5)
        for k in counts:
            for method in METHODS:
                runs = session.run(problem, method, k)
                if not runs and printed.TABLE_6.get((k, n), {}).get(method) is None:
                    continue
                table.add(
                    k,
                    n,
                    _NAMES.get(method, method),
                    number(printed.TABLE_6.get((k, n), {}).get(method)),
                    seconds(runs) if runs else EMPTY,
                    number(k - runs[0].trace, 6) if runs else EMPTY,
                    spread(runs, "fairness", 2) if runs else EMPTY,
                )
    table.rows.sort(key=lambda row: int(row[0]))
    table.notes.append(
        "There are no clusters to find: the wanted eigenvalues are the edge of a "
        "continuum (2 sqrt(n) times the deviation of the weights over the degree, "
        "0.016 at n = 5000), only about a hundred times the tolerance of 1e-4. Text "
        "and caption disagree about h (2 and 5); 5 is taken, equally likely."
    )
    return table


def table_8(session: Session) -> Table:
    """Minimum balance."""
    k = session.k_real
    table = Table(
        8,
        f"minimum balance on real data, k = {k}",
        "data|method|s printed|s ours|printed|ours|average, ours",
    )
    for problem in session.real(table):
        for method in METHODS[1:]:
            runs = session.run(problem, method, k)
            time, least = printed.TABLE_8[problem.name].get(method, (None, None))
            table.add(
                problem.name,
                _NAMES.get(method, method),
                number(time),
                seconds(runs),
                number(least),
                spread(runs, "minimum_balance"),
                spread(runs, "balance"),
            )
        sizes = np.bincount(problem.groups)
        if sizes.min() < k:
            table.notes.append(
                f"{problem.name}: the smallest group has {sizes.min()} members here, "
                f"fewer than {k} clusters, so the minimum balance must be 0."
            )
    table.notes.append(
        "A cluster that has all groups has a balance of at least 1 / |C|, so if no "
        "cluster has balance 0 the average is at least k / n: 0.0035 for Thyroid, "
        "0.00077 for Census. The printed averages (table 3), 0.0029 and 0.0004, are "
        "below that, yet the printed minima are positive: hard to reconcile, unless "
        "some of the five runs had empty groups and others not. With marital status as "
        "groups (the smallest has 23 of 32561 members) the minimum is 0 at k = 25."
    )
    return table


def table_9(session: Session) -> Table:
    """FacebookNet."""
    table = Table(
        9,
        "FacebookNet",
        "k|method|s printed|s ours|balance printed|balance ours|cost printed|"
        "relaxed cost|normalised cut|‖F^T H‖²",
    )
    try:
        problem = facebooknet()
    except MissingDataError as error:
        table.notes.append(f"Skipped: {error}")
        return table
    for k in (2,) if session.quick else (2, 25, 50):
        for method in METHODS:
            runs = session.run(problem, method, k)
            told = printed.TABLE_9[k].get(method, (None,) * 3)
            table.add(
                k,
                _NAMES.get(method, method),
                number(told[0]),
                seconds(runs),
                number(told[1]),
                spread(runs, "balance"),
                number(told[2], 5),
                number(k - runs[0].trace, 6),
                spread(runs, "cost"),
                spread(runs, "fairness", 2),
            )
    sizes = np.bincount(problem.groups)
    table.notes += [
        "The printed cost is the relaxed one, Tr(H^T L H), and is reproduced by the "
        "exact methods (0.126, 14.114, 37.084). s-FSC needs the identity added to its "
        "operator: ARPACK's convergence test is relative to the eigenvalue, which is 0 "
        "for the first one, and at k = 2 it returned the second and third.",
        f"The printed balance of 1.00 at k = 2 is impossible with groups of {sizes[0]} "
        f"and {sizes[1]}: the best average balance of any two clusters is "
        f"{best_average_balance(*sizes):.3f}. Those at k = 25 and 50 (0.84, 0.58) are "
        "not found by any method here: small clusters of one gender have balance 0.",
        "ADMM ends at another cost than printed (0.133, 14.128, 37.100); where it is "
        "below the exact optimum, the constraint is violated by as much as ‖F^T H‖² "
        "says. Ten iterations from alpha = 0.005 do not converge; its limit satisfies "
        "F^T M H = 0 and not F^T H = 0.",
    ]
    return table


def _explain_cost(table: Table, problem: Problem, k: int) -> None:
    """Note that a printed cost is below what any partition can have."""
    told = [cost[0] for cost, _, _ in printed.TABLE_3[problem.name].values()]
    bound = least_cut(problem, k)
    if max(told) < bound:
        values = " and ".join(f"{value:g}" for value in dict.fromkeys(told))
        table.notes.append(
            f"{problem.name}: every partition of it into {k} clusters has a normalised "
            f"cut of at least {bound:.4f}, fair or not (k less the "
            f"{'trace' if problem.is_kernel else f'{k} largest eigenvalues'} of M); "
            f"the printed {values} cannot be one."
        )


def _agreement(problem: Problem, runs: list[Run]) -> float:
    return float(
        np.mean([adjusted_rand_score(problem.target, run.labels) for run in runs])
    )


def _weak_block_model(session: Session, n: int, k: int, h: int) -> str:
    """Say what probabilities were taken, and what the others would give."""
    problem = block_model(n, k, h, (1.0, 0.7, 0.4, 0.1))
    run = repeat(problem, "auto", k, 1)[0]
    agreement = _agreement(problem, [run])
    text = (
        "The constants before (log n / n)^(1/10) are not printed. Those of the s-FSC "
        "code, 10, 7, 4, 1, are taken; the probabilities above 1 are cut, which leaves "
        "a = b = c = 1 and d = (log n / n)^(1/10). Scaled to 1, 0.7, 0.4, 0.1 instead, "
        f"ours (auto) has balance {run.balance:.3f} and ARI {agreement:.3f} at n = {n}"
    )
    if agreement < 0.5:
        text += (
            ": the planted clusters contribute less to the spectrum than the noise, "
            "and no exact method can find them"
        )
    return f"{text}."


def _long_admm(session: Session, n: int, k: int, h: int) -> str:
    """Say what more iterations do for ADMM."""
    problem = block_model(n, k, h, (10, 7, 4, 1))
    n_steps = 20 if session.quick else 50
    run = run_admm(problem, k, 0, 0.005, n_steps)
    first = session.run(problem, "ADMM", k)[0]
    return (
        f"ADMM with T = 10 from alpha = 0.005, as printed, at n = {n}: balance "
        f"{first.balance:.3f}, ‖F^T H‖² = {number(first.fairness, 2)}; with "
        f"T = {n_steps}: balance {run.balance:.3f}, ‖F^T H‖² = "
        f"{number(run.fairness, 2)}, {run.seconds:.0f} s."
    )


TABLES = {
    1: table_1,
    2: table_2,
    3: table_3,
    4: table_4,
    5: table_5,
    6: table_6,
    8: table_8,
    9: table_9,
}
