"""Keys: shown once, stored as a hash, found by what is presented."""

import os
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlmodel import select

from afterturn_core.columns import utc_now
from afterturn_core.errors import AuthenticationError, Conflict
from afterturn_core.keys import ADMIN, USER_SCOPES, add_agent, add_key, prepare_first_start
from afterturn_core.models import Agent, Key
from afterturn_core.settings import Settings
from afterturn_server.caller import find_caller

ADMIN_KEY = "an-admin-key-of-thirty-letters"


def written(settings):
    return dict(line.split("=", 1) for line in settings.keys_file.read_text().split())


def scopes(database, key):
    with database.read() as session:
        return find_caller(session, key, "inference").scopes


def refused(database, key):
    with database.read() as session, pytest.raises(AuthenticationError) as error:
        find_caller(session, key, "inference")
    return error.value.message


def test_the_first_start_writes_keys_once_for_the_owner_alone(database, tmp_path):
    settings = Settings(data_dir=tmp_path / "fresh")
    assert prepare_first_start(database, settings) is True
    first = written(settings)
    assert os.stat(settings.keys_file).st_mode & 0o777 == 0o600
    assert prepare_first_start(database, settings) is False
    assert written(settings) == first
    assert scopes(database, first["AFTERTURN_API_KEY"]) == set(USER_SCOPES)
    assert scopes(database, first["AFTERTURN_ADMIN_KEY"]) == {ADMIN}


def test_a_given_admin_key_replaces_the_written_one(database, tmp_path):
    settings = Settings(data_dir=tmp_path)
    prepare_first_start(database, settings)
    given = settings.model_copy(update={"admin_key": SecretStr(ADMIN_KEY)})
    for _ in range(2):
        prepare_first_start(database, given)
    assert scopes(database, ADMIN_KEY) == {ADMIN}
    refused(database, written(settings)["AFTERTURN_ADMIN_KEY"])


def test_a_given_admin_key_at_the_first_start_is_the_only_one(database, tmp_path):
    settings = Settings(data_dir=tmp_path, admin_key=SecretStr(ADMIN_KEY))
    prepare_first_start(database, settings)
    assert written(settings)["AFTERTURN_ADMIN_KEY"] == ADMIN_KEY
    with database.read() as session:
        rows = session.exec(select(Key)).all()
    assert len([row for row in rows if row.scopes == [ADMIN] and row.revoked_at is None]) == 1


def test_no_part_of_a_key_that_opens_anything_is_stored(database, tmp_path):
    with database.write() as session:
        key, row = add_key(session, add_agent(session, "a"), USER_SCOPES)
    assert key.startswith(row.prefix)
    database.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("afterturn.db*"))
    assert row.prefix.encode() in stored
    assert key.encode() not in stored
    assert key[len(row.prefix) :].encode() not in stored


def test_unknown_revoked_and_expired_keys_are_refused_alike(database):
    with database.write() as session:
        agent = add_agent(session, "a")
        revoked, row = add_key(session, agent, USER_SCOPES)
        row.revoked_at = utc_now()
        expired, late = add_key(session, agent, USER_SCOPES, expires_in_s=60)
        late.expires_at = utc_now() - timedelta(seconds=1)
        valid, _ = add_key(session, agent, USER_SCOPES, expires_in_s=60)
        session.add_all([row, late])
    assert len({refused(database, key) for key in (revoked, expired, "at-unknown", "")}) == 1
    assert scopes(database, valid) == set(USER_SCOPES)


def test_agent_names_are_unique(database):
    with database.write() as session:
        add_agent(session, "a")
    with database.write() as session, pytest.raises(Conflict):
        add_agent(session, "a")
    with database.read() as session:
        assert len(session.exec(select(Agent)).all()) == 1


def test_an_admin_key_that_is_set_back_counts_again(database, tmp_path):
    settings = Settings(data_dir=tmp_path)
    prepare_first_start(database, settings)
    for key in (ADMIN_KEY, f"{ADMIN_KEY}-the-second", ADMIN_KEY):
        prepare_first_start(database, settings.model_copy(update={"admin_key": SecretStr(key)}))
    assert scopes(database, ADMIN_KEY) == {ADMIN}
    refused(database, f"{ADMIN_KEY}-the-second")
