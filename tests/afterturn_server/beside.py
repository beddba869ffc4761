"""What else writes to an install's database, as processes of their own.

python -m tests.afterturn_server.beside judge URL      judges and sweeps until its input ends
python -m tests.afterturn_server.beside claim URL N    claims a round and cancels it, N times
python -m tests.afterturn_server.beside lock FILE S    holds the write lock for S seconds
"""

import select
import sqlite3
import sys
import time

from sqlmodel import Session
from sqlmodel import select as select_rows

from afterturn_core.broker import Wake
from afterturn_core.database import Database
from afterturn_core.errors import Conflict
from afterturn_core.lifecycle import RoundPlan, claim_round, request_cancel
from afterturn_core.models import Agent, Turn
from afterturn_core.settings import Settings
from afterturn_extractor import rules
from afterturn_extractor.judging import judge_turn
from afterturn_extractor.sweep import Sweep

PAUSE_S = 0.02


def judge(url: str) -> None:
    """The extractor's work without its messages: a verdict on every observed turn, and the beat's sweep."""
    database = Database(url)
    sweep = Sweep(database, Settings(database_url=url), Wake(""))
    _say("ready")
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        sweep.once()
        with database.read() as session:
            waiting = session.exec(select_rows(Turn.id).where(Turn.state == "observed")).all()
        for turn_id in waiting:
            judge_turn(database, rules.judge, turn_id)
    database.close()


def claim(url: str, times: int) -> None:
    """Read which turns wait, then write that they are claimed; the other process does the same."""
    database = Database(url)
    claimed = 0
    for _ in range(times):
        try:
            with database.write() as session:
                agent = session.exec(select_rows(Agent).where(Agent.name == "default")).one()
                round_id = claim_round(session, agent, RoundPlan(objective="hybrid", max_turns=64)).id
            with database.write() as session:
                _cancel(session, round_id)
            claimed += 1
        except Conflict:
            continue
    _say(str(claimed))
    database.close()


def _cancel(session: Session, round_id: str) -> None:
    request_cancel(session, round_id)


def lock(file: str, seconds: float) -> None:
    """As a backup tool of somebody else's would."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=60)
    connection.execute("BEGIN IMMEDIATE")
    _say("locked")
    time.sleep(seconds)
    connection.execute("ROLLBACK")
    connection.close()


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    if what == "judge":
        judge(where)
    elif what == "claim":
        claim(where, int(rest[0]))
    else:
        lock(where, float(rest[0]))
