from dataclasses import dataclass

import pytest

from afterturn_dashboard.admission import COOKIE, host_name, is_known, same_origin, visit_token
from afterturn_dashboard.visits import FAILURES_ALLOWED, IDLE_S, MOST_VISITS, Visits


@dataclass
class Clock:
    """Seconds that a test sets."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_visit_is_found_by_its_token_until_it_ends() -> None:
    visits = Visits(Clock())
    token = visits.begin("secret")
    visit = visits.find(token)
    assert visit is not None
    assert visit.admin_key == "secret"
    assert "secret" not in repr(visit)
    assert visits.find(token + "x") is None
    assert visits.find("") is None
    assert visits.holds(visit)
    visits.end(token)
    assert visits.find(token) is None
    assert not visits.holds(visit)


def test_a_visit_whose_key_is_refused_is_dropped_and_no_other() -> None:
    visits = Visits(Clock())
    first, second = visits.begin("a"), visits.begin("a")
    visit = visits.find(first)
    assert visit is not None
    visits.drop(visit)
    assert visits.find(first) is None
    assert visits.find(second) is not None


def test_an_idle_visit_ends_and_a_used_one_goes_on() -> None:
    clock = Clock()
    visits = Visits(clock)
    token = visits.begin("a")
    clock.seconds = IDLE_S - 1
    assert visits.find(token) is not None
    clock.seconds = 2 * IDLE_S - 2
    assert visits.find(token) is not None
    clock.seconds += IDLE_S + 1
    assert visits.find(token) is None


def test_visits_are_bounded_and_the_one_unseen_longest_ends() -> None:
    clock = Clock()
    visits = Visits(clock)
    tokens = []
    for second in range(MOST_VISITS + 1):
        clock.seconds = second
        tokens.append(visits.begin("a"))
    assert visits.find(tokens[0]) is None
    assert all(visits.find(token) for token in tokens[1:])


def test_guessing_keys_has_to_wait() -> None:
    clock = Clock()
    visits = Visits(clock)
    for _ in range(FAILURES_ALLOWED):
        assert not visits.must_wait()
        visits.failed()
    assert visits.must_wait()
    clock.seconds = 61
    assert not visits.must_wait()


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:30001", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:30001", "::1"),
        ("evil.example:30001", "evil.example"),
        ("", None),
        ("[::1", None),
    ],
)
def test_host_names(host: str, name: str | None) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:30001", True),
        ("127.0.0.1:30001", True),
        ("192.168.1.5", True),
        ("[::1]:30001", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.", False),
        ("1", False),
        ("", False),
    ],
)
def test_names_must_be_known_and_addresses_need_not(host: str, known: bool) -> None:
    assert is_known(host, frozenset({"localhost"})) is known


@pytest.mark.parametrize(
    ("origin", "ours"),
    [
        ("http://127.0.0.1:30001", True),
        ("https://127.0.0.1:30001", True),
        ("http://127.0.0.1:30002", False),
        ("http://127.0.0.1", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        (None, False),
        ("javascript://127.0.0.1:30001", False),
    ],
)
def test_origins(origin: str | None, ours: bool) -> None:
    assert same_origin(origin, "127.0.0.1:30001") is ours


def test_tokens_in_cookies() -> None:
    assert visit_token(f"other=1; {COOKIE}=abc; more=2") == "abc"
    assert visit_token(f"{COOKIE}=") == ""
    assert visit_token("broken;;=") is None
    assert visit_token(None) is None
