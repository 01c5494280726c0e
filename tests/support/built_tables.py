"""Tables of the simulated study, and single cells of them."""

from analysis import tables


def cell(table, row, column):
    return table.cell(row, column)


def build(name, collected):
    return tables.maker(name)(collected)


def accuracies(frame, method, benchmark):
    rows = frame[(frame.method == method) & (frame.benchmark == benchmark)]
    return 100 * rows.groupby("run")["correct"].mean().to_numpy()
