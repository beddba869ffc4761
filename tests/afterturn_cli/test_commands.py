"""Commands about a running install, against a real gateway."""

import json
from pathlib import Path

import pytest
from tests.afterturn_cli.conftest import Run


@pytest.mark.usefixtures("gateway")
def test_a_new_key_is_printed_as_json_with_exactly_two_fields(run: Run) -> None:
    made = run("keys", "add", "--agent", "default", "--json")
    assert made.code == 0
    key = json.loads(made.out)
    assert sorted(key) == ["key", "prefix"]
    assert key["key"].startswith(key["prefix"])
    listed = json.loads(run("keys", "list", "--json").out)["data"]
    assert key["prefix"] in [row["prefix"] for row in listed]
    assert key["key"] not in run("keys", "list", "--json").out


@pytest.mark.usefixtures("gateway")
def test_a_revoked_key_says_so_in_the_listing(run: Run) -> None:
    prefix = json.loads(run("keys", "add", "--agent", "default", "--json").out)["prefix"]
    assert run("keys", "revoke", prefix).code == 0
    (row,) = [row for row in json.loads(run("keys", "list", "--json").out)["data"] if row["prefix"] == prefix]
    assert row["revoked_at"] is not None


@pytest.mark.usefixtures("gateway")
def test_agents_are_made_listed_and_changed(run: Run) -> None:
    assert run("agents", "add", "helper").code == 0
    names = [row["name"] for row in json.loads(run("agents", "list", "--json").out)["data"]]
    assert sorted(names) == ["default", "helper"]
    changed = run("agents", "update", "helper", "--frozen", "--json")
    assert json.loads(changed.out)["frozen"] is True
    assert "helper" in run("agents", "list").out


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("listing", ["agents", "keys", "turns", "rounds", "adapters"])
def test_every_listing_has_json_and_a_table(run: Run, listing: str) -> None:
    assert isinstance(json.loads(run(listing, "list", "--json").out)["data"], list)
    assert run(listing, "--json").out == run(listing, "list", "--json").out
    assert run(listing, "list").out.strip()


@pytest.mark.usefixtures("gateway")
def test_figures_name_the_agent_and_the_engine(run: Run) -> None:
    assert [row["agent"] for row in json.loads(run("stats", "--json").out)["agents"]] == ["default"]
    told = run("stats").out
    assert "default" in told
    assert "engine is away" in told


@pytest.mark.usefixtures("gateway")
def test_an_empty_listing_says_what_to_do_next(run: Run) -> None:
    assert "afterturn rounds start" in run("rounds", "list").out


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("agents", "show", "nobody"), "nobody"),
        (("agents", "add", "default"), "default"),
        (("turns", "show", "turn_none"), "turn_none"),
        (("rounds", "start", "default"), "no judged turns"),
        (("adapters", "rollback", "default"), "base model"),
        (("adapters", "promote", "default@v9"), "default@v9"),
        (("feedback", "thumb", "turn_none", "up"), "turn_id"),
    ],
)
def test_what_the_server_refuses_ends_with_1_and_its_reason(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    refused = run(*arguments)
    assert refused.code == 1
    assert said in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("agents", "update", "default"),
        ("agents", "update", "default", "--pin", "3", "--unpin"),
        ("feedback", "outcome", "0.5"),
        ("feedback", "score", "turn_1", "7"),
        ("feedback", "thumb", "turn_1", "sideways"),
        ("keys", "add"),
        ("nonsense",),
        ("adapters", "export", "no-version", "folder"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_wrong_usage_ends_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    refused = run(*arguments)
    assert refused.code == 2
    assert refused.err


@pytest.mark.usefixtures("own_folder")
def test_no_key_says_where_keys_come_from(run: Run) -> None:
    refused = run("agents", "list")
    assert refused.code == 2
    assert "keys.env" in refused.err


@pytest.mark.usefixtures("gateway")
def test_a_wrong_key_is_refused_and_never_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_ADMIN_KEY", "at-this-key-is-not-known-here")
    refused = run("agents", "list")
    assert refused.code == 1
    assert "keys.env" in refused.err
    assert "not-known-here" not in refused.err


@pytest.mark.usefixtures("own_folder")
def test_no_server_says_how_to_start_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_ADMIN_KEY", "at-0123456789012345678901234567890123456789")
    refused = run("agents", "list")
    assert refused.code == 1
    assert "afterturn up" in refused.err


@pytest.mark.usefixtures("own_folder")
def test_feedback_given_while_the_server_is_away_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_API_KEY", "at-0123456789012345678901234567890123456789")
    kept = run("feedback", "thumb", "turn_1", "down", "--json")
    assert kept.code == 0
    assert json.loads(kept.out)["kept"] is True
    assert "afterturn feedback flush" in kept.err


@pytest.mark.usefixtures("gateway")
def test_an_export_is_written_as_a_whole_or_not_at_all(run: Run, own_folder: Path) -> None:
    out = own_folder / "default.jsonl"
    assert run("export", "--agent", "default", "--out", str(out)).code == 0
    assert all(isinstance(json.loads(line), dict) for line in out.read_text().splitlines())
    missing = own_folder / "nobody.jsonl"
    assert run("export", "--agent", "nobody", "--out", str(missing)).code == 1
    assert not missing.exists()


@pytest.mark.usefixtures("gateway")
def test_erase_asks_for_one_target_and_prints_the_receipt(run: Run) -> None:
    assert run("erase", "--yes").code == 2
    assert run("erase", "--yes", "--turn", "turn_x", "--agent", "default").code == 2
    receipt = json.loads(run("erase", "--yes", "--agent", "default", "--json").out)
    assert (receipt["turns"], receipt["tainted_adapters"]) == (0, [])
    assert run("erase", "--yes", "--turn", "turn_x").code == 1
