"""Two halves of the sources of labelled rows, fixed by the order of their names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from afterturn_extractor.evaluation.rows import Row

Split = Literal["alternate", "cut"]
SPLITS: Final[tuple[Split, ...]] = ("alternate", "cut")


@dataclass(frozen=True)
class Halves:
    """Names of sources; no source is in both."""

    first: tuple[str, ...]
    second: tuple[str, ...]

    def both_ways(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The half to tune on and the half to measure on, then the other way round."""
        yield self.first, self.second
        yield self.second, self.first


def halves(rows: Sequence[Row], split: Split) -> Halves:
    """`alternate`: the first, third, fifth … source, and the second, fourth …; `cut`: the names up to the
    middle, and the rest, so that sources of one family (`family/name`) mostly stay together."""
    names = tuple(sorted({row.source for row in rows}))
    if split == "alternate":
        return Halves(names[::2], names[1::2])
    middle = (len(names) + 1) // 2
    return Halves(names[:middle], names[middle:])


def of(rows: Sequence[Row], sources: Sequence[str]) -> list[Row]:
    """The rows of these sources."""
    return [row for row in rows if row.source in sources]
