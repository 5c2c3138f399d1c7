"""Running candidates, timing them, and printing what came out."""

import resource
from functools import partial

from _layout import Table, number
from _timing import alternate, timed
from benchmarks.problems import prepared


def benchmark(name, *parameters):
    """Method of an asv suite, prepared (its answer is checked) and ready to be run."""
    owner, _, method = name.rpartition(".")
    return partial(getattr(prepared(owner, *parameters), method), *parameters)


def compare(title, runs, peer, repeats=5, facts=lambda name, result: {}):
    """Time the runs in turns; print medians, ratios and facts.

    `facts` gives further cells, by their heads, of a name and what its run returned;
    it raises if the answer is wrong.
    """
    seconds, results = alternate(repeats, runs)
    rows = {
        name: {
            "method": name,
            "seconds": number(seconds[name], 3),
            f"of {peer}": number(seconds[name] / seconds[peer], 3),
            **facts(name, result),
        }
        for name, result in results.items()
    }
    show(title, *rows.values())


def once(run, facts=lambda result: {}):
    """Cells of a single run: seconds, the peak of the process so far, and facts."""
    seconds, result = timed(run)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = {"seconds": number(seconds, 3), "peak so far, GiB": f"{peak:.2f}"}
    return cells | facts(result)


def show(title, *rows):
    """Print a table of rows, dicts of cells by their heads."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    table = Table(title, "|".join(heads))
    for row in rows:
        table.add(*(row.get(head, "") for head in heads))
    print(table.markdown(), flush=True)
