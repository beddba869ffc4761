"""Where a text holds secrets and personal data, found by libraries that are imported with this module alone.

Secrets: the patterns of detect-secrets, where what they match starts and ends (its own `analyze_string`
gives parts of some tokens and no positions). Personal data: python-stdnum checks the sums of card numbers,
IBANs and US social security numbers, phonenumbers finds telephone numbers with their country's prefix.
Names, addresses and bare numbers are not found, and entropy alone makes nothing a secret: commit hashes,
UUIDs and digests are what agents work with.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import phonenumbers
from detect_secrets.filters.heuristic import is_templated_secret
from detect_secrets.plugins import (
    aws,
    azure_storage_key,
    basic_auth,
    discord,
    github_token,
    gitlab_token,
    jwt,
    keyword,
    mailchimp,
    npm,
    openai,
    pypi_token,
    sendgrid,
    slack,
    square_oauth,
    stripe,
    telegram_token,
    twilio,
)
from stdnum import iban, luhn
from stdnum.us import ssn

BLOCK: Final = 2048  # characters that a pattern sees at once: its time is bounded, whatever it backtracks

WINDOW: Final = 240  # characters behind a word such as `password` in which its value is looked for


class Span(NamedTuple):
    """Characters [start, end) that are of a kind: `secret`, `email`, `card`, `iban`, `phone`, `ssn`."""

    start: int
    end: int
    kind: str


_WHOLE: Final = tuple(
    pattern
    for detector in (
        aws.AWSKeyDetector,
        azure_storage_key.AzureStorageKeyDetector,
        discord.DiscordBotTokenDetector,
        github_token.GitHubTokenDetector,
        gitlab_token.GitLabTokenDetector,
        mailchimp.MailchimpDetector,
        openai.OpenAIDetector,
        pypi_token.PypiTokenDetector,
        sendgrid.SendGridDetector,
        slack.SlackDetector,
        square_oauth.SquareOAuthDetector,
        stripe.StripeDetector,
        telegram_token.TelegramBotTokenDetector,
        twilio.TwilioKeyDetector,
    )
    for pattern in detector.denylist
)
# Tokens younger than the library's last release, and what a header says.
_YOUNGER: Final = re.compile(
    r"\b(?:sk-(?:ant|proj|or|svcacct)-|github_pat_|hf_|AIza|ya29\.|[spr]k_(?:live|test)_|npm_|gsk_|xai-)"
    r"[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}\b"
)
_BEARER: Final = re.compile(r"(?i)\b(?:bearer|authorization: *basic)[ ]+([A-Za-z0-9._~+/-]{16,}={0,2})")
_SECRET_WORD: Final = re.compile("|".join((*keyword.DENYLIST, "token", "passphrase")), re.IGNORECASE)
_LISTED: Final = re.compile("|".join(keyword.DENYLIST), re.IGNORECASE)
_QUOTED: Final = keyword.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP
_BARE: Final = re.compile(
    rf"(?P<name>[\w-]{{0,40}}(?:{_SECRET_WORD.pattern})[\w-]{{0,40}})[\"']?(?:(?P<sign>\s?[:=]\s?)|\s(?:is|ist|est|es|è)\s)"
    r"(?P<value>[^\s\"'`\\,;<>(){}\[\]]{6,200})",
    re.IGNORECASE,
)
_EMAIL: Final = re.compile(
    r"(?<![\w.+-])(?!git@)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.[^\W\d_]{2,24}(?![\w-])"
)
_CARD: Final = re.compile(r"(?<![\w.-])[3-6](?:[ -]?[0-9]){12,18}(?![\w-])", re.ASCII)
_IBAN: Final = re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}", re.ASCII)
_SSN: Final = re.compile(r"(?<![\w-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])", re.ASCII)
_BEGIN, _PRIVATE, _END = "-----BEGIN ", "PRIVATE KEY", "-----END "


def spans(text: str) -> Iterator[Span]:
    """Everything found, in no order; spans may overlap."""
    yield from _private_keys(text)
    for start, block in blocks(text):
        for span in (*_secrets(block), *_personal(block)):
            yield Span(start + span.start, start + span.end, span.kind)


def names_a_secret(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    return _LISTED.search(name) is not None


def is_a_value(value: str) -> bool:
    """Whether what a secret's field holds is one, and no place for it (`${…}`, `<…>`, `****`)."""
    return len(value) >= 4 and any(map(str.isalnum, value)) and not is_templated_secret(value)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """(offset, block): whole lines together, long lines cut at a blank, without one anywhere."""
    start = 0
    while start < len(text):
        end = min(start + BLOCK, len(text))
        if end < len(text):
            cut = text.rfind("\n", start + 1, end)
            end = (cut if cut > 0 else max(text.rfind(" ", start + 1, end), 0)) or end
        yield start, text[start:end]
        start = end


def _private_keys(text: str) -> Iterator[Span]:
    begin = text.find(_BEGIN)
    while begin >= 0:
        head = text.find("-----", begin + len(_BEGIN), begin + 80)
        if head < 0 or _PRIVATE not in text[begin:head]:
            begin = text.find(_BEGIN, begin + 1)
            continue
        tail = text.find(_END, head)
        close = -1 if tail < 0 else text.find("-----", tail + len(_END), tail + 80)
        end = len(text) if close < 0 else close + 5
        yield Span(begin, end, "secret")
        begin = text.find(_BEGIN, end)


def _secrets(block: str) -> Iterator[Span]:
    for pattern in _WHOLE:
        for match in pattern.finditer(block):
            yield Span(match.start(), match.end(), "secret")
    for match in _YOUNGER.finditer(block):
        yield Span(match.start(), match.end(), "secret")
    for match in _BEARER.finditer(block):
        if any(map(str.isdigit, match[1])):
            yield Span(match.start(1), match.end(1), "secret")
    if "eyJ" in block:
        for match in jwt.JwtTokenDetector.denylist[0].finditer(block):
            if jwt.JwtTokenDetector.is_formally_valid(match[0]):
                # What the library's pattern leaves of the signature belongs to it.
                rest = re.compile(r"[\w=+/-]*").match(block, match.end())
                yield Span(match.start(), match.end() if rest is None else rest.end(), "secret")
    if "://" in block:
        for match in basic_auth.BasicAuthDetector.denylist[0].finditer(block):
            yield Span(match.start(1), match.end(1), "secret")
    if "_authToken" in block:
        for pattern in npm.NpmDetector.denylist:
            for match in pattern.finditer(block):
                yield Span(match.start(1), match.end(1), "secret")
    if _SECRET_WORD.search(block):
        yield from _named(block)


def _named(block: str) -> Iterator[Span]:
    """Values that stand beside a word such as `password`, line by line: the library's patterns know no end
    of a line."""
    start = 0
    for line in block.splitlines(keepends=True):
        if _SECRET_WORD.search(line):
            yield from _quoted(line, start)
            for match in _BARE.finditer(line):
                if _looks_made_up(match["name"], match["sign"], match["value"]):
                    yield Span(start + match.start("value"), start + match.end("value"), "secret")
        start += len(line)


def _quoted(line: str, offset: int) -> Iterator[Span]:
    """By the library's patterns, which take a time that grows with the cube of a line's length."""
    covered = -1
    for word in _LISTED.finditer(line):
        if word.start() < covered:
            continue
        covered = word.start() + WINDOW // 2
        begin = max(0, word.start() - WINDOW // 4)
        window = line[begin : word.start() + WINDOW]
        for pattern, group in _QUOTED.items():
            for match in pattern.finditer(window):
                if is_a_value(match[group]):
                    left = offset + begin
                    yield Span(left + match.start(group), left + match.end(group), "secret")


def _looks_made_up(name: str, sign: str | None, value: str) -> bool:
    """Whether a value without quotes is a secret: prose and code put words there."""
    if not is_a_value(value):
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    if name.isupper() and sign == "=":
        return True  # NAME=value, a line of an environment
    return (letters and digits) or (letters and any(sign in value for sign in "!#%^&*+~?@"))


def _personal(block: str) -> Iterator[Span]:
    if "@" in block:
        for match in _EMAIL.finditer(block):
            yield Span(match.start(), match.end(), "email")
    if "+" in block:
        for number in phonenumbers.PhoneNumberMatcher(block, None):
            yield Span(number.start, number.end, "phone")
    for match in _CARD.finditer(block):
        if luhn.is_valid(re.sub("[ -]", "", match[0])):
            yield Span(match.start(), match.end(), "card")
    for match in _IBAN.finditer(block):
        for end in range(match.end(), match.start() + 14, -1):  # what follows it in capitals is not its own
            if block[end - 1] != " " and iban.is_valid(block[match.start() : end], check_country=False):
                yield Span(match.start(), end, "iban")
                break
    for match in _SSN.finditer(block):
        if ssn.is_valid(match[0]):
            yield Span(match.start(), match.end(), "ssn")
