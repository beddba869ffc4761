"""Turns by the thousand and by the million, side by side.

python -m bench.growth --database sqlite|postgresql [--turns 1000000] [--url URL] [--keep DIR]

PostgreSQL: databases are made and dropped on the server of --url or AFTERTURN_TEST_POSTGRESQL_URL. Exits
with 1 if linking and recording cost more than 1.5 times as much over the many turns as over a thousand.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from afterturn_core.database import Database
from bench.growth import exchanges
from bench.growth.naive import Naive, database_bytes, store_naively
from bench.growth.pages import PageCost, Pages, compare
from bench.growth.seeding import Seeded, seed
from bench.machine import read_result, write_result

FEW = 1_000
REQUESTS = 300
LOOKS = 5
BAR = 1.5
# What blocks take: their bodies, and three digests and a number for each node.
_BLOCKS = """
    WITH RECURSIVE blocks (digest, previous, content_digest) AS (
        SELECT digest, previous, content_digest FROM history_nodes
        WHERE digest IN (SELECT prompt_head FROM turns WHERE prompt_head IS NOT NULL)
        UNION
        SELECT node.digest, node.previous, node.content_digest
        FROM history_nodes AS node JOIN blocks ON node.digest = blocks.previous
    )
    SELECT sum(length(body) + 196) FROM blocks JOIN contents ON contents.digest = blocks.content_digest"""


def main() -> int:
    """Measure and write `bench/results/growth.json`, under the database's name."""
    options = _options()
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        few, many = (
            stack.enter_context(_filled(options, folder / str(turns), turns))
            for turns in (FEW, options.turns)
        )
        result = _measure(few, many, folder)
    ratio = result["ratio"]
    assert isinstance(ratio, float)
    write_result("growth", read_result("growth") | {options.database: result})
    print(json.dumps(result, indent=1))
    return 0 if ratio <= BAR else 1


def _measure(few: Seeded, many: Seeded, folder: Path) -> dict[str, object]:
    size = database_bytes(many.database)
    stored = _stored_ids(many)
    with Pages(few, folder) as small, Pages(many, folder) as large:
        pages = compare((small, large), (few, many), LOOKS)
    small_cost, large_cost = (cost.milliseconds() for cost in exchanges.run((few, many), REQUESTS))
    naive = store_naively(few.database, FEW)
    return {
        "turns": many.turns,
        "requests": REQUESTS,
        "ms_few": small_cost,
        "ms_many": large_cost,
        "ratio": round(large_cost["both_p50"] / small_cost["both_p50"], 2),
        "ratio_linking": round(large_cost["linking_p50"] / small_cost["linking_p50"], 2),
        "ratio_recording": round(large_cost["recording_p50"] / small_cost["recording_p50"], 2),
        "bytes_a_turn": round(size / many.turns),
        "gib": round(size / 2**30, 2),
        "naive_bytes_a_turn": naive.row,
        "naive_gib_extrapolated": round(naive.row * many.turns / 2**30, 1),
        "naive_n": naive.n,
        "prompt_ids_bytes_a_turn": {"stored": stored, **_without(naive)},
        "pages": {name: _page(costs) for name, costs in pages.items()},
    }


def _without(naive: Naive) -> dict[str, float]:
    return {"whole_packed": naive.prompt_ids_packed, "whole_json": naive.prompt_ids_json}


def _page(costs: list[PageCost]) -> dict[str, object]:
    few, many = costs
    shown: dict[str, object] = {
        "ms_few": few.ms,
        "ms_many": many.ms,
        "work_few": few.work.units,
        "work_many": many.work.units,
    }
    if many.work.units > 2 * few.work.units + 200:
        shown["largest"] = many.work.largest
    return shown


def _stored_ids(seeded: Seeded) -> float:
    """Bytes a turn of all that prompt ids are stored as: tails, blocks and the nodes of their chains."""
    with seeded.database.read() as session:
        tails = (
            session.connection().exec_driver_sql("SELECT avg(length(prompt_tail)) FROM turns").scalar_one()
        )
        blocks = session.connection().exec_driver_sql(_BLOCKS).scalar_one()
    return round(float(tails) + float(blocks) / seeded.turns, 1)


@contextmanager
def _filled(options: argparse.Namespace, folder: Path, turns: int) -> Iterator[Seeded]:
    with _empty(options, folder) as url:
        database = Database(url)
        database.migrate()
        began = last = time.monotonic()

        def progress(done: int) -> None:
            nonlocal last
            if time.monotonic() - last > 10 or done >= turns - 30:
                last = time.monotonic()
                print(f"{done:>9} turns in {last - began:.0f} s", file=sys.stderr, flush=True)

        yield seed(database, turns, progress)
        database.close()


@contextmanager
def _empty(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    if options.database == "sqlite":
        folder.mkdir(parents=True, exist_ok=True)
        yield f"sqlite:///{folder / 'afterturn.db'}"
        return
    server = options.url or os.environ["AFTERTURN_TEST_POSTGRESQL_URL"]
    name = f"growth_{folder.parent.name}_{folder.name}".lower()
    if not _ask(server, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'"):
        _ask(server, f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        if options.keep is None:
            _ask(server, f"DROP DATABASE {name} WITH (FORCE)")


def _ask(server: str, statement: str) -> int:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        result = connection.execute(text(statement))
        count = int(result.scalar_one()) if result.returns_rows else 0
    engine.dispose()
    return count


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--url", help="a PostgreSQL server where databases may be made")
    parser.add_argument(
        "--keep", type=Path, help="a folder whose databases are kept, and used again next time"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
