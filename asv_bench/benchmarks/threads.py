"""Threads as they come: beside the best setting, and beside another process."""

import sys
from pathlib import Path

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm

sys.path.insert(0, str(Path(__file__).parents[1]))
import ratios_threads


class SmallFit:
    """Many short kernels, which hardly gain from a second thread."""

    params = (200, 1000, 5000)
    param_names = ("n_nodes",)

    def setup(self, n_nodes):
        self.data = make_fair_sbm(
            n_nodes, n_clusters=4, n_groups=2, average_degree=20, random_state=0
        )
        self.time_fit(n_nodes)

    def time_fit(self, n_nodes):
        FairSpectralClustering(4, random_state=0).fit(
            self.data.graph, sensitive_features=self.data.sensitive_features
        )


class Settings:
    """Time with threads as they come, of that with the best setting and when idle."""

    params = tuple(ratios_threads.BENCHMARKS)
    param_names = ("benchmark",)
    timeout = 900

    def track_of_the_best_setting(self, benchmark):
        seconds = ratios_threads.measure(benchmark, list(ratios_threads.SETTINGS), 1)
        return seconds["as they come"] / min(seconds.values())

    def track_beside_another_fit(self, benchmark):
        idle = ratios_threads.measure(benchmark, ["as they come"], 1)
        with ratios_threads.another_fit():
            beside = ratios_threads.measure(benchmark, ["as they come"], 1)
        return beside["as they come"] / idle["as they come"]
