"""The tables and figures of the paper and of its authors' lectures: what each one needs and how it is drawn.

Every file here that registers a target is found by itself; nothing outside of this room and the commands imports it.

To add a table, write one file, varnet/paper/mine.py:

    from varnet.paper import Published, table

    table("mine", "My table: what it shows", [
        Published("a row", "mine_first", "acc_k", 99.2),    # label, experiment, key of metrics.json, number in print
        Published("another", "mine_second", "acc_k", None),  # nothing was printed
    ])

and its experiments, configs/experiment/mine_first.yaml and mine_second.yaml (the same names under small/ for
scale=small). To add a figure, decorate the function that draws it:

    from varnet.paper.library import Library
    from varnet.paper.targets import Drawn, figure, one_seed

    @figure("mine", "My figure: what it shows", "mine_first", seeds=one_seed)
    def draw(library: Library) -> Drawn:
        run = library.first("mine_first")  # run.model, run.data, run.metrics
        return Drawn(chart, {"a number that can be read off it": 1.0})

`python scripts/reproduce.py mine` then runs, builds and writes it, `all` includes it, and --help lists it.

    targets.py        Target, table, figure, Drawn: how a file registers what it makes
    library.py        the finished runs that a target is made of
    reproduction.py   TARGETS; which runs they need, and building them
    intake.py         what reproduce.py wrote -> docs/results (scripts/publish.py)
    drawing.py, transition.py, scores.py   what several of them share
"""

from varnet.paper.library import Library
from varnet.paper.targets import Drawn, Target, figure, one_seed, table
from varnet.report.tables import Published

__all__ = ["Drawn", "Library", "Published", "Target", "figure", "one_seed", "table"]
