"""Tables of the simulated study, and their cells."""

from analysis import tables


def cells(table):
    """Row -> column -> cell, by their keys."""
    keys = [column.key for column in table.columns]
    return {row.key: dict(zip(keys, row.cells, strict=True)) for row in table.rows}


def build(name, collected):
    return tables.maker(name)(collected)
