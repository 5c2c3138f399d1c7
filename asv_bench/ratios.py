"""Tables of docs/performance.md and docs/measured_*.md, made anew.

    python asv_bench/ratios.py                      # names of the tables
    python asv_bench/ratios.py embedding
    python asv_bench/ratios.py spmm "sizes=[1000]"  # another size, to see that it runs
    SCALEFAIR_DATA=... python asv_bench/ratios.py real

Ratios against named peers: both in one process, in turns, medians. An answer that is
wrong raises. Run it on an otherwise idle machine.
"""

import argparse
import ast
import inspect

from ratio_tables import classify, clustering, parts, pca, regress, threads

MODULES = (clustering, pca, classify, regress, parts, threads)
TABLES = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if inspect.isfunction(function)
    and function.__module__ == module.__name__
    and not name.startswith("_")
}


def argument(text):
    """Keyword and value of an argument of the table's function."""
    name, _, value = text.partition("=")
    return name, ast.literal_eval(value)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="\n".join(
            f"{name:18s} {inspect.getdoc(make).splitlines()[0]}"
            for name, make in TABLES.items()
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", choices=TABLES, metavar="TABLE", nargs="?")
    parser.add_argument("arguments", nargs="*", type=argument, metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    if options.table is None:
        parser.print_help()
    else:
        TABLES[options.table](**dict(options.arguments))


if __name__ == "__main__":
    main()
