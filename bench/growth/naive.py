"""The same history as a log would keep it: every request whole, with its ids, a row a turn."""

import random
from dataclasses import dataclass

import orjson
from sqlalchemy import text

from afterturn_core.database import Database
from afterturn_core.history import pack_ids
from bench.growth.conversations import TURNS, conversation


@dataclass(frozen=True)
class Naive:
    """Bytes a turn over `n` turns of whole conversations.

    `row` is what the database's table takes; `prompt_ids_json` and `prompt_ids_packed` are the ids of one
    whole prompt as JSON and as compressed integers.
    """

    n: int
    row: float
    prompt_ids_json: float
    prompt_ids_packed: float


def store_naively(database: Database, turns: int) -> Naive:
    """Write the turns of the first conversations into a table of their own, look what it takes, drop it."""
    choose = random.Random(0)
    json_bytes = packed_bytes = 0
    conversations = max(1, turns // TURNS)
    before = database_bytes(database)
    blob = "BYTEA" if database.is_postgresql else "BLOB"
    with database.write() as session:
        session.execute(
            text(
                f"CREATE TABLE naive (id TEXT PRIMARY KEY, request TEXT, reply TEXT, ids TEXT, extra {blob})"
            )
        )
    for number in range(conversations):
        talk = conversation(number)
        rows = []
        for turn, step in enumerate(talk.steps):
            prompt = talk.prompt_ids(turn)
            ids = {
                "prompt_token_ids": prompt,
                "token_ids": step.reply_ids,
                "logprobs": [round(-choose.expovariate(2.0), 6) for _ in step.reply_ids],
            }
            json_bytes += len(orjson.dumps(prompt))
            packed_bytes += len(pack_ids(prompt))
            request = orjson.dumps({"messages": talk.messages(turn)}).decode()
            rows.append(
                {
                    "id": f"{number}.{turn}",
                    "request": request,
                    "reply": orjson.dumps(step.reply).decode(),
                    "ids": orjson.dumps(ids).decode(),
                }
            )
        with database.write() as session:
            session.execute(
                text("INSERT INTO naive (id, request, reply, ids) VALUES (:id, :request, :reply, :ids)"), rows
            )
    taken = database_bytes(database) - before
    with database.write() as session:
        session.execute(text("DROP TABLE naive"))
    n = conversations * TURNS
    return Naive(n, round(taken / n, 1), round(json_bytes / n, 1), round(packed_bytes / n, 1))


def database_bytes(database: Database) -> int:
    """What the database takes on disk, its log not counted."""
    with database.engine.connect() as connection:
        if database.is_postgresql:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())
