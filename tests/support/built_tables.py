"""Tables of the simulated study, and single cells of them."""

from analysis import tables


def cell(table, row, column):
    index = [c.key for c in table.columns].index(column)
    return next(r for r in table.rows if r.key == row).cells[index]


def build(name, collected):
    return tables.TABLES.module(name).build(collected)


def accuracies(frame, method, benchmark):
    rows = frame[(frame.method == method) & (frame.benchmark == benchmark)]
    return 100 * rows.groupby("run")["correct"].mean().to_numpy()
