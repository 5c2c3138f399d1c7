"""Threads as they come, against other settings and against another process."""

from benchmarks.threads import BENCHMARKS, SETTINGS, another_fit, measure

from .runner import show


def threads(names=tuple(BENCHMARKS), rounds=3):
    """Threads as they come: of the best setting when idle, and against a fit.

    Every figure is the median of the runs of three processes, which take turns among
    the settings; each process times its benchmark after it has checked the answer.
    """
    came = "as they come"
    for name in names:
        idle = measure(name, list(SETTINGS), rounds)
        with another_fit():
            loaded = measure(name, [came], rounds)[came]
        cells = {key: f"{1e3 * idle[key]:.1f} ms" for key in SETTINGS}
        cells["of the best"] = f"{idle[came] / min(idle.values()):.2f}"
        cells["beside a fit"] = f"{1e3 * loaded:.1f} ms"
        show(name, cells | {"of idle": f"{loaded / idle[came]:.2f}"})
