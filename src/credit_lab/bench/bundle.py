"""The replay bundle: frozen candidate groups, and the groups of `turn_credit` made of them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from pcqc.cases.prompts import Exchange
from pcqc_base.errors import UserError
from pcqc_base.system.files import sha256_file
from turn_credit import Group, ProcessGroup, critiques_of

PUBLISHED = Path(__file__).with_name("replay.parquet")

_REALS, _SHORT = pa.list_(pa.float64()), pa.list_(pa.float32())
_PATHS = pa.list_(pa.list_(_SHORT))
# A row for each group; lists are of its K candidates. See the bundle's card.
SCHEMA = pa.schema(
    [
        ("policy", pa.string()),
        ("case", pa.string()),
        ("turn", pa.int8()),
        ("left", pa.int8()),
        ("initial", pa.string()),
        ("options", pa.list_(pa.string())),
        ("answer", pa.int8()),
        (
            "exchanges",
            pa.list_(pa.struct([("question", pa.string()), ("answer", pa.string())])),
        ),
        *((name, pa.list_(pa.string())) for name in ("candidates", "labels", "answers")),
        ("utilities", _SHORT),
        ("baseline", pa.float32()),
        ("posterior", _REALS),
        *((name, _REALS) for name in ("exact_utilities", "expected", "q_star", "last")),
        ("rewards", pa.list_(pa.list_(pa.float32()))),
        ("scorer_beliefs", _PATHS),
        ("actor_beliefs", _PATHS),
        ("states", pa.list_(pa.list_(pa.list_(pa.int64())))),
    ]
)


def state_name(exchanges: Sequence[Exchange]) -> int:
    """A number for a set of exchanges; equal sets have equal ones."""
    text = "\n".join(sorted(f"{e.question}\t{e.answer}" for e in exchanges))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def write_bundle(path: Path, rows: Iterable[dict]) -> None:
    """Write a bundle: equal rows give equal bytes."""
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    pq.write_table(table, path, compression="zstd", compression_level=19)


@dataclass(frozen=True, eq=False)
class State:
    """A recorded state, its candidates, and what is known exactly of them; a row of `SCHEMA`.

    Attributes:
        row: the row.
    """

    row: dict

    @property
    def count(self) -> int:
        """K."""
        return len(self.row["candidates"])

    @property
    def draws(self) -> int:
        """Continuations of each candidate; 0 where none was played on."""
        return len(self.row["rewards"][0]) if self.row["rewards"] else 0

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """`q_star` and `last`, float [K]."""
        return {name: np.array(self.row[name]) for name in ("q_star", "last")}

    @property
    def idle(self) -> np.ndarray:
        """bool [K], candidates that can tell nothing new."""
        nothing = float((np.array(self.row["posterior"]) ** 2).sum())
        return np.array(self.row["expected"]) < nothing + 1e-9

    def candidates(self, draw: int, continued: ArrayLike | None = None) -> Group:
        """A group of K states, of which each has another candidate as the executed one, first.

        Args:
            draw: which continuation stands for `continued`.
            continued: in its place.
        """
        row = self.row
        if continued is None and self.draws:
            continued = [rewards[draw] for rewards in row["rewards"]]
        return each_executed(row["utilities"], row["baseline"], row["expected"], continued)

    def consultations(self, draw: int, reader: str) -> Group:
        """K consultations that came to the state and went on from a candidate each.

        Args:
            draw: which continuation of each candidate.
            reader: whose beliefs, `scorer` or `actor`.

        The value before a turn is the mean reward of the other continuations: known before this
        state's turn and the next one alone. Critiques are the reader's, of change of belief.
        """
        row, place = self.row, self.row["turn"] - 1
        others = np.delete(np.array(row["rewards"]), draw, axis=1).mean(axis=1)
        states = [paths[draw] for paths in row["states"]]
        values = [np.full(len(path), np.nan) for path in states]
        for own, value in zip(values, others, strict=True):
            own[place], own[place + 1] = others.mean(), value
        beliefs = [paths[draw] for paths in row[f"{reader}_beliefs"]]
        return ProcessGroup(
            [rewards[draw] for rewards in row["rewards"]],
            states=states,
            beliefs=beliefs,
            values=values,
            critiques=critiques_of(beliefs),
        )


def each_executed(
    utilities: ArrayLike,
    baseline: float,
    expected: ArrayLike,
    continued: ArrayLike | None = None,
) -> Group:
    """K candidates of a state as K states, each with another candidate as the executed one.

    Args:
        utilities, expected, continued: float [K].
        baseline: the state's.
    """
    numbers = range(len(np.asarray(utilities)))
    orders = [[first, *(k for k in numbers if k != first)] for first in numbers]

    def turned(values: ArrayLike) -> list[np.ndarray]:
        return [np.asarray(values, float)[order] for order in orders]

    return Group(
        utilities=turned(utilities),
        baselines=[baseline] * len(orders),
        expected=turned(expected),
        continued=None if continued is None else turned(continued),
    )


def read_bundle(path: Path = PUBLISHED) -> list[State]:
    """The states of a bundle, once it was compared with the digest on its card.

    Raises:
        UserError: it is not the bundle of the card beside it.
    """
    card = path.with_suffix(".md")
    if not (path.is_file() and card.is_file()):
        raise UserError(f"{path}: no bundle with a card beside it; check the repository out anew")
    if f"`{sha256_file(path)}`" not in card.read_text(encoding="utf-8"):
        raise UserError(f"{path}: not the bundle of {card.name}; check the repository out anew")
    return [State(row) for row in pq.read_table(path, schema=SCHEMA).to_pylist()]
