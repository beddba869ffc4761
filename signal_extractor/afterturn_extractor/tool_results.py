"""Tool results read as evidence: progress, the agent's error, or a fault of the environment."""

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from afterturn_extractor.evidence import ToolCall, Verdict
from afterturn_extractor.folding import clean
from afterturn_extractor.likeness import held_share

Kind = Literal["progress", "error", "environment", "empty"]


@dataclass(frozen=True, slots=True)
class ToolReading:
    """What one tool result says. An environment fault has no verdict: the agent could not help it."""

    verdict: Verdict | None
    kind: Kind


_ENVIRONMENT: Final = re.compile(
    r"timed? ?out|etimedout|deadline exceeded|econn\w+|"
    r"connection (?:refused|reset|aborted|closed|error|timed)|"
    r"network (?:is )?(?:unreachable|error|down)|enetunreach|ehostunreach|no route to host|"
    r"(?:could not|can(?:no|')t|failed to|unable to) (?:resolve|connect|reach)|name or service not known|"
    r"temporary failure|eai_again|enotfound|getaddrinfo|\bdns\b|ssl(?:error|: )|certificate verify|"
    r"rate.?limit\w*|too many requests|\b429\b|quota (?:exceeded|reached)|throttl\w+|"
    r"(?:https?|status|code|error)\W{0,3}(?:code\W{0,2})?50[234]\b|"
    r"bad gateway|service (?:temporarily )?unavailable|gateway timeout|internal server error|overloaded|"
    r"sandbox\w*|operation not permitted|read-only file ?system|no space left|disk quota|out of memory|"
    r"cannot allocate memory|oom-?kill\w*|\bkilled\b|resource temporarily unavailable|proxy error|"
    r"database is locked|device or resource busy|"
    r"browser (?:has )?(?:closed|crashed|disconnected)|approval (?:is )?(?:required|denied|pending|needed)|"
    r"(?:waiting|wait|pending|requires?|needs?)(?: for)?(?: the| an| your| user| owner| admin\w*)* "
    r"(?:approval|confirmation|consent)|"
    r"(?:session|token|credentials?|login|licen[cs]e|certificate)s? (?:is |has |have |are )?(?:been )?"
    r"expired|"
    r"(?:sign|log) in (?:again|first|to continue)|(?:login|authentication|captcha|sign-in) (?:is )?required|"
    r"unauthori[sz]ed\b|not (?:logged|signed) in|captcha|(?:under|scheduled) maintenance|maintenance mode|"
    r"(?:server|service|host|api|backend|upstream)s? (?:is |are )?(?:currently |temporarily )?"
    r"(?:down|offline|unavailable|busy|unreachable)|"
    r"try again later|no (?:internet|network)(?: connection)?|input/output error|i/o error|disk (?:is )?full|"
    r"(?:user|owner|operator) (?:has )?(?:declined|aborted|cancell?ed|interrupted)|"
    r"(?:user|permission) (?:denied|rejected) (?:the )?(?:tool|request|by)",
    re.IGNORECASE,
)
_FIRST_LINE: Final = re.compile(
    r"^[\s\[(<*\"'❌✗]{0,3}(?:tool )?(?:error\b|err!|fatal\b|failed\b|failure\b|exception\b|traceback \(|"
    r"invalid\b|"
    r"malformed\b|usage:|unknown (?:command|tool|option|column|table|argument)|unrecognized|"
    r"\w*(?:error|exception)\b ?[:(]|not found\b|no such\b|cannot \b|could not \b|unable to\b|"
    r"missing (?:required|argument|parameter|operand)|permission denied|access denied|\d* ?validation error|"
    r"(?:\w+ ){0,2}(?:validation|assertion|verification|compilation|build|deploy(?:ment)?|import|"
    r"install(?:ation)?|migration|request|upload|download|lookup|push|merge|pars(?:e|ing)|login|operation|"
    r"command|job|query|patch) "
    r"(?:has |was )?(?:failed|rejected|aborted|refused)\b|"
    r"<(?:tool_use_)?error>|syntax error|parse error|bad request\b|4\d\d (?:client error|bad|not))",
    re.IGNORECASE,
)
_ANY_LINE: Final = re.compile(
    r"^Traceback \(most recent call last\)|^(?:\w+\.)*\w*(?:Error|Exception): |^(?:npm )?ERR!|^E   |"
    r"^[^\n]{0,60}: command not found$|^[^\n]{0,200}: (?:No such file or directory|Is a directory|"
    r"Not a directory|Permission denied|Directory not empty)$|^[^\n]{0,80}-c: line \d+: |"
    r"^\S{1,40}: (?:invalid|illegal|unrecognized|unknown|missing|extra|cannot|unable|line \d+:|option|"
    r"paths must|possible|fatal|error|too (?:few|many)|syntax|bad|not )|"
    r"^\S{1,60}:\d+(?::\d+)?: (?:fatal )?error:|^error(?:\[\w+\])?: |^fatal: |^Try '[^'\n]{1,60} --help'|"
    r"^=+ .*\b\d+ (?:failed|error)|^\s+\d+:\d+:?\s+error\b|"
    r"^\W*(?:found )?[1-9]\d* (?:errors?|problems?)\b|\bis not an? (?:\w+ )?(?:command|option|subcommand)\b|"
    r"^(?:FAIL|FAILED)\b|\b[1-9]\d* (?:tests? )?fail(?:ed|ures?)\b|"
    r"^(?:Process|Command|Script|Program) (?:exited|failed) with (?:exit )?(?:code|status) [1-9]|"
    r"^\(?(?:exit(?:ed)?(?: with)?|return|status)[ _-]?(?:code|status)?\)?[:= ]+-?[1-9]\d*\b",
    re.MULTILINE | re.IGNORECASE,
)
_EXIT_ZERO: Final = re.compile(
    r"^\W{0,2}(?:process )?exit(?:ed)?[ _-]?(?:with )?(?:code|status)?[:= ]+0\b", re.I | re.M
)
_EMPTY: Final = re.compile(
    r"^[(<\[]?(?:no (?:output|results?|match(?:es)?|content|data|stdout)(?: found)?|none|null|undefined|"
    r"nothing found|empty|0 (?:results?|matches|rows?)|[\[{] ?[\]}]|\"\")?[)>\].]?$",
    re.I,
)
# A command that hangs is the agent's own doing, unless what it waited for is the network.
_OWN_TIMEOUT: Final = re.compile(
    r"^\W{0,3}(?:error: )?(?:the )?(?:command|script|execution|process) timed out", re.I
)
_NETWORK_CALL: Final = re.compile(
    r"https?:|\b(?:curl|wget|ping|ssh|scp|rsync|git (?:clone|pull|push|fetch)|pip|npm|npx|apt(?:-get)?|"
    r"docker|fetch|browser|search|request\w*|dig|nslookup|telnet|nc)\b",
    re.I,
)
_QUERY: Final = re.compile(r"\bselect\b.+\bfrom\b", re.I | re.S)
_EMPTY_SET: Final = re.compile(r"^(?:\[\s*\]|\{\s*\}|\(0 rows\)|empty set.*)$", re.I)
# A status line alone: what the server is to blame for, and what the request is.
_PHRASES: Final = "|".join(
    f"{status.value} {re.escape(status.phrase.split()[0])}\\b"
    for status in HTTPStatus
    if status.value >= HTTPStatus.BAD_REQUEST
)
_STATUS_LINE: Final = re.compile(rf"^(?:http/[\d.]+ (?=[45]\d\d\b)|(?={_PHRASES}))(\d{{3}})\b", re.I)
_OF_THE_SERVER: Final = frozenset({401, 407, 408, 425, 429, 500, 502, 503, 504, 507, 509, 511})
_FAILED_STATUS: Final = ("error", "errored", "failed", "failure", "fail", "invalid", "rejected", "not_found")
_WAITING_STATUS: Final = re.compile(
    r"(?:pending|awaiting|waiting|requires?|needs?)\w*(?:approval|confirmation|consent|review|user|auth)|"
    r"(?:approval|confirmation|auth)\w*(?:pending|required|needed)|rate_?limit\w*|timed?_?out|unavailable|throttled",
    re.I,
)
_SEARCHES: Final = re.compile(r"search|query|lookup|find|retriev", re.I)
_HIT: Final = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)]) (.+)$", re.M)
_KEY: Final = re.compile(r"\"\w+\"\s*:")
_FEWEST_HITS: Final = 2
_HIT_AT_MOST: Final = 600
# No single hit holds this share of what was searched for: the hits are about something else.
_ON_TOPIC_FROM: Final = 0.3
_FAILED_KEYS: Final = ("error", "errors", "err", "exception", "traceback")
_LOOKED_AT: Final = 600


def read_tool(text: str, *, reply_text: str = "", calls: tuple[ToolCall, ...] = ()) -> ToolReading:
    """Return what a tool result says about the turn that called the tool.

    Only how a result begins and ends, and what its structure declares, make it an error: a page or a log that
    mentions errors is not one.
    """
    text = clean(text).strip()
    if _EMPTY_SET.match(text) and _wrote_query(reply_text, calls):
        # The agent chose the filter itself, and it finds nothing the user asked for.
        return ToolReading(-1, "error")
    if not text or _EMPTY.match(text):
        return ToolReading(0, "empty")
    if (status := _STATUS_LINE.match(text)) is not None:
        return _of_status(int(status[1]))
    if _OWN_TIMEOUT.match(text):
        waits = _NETWORK_CALL.search(" ".join([reply_text[-2000:], *(call.arguments for call in calls)]))
        return ToolReading(None, "environment") if waits else ToolReading(-1, "error")
    result = _object(text)
    structured = None if result is None else _structured(result)
    if structured is not None:
        return structured
    declared = None if result is None else _declared(result)
    message = text if declared is None else declared
    if declared is None and _EXIT_ZERO.search(text) and not _ANY_LINE.search(_ends(text)):
        return ToolReading(1, "progress")
    if declared == "":
        return ToolReading(1, "progress")
    if declared is not None or _is_error(text):
        return (
            ToolReading(None, "environment")
            if _ENVIRONMENT.search(_ends(message))
            else ToolReading(-1, "error")
        )
    if len(text) < 200 and _ENVIRONMENT.search(text) and not text[0].isdigit():
        return ToolReading(None, "environment")
    return ToolReading(0, "empty") if _off_topic(text, calls) else ToolReading(1, "progress")


def _off_topic(text: str, calls: tuple[ToolCall, ...]) -> bool:
    """Whether a search found a list of things of which none is about what was searched for."""
    sought = " ".join(_KEY.sub(" ", call.arguments) for call in calls if _SEARCHES.search(call.name))
    hits = [hit[1][:_HIT_AT_MOST] for hit in _HIT.finditer(text)]
    # A short query says too little of what it is about.
    if held_share(sought, sought) == 0 or len(hits) < _FEWEST_HITS:
        return False
    return all(held_share(sought, hit) < _ON_TOPIC_FROM for hit in hits)


def _of_status(status: int) -> ToolReading:
    if status in _OF_THE_SERVER:
        return ToolReading(None, "environment")
    return ToolReading(-1, "error")


def _structured(result: dict[str, object]) -> ToolReading | None:
    """What a JSON object says by a status or by holding nothing; None where it says neither."""
    statuses = [
        result.get(key) for key in ("status", "code", "statusCode", "status_code", "http_status", "state")
    ]
    for status in statuses:
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
            return _of_status(status)
        if isinstance(status, str) and _WAITING_STATUS.search(status):
            return ToolReading(None, "environment")
    collections = [value for value in result.values() if isinstance(value, list | dict)]
    counts = [value for value in result.values() if isinstance(value, int) and not isinstance(value, bool)]
    failed = any(result.get(key) for key in _FAILED_KEYS)
    # Nothing but empty lists, zeros and marks of success: a search that found nothing.
    if collections and not failed and not any(collections) and not any(counts):
        return ToolReading(0, "empty")
    return None


def _object(text: str) -> dict[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):  # nested without end
        return None
    return result if isinstance(result, dict) else None


def _is_error(text: str) -> bool:
    return _FIRST_LINE.search(text[:200]) is not None or _ANY_LINE.search(_ends(text)) is not None


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"


def _declared(result: dict[str, object]) -> str | None:
    """The error message a JSON result declares; "" if it declares success, None if it declares nothing."""
    failed = next((str(result[key]) for key in _FAILED_KEYS if result.get(key)), "")
    code = next((result[key] for key in ("exit_code", "returncode", "exitCode") if key in result), None)
    if failed or (isinstance(code, int) and code != 0) or result.get("is_error") or result.get("isError"):
        return failed or str(
            result.get("output") or result.get("stderr") or result.get("content") or "failed"
        )
    if (
        result.get("success") is False
        or result.get("ok") is False
        or str(result.get("status")).casefold() in _FAILED_STATUS
    ):
        return str(result.get("message") or "failed")
    return "" if code == 0 or result.get("success") is True or result.get("ok") is True else None


def _wrote_query(reply_text: str, calls: tuple[ToolCall, ...]) -> bool:
    return any(
        _QUERY.search(written[-4000:]) for written in (reply_text, *(call.arguments for call in calls))
    )
