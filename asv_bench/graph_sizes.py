"""Fits of 10^4 to 10^7 nodes: the table and the figure of docs/scaling.md.

    python asv_bench/graph_sizes.py            # measures all sizes: 24 GiB, an hour
    python asv_bench/graph_sizes.py 1e4 1e5    # these alone; other rows are kept
    python asv_bench/graph_sizes.py --draw     # the figure, of what was measured

Each fit has a process of its own, whose memory this one watches: the peaks of the
generator and of the fit are what the process grew by. Run it on an idle machine.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
from benchmarks.problems import N_GROUPS, block_model
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm

FOLDER = Path(__file__).parents[1] / "docs" / "images"
SIZES = (1e4, 1e5, 1e6, 3e6, 1e7)
N_CLUSTERS = 20
PAGE = 4096
WORDS = {
    "nodes": "nodes",
    "entries": "stored entries",
    "dtype": "dtype",
    "cpu_seconds": "fit, processor s",
    "cpu_ns_per_entry": "ns per entry",
    "graph_gib": "graph, GiB",
    "peak_gib": "peak beyond it, GiB",
    "ari": "ARI",
    "balance": "balance",
    "make_peak_gib": "peak of the generator, GiB",
}


def fit_one(n_nodes, dtype):
    """Fit a graph in this process, telling the watching one what comes next."""

    def fit(data):
        model = FairSpectralClustering(
            N_CLUSTERS, dtype=dtype, tol=1e-3, random_state=0
        )
        return model.fit(data.graph, sensitive_features=data.sensitive_features)

    fit(block_model(5000, N_CLUSTERS))  # compiles
    print("generate", flush=True)
    options = {"n_groups": N_GROUPS, "average_degree": 30, "random_state": 0}
    start = time.perf_counter()
    data = make_fair_sbm(n_nodes, n_clusters=N_CLUSTERS, **options)
    make_seconds = time.perf_counter() - start
    print("fit", flush=True)
    start, cpu = time.perf_counter(), time.process_time()
    model = fit(data)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print("end", flush=True)
    ari = adjusted_rand_score(data.target, model.labels_)
    if not (model.converged_ and ari >= 0.9):
        raise AssertionError(f"not converged, or clusters missed: ARI {ari:.3f}")
    W = data.graph
    row = {
        "nodes": n_nodes,
        "entries": W.nnz,
        "dtype": dtype,
        "seconds": seconds,
        "ns_per_entry": 1e9 * seconds / W.nnz,
        "cpu_ns_per_entry": 1e9 * cpu / W.nnz,
        "graph_gib": (W.data.nbytes + W.indices.nbytes + W.indptr.nbytes) / 2**30,
        "ari": ari,
        "balance": model.minimum_balance_,
        "products": model.n_products_,
        "make_seconds": make_seconds,
    }
    print(json.dumps(row), flush=True)


class Watch(threading.Thread):
    """Memory of a process, every few milliseconds."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.peak = Path(f"/proc/{pid}/statm"), 0

    def now(self):
        return int(self.path.read_text().split()[1]) * PAGE / 2**30

    def run(self):
        try:
            while True:
                self.peak = max(self.peak, self.now())
                time.sleep(0.01)
        except (OSError, IndexError):  # it has ended
            pass


def measure(n_nodes, dtype):
    """Row of the table: one fit in a process of its own."""
    command = [sys.executable, __file__, "--one", str(n_nodes), dtype]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    watch.start()
    before, peaks, stage = 0.0, {}, None
    for line in process.stdout:
        if line.startswith("{"):
            row = json.loads(line)
            continue
        if stage is not None:
            peaks[stage] = watch.peak - before
        stage, before = line.strip(), watch.now()
        watch.peak = before
    if process.wait():
        raise RuntimeError(f"{n_nodes} nodes, {dtype}: failed")
    return row | {"peak_gib": peaks["fit"], "make_peak_gib": peaks["generate"]}


def draw(table, path):
    """Time per entry, of the processor, and memory beyond the graph, by the size."""
    style = {"svg.hashsalt": "scalefair", "svg.fonttype": "none", "font.size": 8}
    with rc_context(style):
        figure = Figure(figsize=(8, 2.8), layout="constrained")
        time_ax, memory_ax = figure.subplots(1, 2)
        for dtype, color, mark in (
            ("float32", "#0072B2", "o"),
            ("float64", "#D55E00", "s"),
        ):
            rows = table[table["dtype"] == dtype]
            style = {"color": color, "marker": mark, "markersize": 4, "label": dtype}
            time_ax.plot(rows["nodes"], rows["cpu_ns_per_entry"], **style)
            memory_ax.plot(rows["nodes"], rows["peak_gib"], **style)
        sizes = table.drop_duplicates("nodes")
        memory_ax.plot(
            sizes["nodes"], sizes["graph_gib"], "--", color="0.5", label="graph"
        )
        time_ax.set_title("Processor time per stored entry, ns", loc="left")
        time_ax.set_ylim(0)
        memory_ax.set_title("Peak memory beyond the graph, GiB", loc="left")
        memory_ax.set_yscale("log")
        for ax in (time_ax, memory_ax):
            ax.set_xscale("log")
            ax.set_xlabel("nodes (30 entries each)")
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})


def markdown(table):
    """Print the table as the page has it: processor time, whatever else was running."""
    seconds = table["cpu_ns_per_entry"] * table["entries"] * 1e-9
    table = table.assign(cpu_seconds=seconds)
    text = {
        "nodes": "{:,.0f}",
        "entries": "{:,.0f}",
        "dtype": "{}",
        "cpu_seconds": "{:.3g}",
        "cpu_ns_per_entry": "{:.0f}",
        **dict.fromkeys(["graph_gib", "peak_gib", "make_peak_gib"], "{:.3g}"),
        **dict.fromkeys(["ari", "balance"], "{:.4f}"),
    }
    print("|", " | ".join(WORDS.values()), "|\n" + "| --- " * len(WORDS) + "|")
    for row in table.to_dict("records"):
        cells = (text[name].format(row[name]) for name in WORDS)
        print("|", " | ".join(cells).replace("nan", "–"), "|")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=float, help="numbers of nodes")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    if options.one:
        fit_one(int(options.one[0]), options.one[1])
        return
    path = options.folder / "graph_sizes.csv"
    table = pd.read_csv(path) if path.exists() else pd.DataFrame()
    sizes = [] if options.draw else options.sizes or SIZES
    for n_nodes in sizes:
        for dtype in options.dtypes:
            row = measure(int(n_nodes), dtype)
            print(row, flush=True)
            table = pd.concat([table, pd.DataFrame([row])])
            table = table.drop_duplicates(["nodes", "dtype"], keep="last")
            table = table.sort_values(["nodes", "dtype"])
            table.to_csv(path, index=False, float_format="%.6g")
    markdown(table)
    draw(table, options.folder / "graph_sizes.svg")


if __name__ == "__main__":
    main()
