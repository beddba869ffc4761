"""The words and shapes by which a tool result's text shows an error, a fault of the environment, nothing."""

import re
from typing import Final

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
    r"(?:user|permission) (?:denied|rejected) (?:the )?(?:tool|request|by)|"
    r"(?:user|owner) (?:does not|doesn't|did not|didn't) want|(?:rejected|denied|declined|"
    r"cancell?ed) by (?:the )?"
    r"(?:user|owner|operator)|net::err_(?:internet|name|connection|network|address|timed|proxy|cert|ssl)\w*|"
    r"code = (?:unavailable|deadlineexceeded|resourceexhausted|aborted)\b|resource_?exhausted|unknown_?host|"
    r"the database system is (?:starting up|shutting down|in recovery)|deadlock (?:detected|found)|"
    r"lock wait timeout|"
    r"too many (?:connections|clients|open files)|\bmemoryerror\b|max retries exceeded|"
    r"did not respond (?:with)?in\b|(?:reached|exceeded|exhausted|over)\b[^\n]{0,30}\bquota\b|"
    r"(?:context|page|target) (?:or browser )?(?:has been )?closed|"
    r"(?:terminal|password|passphrase) is required",
    re.IGNORECASE,
)
_FIRST_LINE: Final = re.compile(
    r"^(?:[\s\[(<*\"'❌✗╷│×]{0,6}|\w+: )(?:tool )?(?:error\b|err!|fatal\b|failed\b|failure\b|exception\b|"
    r"traceback \(|"
    r"invalid\b|"
    r"malformed\b|usage:|unknown (?:command|tool|option|column|table|argument)|unrecognized|"
    r"\w*(?:error|exception)\b ?(?:\(|:(?! ?[-+.\d]))|not found\b|no such\b|cannot \b|could not \b|"
    r"unable to\b|"
    r"missing (?:required|argument|parameter|operand)|permission denied|access denied|\d* ?validation error|"
    r"(?:\w+ ){0,2}(?:validation|assertion|verification|compilation|build|deploy(?:ment)?|import|"
    r"install(?:ation)?|migration|request|upload|download|lookup|push|merge|pars(?:e|ing)|login|operation|"
    r"command|job|query|patch) "
    r"(?:has |was )?(?:failed|rejected|aborted|refused)\b|"
    # "Validation error: …" and not "Mean squared error: 0.02".
    r"(?:\w+ ){1,3}error: (?![-+\d.]|none|null|no\b)|"
    r"(?-i:(?:[a-z]\w*\.)*[A-Z]\w*(?:Not[A-Z]|Invalid|Denied|Expired|Refused|Mismatch|Unsupported)\w*): |"
    r"<(?:tool_use_)?error>|syntax error|parse error|bad request\b|4\d\d (?:client error|bad|not)|"
    r"(?:http|status)(?: code)?:? 4\d\d\b|(?:\w+ ){1,3}failed: )",
    re.IGNORECASE,
)
# What the C library and shells call a missing file, right or command in other languages.
_ERRNO: Final = (
    r"datei oder verzeichnis nicht gefunden|keine berechtigung$|befehl nicht gefunden|"
    r"aucun fichier ou dossier de ce|permission non accordée|commande introuvable|"
    r"no existe el (?:archivo|fichero) o el directorio|permiso denegado$|orden no encontrada|"
    r"file o directory non esistente|permesso negato$|comando non trovato|"
    r"(?:arquivo|ficheiro) ou diret[óo]rio (?:inexistente|não encontrado)|permissão (?:negada|recusada)$|"
    r"bestand of map bestaat niet|toegang geweigerd$|нет такого файла или каталога|отказано в доступе$|"
    r"そのようなファイルやディレクトリはありません|許可がありません$|没有那个文件或目录|权限不够$|"
    r"그런 파일이나 디렉터리가 없습니다"
)
_ANY_LINE: Final = re.compile(
    r"^Traceback \(most recent call last\)|^(?-i:(?:\w+\.)*\w*(?:Error|Exception)): |^(?:npm )?ERR!|^E   |"
    r"^[^\n]{0,60}: command not found$|^[^\n]{0,200}: (?:No such file or directory|Is a directory|"
    r"Not a directory|Permission denied|Directory not empty)$|^[^\n]{0,80}-c: line \d+: |"
    r"^\S{1,40}: (?:invalid|illegal|unrecognized|unknown|missing|extra|cannot|unable|line \d+:|option|"
    r"paths must|possible|fatal|error|too (?:few|many)|syntax|bad|not )|"
    r"^\S{1,60}:\d+(?::\d+)?: (?:fatal )?error:|^error(?:\[\w+\])?: |^fatal: |^Try '[^'\n]{1,60} --help'|"
    r"^=+ .*\b\d+ (?:failed|error)|^\s+\d+:\d+:?\s+error\b|"
    r"^\W*(?:found )?[1-9]\d* (?:errors?|problems?)\b|(?-i:\bis not an? (?:\w+ )?(?:command|option|"
    r"subcommand)\b)|"
    # A count of failures, and not "3 failed logins".
    r"^(?:FAIL|FAILED)\b|\b[1-9]\d* (?:tests? )?fail(?:ed|ures?)\b(?! (?!in\b|to\b|of\b|for\b|with\b)\w)|"
    r"\bfail(?:ed|ures?|): ?[1-9]\d*\b|^# fail [1-9]|^not ok \d|^(?:\w+\.)*\w+(?:Error|Exception)$|"
    r"\((?:\w+(?:\.|::))*\w+(?:Error|Exception)\)$|^Unhandled exception|\bfailure status\b|"
    r"^\s*[1-9]\d* failing\b|^make(?:\[\d+\])?: \*\*\*|^CONFLICT \(|^panic: |^thread '[^'\n]*' panicked at|"
    r"^Uncaught \w|^Exception in thread |^(?:Segmentation fault|Bus error|Floating point exception|"
    r"Aborted)\b|"
    r"^[^\n]{0,200} is not recognized as (?:the name of|an internal)|^\w+: (?:\d+: )?command not found: |"
    r"\bnon-zero exit (?:status|code)\b|"
    rf"^[^\n]{{0,200}}(?:{_ERRNO})|"
    r"^(?:Process|Command|Script|Program) (?:exited|failed) with (?:exit )?(?:code|status) [1-9]|"
    r"^[(\[]?(?:exit(?:ed)?(?: with)?|return|status)[ _-]?(?:code|status)?\)?[:= ]+-?[1-9]\d*\b",
    re.MULTILINE | re.IGNORECASE,
)
_EXIT_ZERO: Final = re.compile(
    r"^\W{0,2}(?:process )?exit(?:ed)?[ _-]?(?:with )?(?:code|status)?[:= ]+0\b", re.I | re.M
)
_EMPTY: Final = re.compile(
    r"^[(<\[]?(?:no (?:output|results?|match(?:es)?|content|data|stdout)(?: found)?|none|null|undefined|"
    r"nothing(?: was)? (?:found|matched)|nothing to (?:show|display|list)|"
    r"empty(?: result)?(?: set)?(?: \([^)\n]{0,40}\))?|"
    r"[\[{] ?[\]}]|\"\")[)>\].]?$",
    re.I,
)
# A search that says so itself; "no errors found" is a check that passed.
_NONE_FOUND: Final = re.compile(
    r"^[(<\[]?(?:[\w-]+: |sorry,? |there (?:are|is|were|was) |"
    r"(?:(?:your |the )?(?:search|query|lookup) )?(?:returned|found|has|yielded|matched) )?"
    r"(?:0|no) "
    r"(?!(?:errors?|issues?|problems?|warnings?|conflicts?|failures?|vulnerabilit|differences|change|such|"
    r"tool|"
    r"longer|one|more|need|further)\w*)"
    r"(?:[\w-]+ ){0,3}?"
    r"(?:(?:(?:were|was|are|is|have been|has been) )?(?:found|available|matched|matching|returned|scheduled)|"
    r"match(?:es|ed)?|\w+s|results? set)"
    r"(?: (?:found|matched|returned))?"
    r"(?: (?:for|in|your|the|this|that|to|on|at|between|with|'|\")[^\n.]{0,80})?[)>\].!]?$",
    re.I,
)
_NO_MATCH: Final = re.compile(
    r"(?!error|fatal)[^\n]{0,80}\b(?:could|can|did) ?(?:not|n't) (?:find|match) any\b|none found", re.I
)
_NONE_FOUND_AT_MOST: Final = 120
# One line saying that what the call named is not there, not allowed, or not possible any more.
_REFUSAL: Final = re.compile(
    r"^[^\n]{0,120}?(?:\b(?:does|do|did) ?n[o']t (?:exist|match|apply)\b|"
    r"\b(?:does|do|did) not (?:exist|match|apply)\b|\b(?:was |were |is |are )?not found\b|"
    r"\b(?:could|can|may) ?(?:not|n't) be \w+|\bis not (?:valid|allowed|supported|permitted|"
    r"an? (?:directory|file|valid \w+))\b|"
    r"\b(?:do|does)(?: not|n't) have (?:the )?(?:permissions?|access|rights?|enough)\b|"
    r"\balready (?:exists?|booked|taken|in use|cancell?ed|closed)\b|^no \w+ (?:named|called)\b|\bmust (?:be|"
    r"not|have|match|contain)\b|"
    r"\bis (?:a )?(?:required|mandatory)(?: \w+)?[.!]?$|\bcan no longer be\b|\b(?:unmatched|"
    r"unterminated) \S|\bunexpected (?:end|token|argument|keyword|character|newline|indent|eof)\b)",
    re.I,
)
_MESSAGE_AT_MOST: Final = 100
_LOOKED_AT: Final = 600


def names_environment(message: str) -> bool:
    """Whether an error message names what the agent could not help: network, quota, disk, approval."""
    return _ENVIRONMENT.search(ends(message)) is not None


def tells_environment(text: str) -> bool:
    """Whether a short text that is marked as no error opens with a fault of the environment."""
    opening = text.splitlines()[0]
    # A log begins with a time, a page of documentation with a heading.
    return len(text) < 200 and not text[0].isdigit() and text[0] != "#" and bool(_ENVIRONMENT.search(opening))


def is_error(text: str) -> bool:
    """Whether a text begins or ends in the shape of an error; what stands in its middle is its subject."""
    if _FIRST_LINE.search(text[:200]) or _ANY_LINE.search(ends(text)):
        return True
    return len(text) <= _MESSAGE_AT_MOST and _REFUSAL.match(text) is not None


def is_success(text: str) -> bool:
    """Whether a text says that its command exited with 0, and nothing in it has the shape of an error."""
    return _EXIT_ZERO.search(text) is not None and _ANY_LINE.search(ends(text)) is None


def is_empty(text: str) -> bool:
    """Whether a text holds nothing, or says of itself that nothing was found."""
    if not text or _EMPTY.match(text):
        return True
    short = len(text) <= _NONE_FOUND_AT_MOST and "\n" not in text
    return short and (_NONE_FOUND.match(text) or _NO_MATCH.match(text)) is not None


def ends(text: str) -> str:
    """The beginning and the end of a long text, where tools say how it went."""
    return text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
