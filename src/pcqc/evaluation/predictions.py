"""Predictions of an evaluation, one row a case, as Parquet files hold them."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pcqc_base.errors import UserError
from pcqc_base.system.files import write_atomic

SCHEMA = pa.schema(
    [
        ("case_id", pa.string()),
        ("benchmark", pa.string()),
        ("method", pa.string()),
        ("run", pa.string()),
        ("update", pa.int64()),
        ("correct", pa.bool_()),
        ("predicted", pa.string()),
        ("answer", pa.string()),
        ("turns", pa.int64()),
        ("actor_tokens", pa.int64()),
        ("ending", pa.string()),
    ]
)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as a whole Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_atomic(path, buffer.getvalue())


def read_predictions(path: Path) -> pa.Table:
    """Predictions of a Parquet file, as in `SCHEMA`; UserError where it holds none."""
    return read_table(path, SCHEMA)


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """A table of a Parquet file; UserError where it has not all columns of the schema."""
    try:
        return pq.read_table(path).select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, OSError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise UserError(
            f"{path}: not a table with the columns {', '.join(schema.names)} ({reason}); move its "
            "folder away and run the workflow again"
        ) from None
