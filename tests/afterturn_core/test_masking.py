"""What is masked, what is left alone, and that masking twice is masking once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterturn_core.masking import mask, mask_json

SECRETS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "11ABCDEFG0" * 3,
    "glpat-" + "x1Y2" * 5,
    "xoxb-123456789012-123456789012-abcdefABCDEF",
    "sk_live_" + "a1b2" * 6,
    "sk-ant-api03-" + "a1B2" * 8,
    "AIza" + "Sy0a" * 8,
    "SG." + "a" * 22 + "." + "b" * 43,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA",
]
PERSONAL = [
    ("jane.doe+news@example.org", "email"),
    ("žaneta@príklad.sk", "email"),
    ("4111 1111 1111 1111", "card"),
    ("5500-0000-0000-0004", "card"),
    ("DE89 3704 0044 0532 0130 00", "iban"),
    ("GB82WEST12345698765432", "iban"),
    ("+49 30 901820", "phone"),
    ("+33 1 42 68 53 00", "phone"),
    ("536-22-8726", "ssn"),
]
FRAMES = [
    "Use {} for that.",
    "Nimm bitte {} dafür.",
    "请用 {} 。",
    "Возьми {} и повтори",
    'print("{}")',
    "{}",
    "line one\n{}\nline three",
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_wherever_it_stands(frame: str, secret: str) -> None:
    found = mask(frame.format(secret))
    assert secret not in found.text
    assert "[secret]" in found.text
    assert found.kinds == {"secret"}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("value", "kind"), PERSONAL)
def test_personal_data_is_masked_by_its_kind(frame: str, value: str, kind: str) -> None:
    found = mask(frame.format(value))
    assert found.text == frame.format(f"[{kind}]")
    assert found.kinds == {kind}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password: hunter22 please", "password: [secret] please"),
        ("The password is hunter22!", "The password is [secret]"),
        ("Das Passwort: my_password=hunter22", "Das Passwort: my_password=[secret]"),
        ("contraseña: clave9431", "contraseña: [secret]"),
        ("DB_PASSWORD=swordfish", "DB_PASSWORD=[secret]"),
        ('{"password": "swordfish", "user": "jane"}', '{"password": "[secret]", "user": "jane"}'),
        ("api_key = 'abcdwxyz'", "api_key = '[secret]'"),
        ("postgresql://app:p4ss@db/x", "postgresql://app:[secret]@db/x"),
        ("Authorization: Bearer abcdef1234567890", "Authorization: Bearer [secret]"),
        ("//registry.example/:_authToken=npm_abcdefgh", "//registry.example/:_authToken=[secret]"),
    ],
)
def test_what_is_named_a_secret_is_one(text: str, masked: str) -> None:
    assert mask(text).text == masked


@pytest.mark.parametrize(
    "text",
    [
        "The secret: keep it simple. My password manager asked for a token, is that usual?",
        "max_tokens=4096, prompt_tokens: 1234567, token: str",
        "def login(user, password=password, secret=settings.secret): return get_token(user)",
        "password = os.environ['PASSWORD']\npassword = getpass()\npassword: ${DB_PASSWORD}",
        "commit b87941d0c5d5941d0c5d5941d0c5d5941d0c5d59\nAuthor: b87941d",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "git clone git@github.com:owner/name.git",
        "Order 1234567890123456 of 2026-12-01, id 1733031167000",
        "127.0.0.1:30000 and 10.0.0.1/24, version 1.2.3-45-6789",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "Ein ganz gewöhnlicher Satz. 普通の文です。 Обычное предложение.",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert (mask(text).text, mask(text).kinds) == (text, frozenset())


PIECES = [
    *SECRETS,
    *(value for value, _ in PERSONAL),
    "password",
    "=",
    ": ",
    '"',
    "[secret]",
    "@",
    "://",
    " ",
]
MIXED = st.lists(st.one_of(st.sampled_from(PIECES), st.text(st.characters(), max_size=12)), max_size=12).map(
    "".join
)


@settings(deadline=None, max_examples=300)
@given(MIXED)
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask(text)
    again = mask(once.text)
    assert (again.text, again.kinds) == (once.text, frozenset())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | MIXED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["password", "text", "arguments", "id"]) | st.text(max_size=8), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_masking_a_value_twice_is_masking_it_once(value: object) -> None:
    once, _ = mask_json(value)
    assert mask_json(once) == (once, frozenset())


def test_every_order_of_surrogates_and_control_characters_is_read() -> None:
    for text in (
        "\ud800",
        "\udfff\ud800 password: hunter22",
        "\x00\x0b\u2028password: hunter22",
        "\U0010ffff",
    ):
        assert "hunter22" not in mask(text).text


@pytest.mark.parametrize(
    "unit",
    ["://a:", "eyJ", "eyJa.", "a@", "a@a.", "1 ", "4-", "DE89 ", "password", 'password="', "password:", "+1 ",
     "-----BEGIN ", "Bearer a", "//:_authToken", "sk-", "\n", "'"],
)  # fmt: skip
def test_a_long_text_of_what_patterns_stumble_over_ends(unit: str) -> None:
    long = unit * (20_000 // len(unit))
    masked = mask(f"{long} ghp_{'a1B2' * 9}\n")
    assert "ghp_a1B2" not in masked.text


def test_fields_and_arguments_are_read_by_their_names() -> None:
    call = {"id": "call_1", "function": {"name": "login", "arguments": '{"password": "swordfish"}'}}
    found, kinds = mask_json({"tool_calls": [call], "password": "swordfish", "secret": None})
    assert json.loads(found["tool_calls"][0]["function"]["arguments"]) == {"password": "[secret]"}
    assert found["password"] == "[secret]"
    assert kinds == {"secret"}


def test_a_value_without_secrets_comes_back_itself() -> None:
    value = {"messages": [{"role": "user", "content": "hello"}]}
    assert mask_json(value)[0] is value


def test_arguments_that_are_nested_too_deeply_go_altogether() -> None:
    deep = "[" * 500 + '"jane@example.org"' + "]" * 500
    found, kinds = mask_json({"arguments": f'{{"a": {deep}}}'})
    assert "jane@example.org" not in json.dumps(found)
    assert kinds == {"secret"}


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_gateway_that_masks_nothing_imports_none_of_it() -> None:
    code = "import sys, afterturn_server.app\n"
    code += "assert not {'detect_secrets', 'phonenumbers'} & sys.modules.keys()"
    assert run(code).returncode == 0, run(code).stderr


@pytest.mark.parametrize("mask_setting", ["storage", "judge,loss"])
def test_a_setting_without_its_libraries_stops_the_process_with_what_to_install(
    mask_setting: str, tmp_path: Path
) -> None:
    code = (
        "import sys; sys.modules['detect_secrets'] = None\n"
        "from afterturn_server.__main__ import main\nsys.exit(main())"
    )
    ended = run(code, AFTERTURN_MASK=mask_setting, AFTERTURN_DATA_DIR=str(tmp_path))
    assert ended.returncode == 2
    assert "AFTERTURN_MASK" in ended.stderr
    assert "afterturn-platform[privacy]" in ended.stderr
