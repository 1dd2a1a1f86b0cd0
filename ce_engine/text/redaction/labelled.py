"""Values that only their label makes personal or secret: student ids, phones, keys without a form.

The label is a word, in English or Chinese; what may stand between it and the value is a suffix
("number", `号码`), closing quotes and an operator (`:`, `=`, "is", `是`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ce_engine.text.redaction import checksums
from ce_engine.text.redaction.patterns import DIGITS, Bounds, has_any, looks_random
from ce_engine.text.redaction.secret_values import looks_secret


class Label(NamedTuple):
    """One occurrence of a label: the word's bounds in the text, and what its `tail` matched."""

    text: str
    start: int
    end: int
    tail: re.Match[str]

    @property
    def chinese(self) -> bool:
        """Whether the label is Chinese, or stands right behind it (`登录IP`)."""
        return any("\u4e00" <= sign <= "\u9fff" for sign in self._beginning)

    @property
    def _beginning(self) -> str:
        return self.text[max(0, self.start - 1) : self.start + 1]

    @property
    def joined(self) -> bool:
        """Whether an operator, or Chinese, which needs none, leads from the label to the value."""
        return self.tail["operator"] is not None or self.chinese


class Labelled(NamedTuple):
    """`words` are lower case; `tail` matches behind a word, with the groups operator, quote, value."""

    rule: str
    label: str
    words: tuple[str, ...]
    tail: re.Pattern[str]
    accept: Callable[[Label], Bounds | None]
    ends_words: bool = False
    """Whether words may end so, as `apitoken` does: where `accept` looks at the whole name, or at a value by chance."""


_OPERATOR = (
    r"(?:[ ](?:for|to|of|on|at)[ ][\w.'\-][\w.'\- ]{0,28}?(?=[ ]is[ ]|:))?"
    r"[ ]?(?:[\"'`”’」』】][\])）]?)?\*{0,2}"
    r"(?::[ ]?[A-Za-z][A-Za-z\[\]|, ]{0,24}(?==))?"  # a type between: `password: str = "..."`
    r"(?P<operator>\s?(?::=|=>|[:：=＝](?![=:])|>|→|(?<=\s)->[ ]|[-–—][ ])(?:</[a-z]{1,8}>)?"
    r"|[ \t]*(?<![A-Za-z])(?:is|was|equals)(?:[ ](?:now|set[ ]to|still))?(?![A-Za-z])[ ]?:?"
    r"|(?:目前|现在|暂时|已经?)?(?:是|为|為|设为|改[为成]了?|换成了?|重置为|填)[:：]?)?"
    r"[ \t]{0,8}(?:\*\*[ ]?)?(?:(?:b|br|rb|u)(?=[\"']))?(?:\"\"(?=\")|''(?='))?(?P<quote>[\"'`“‘「『]?)"
)
_NUMBER = r"(?:[ _\-.]{0,2}(?:number|nummer|num|no|nr|#)(?![A-Za-z])[.]?|号码?|號碼?|编号)?"
_BEHIND_QUOTES = frozenset(" \t\r\n,;:)]}>.!?&|+<\"'`\\，。；、）】」』") | {""}
_LONGEST_REST = 64
_TEXT_GOES_ON = re.compile(r"[\s,;:=(\[]")
"""What no password has behind a quote in it, or few."""
_CLOSING = {"“": "”", "‘": "’", "「": "」", "『": "』"}


def tail(suffix: str, value: str) -> re.Pattern[str]:
    """Return what matches behind a label: a suffix of it, an operator, a quote and the value."""
    return re.compile(rf"(?i:{suffix}{_OPERATOR})(?P<value>{value})")


def starts_word(text: str, start: int, length: int) -> bool:
    """Say whether a label is a word of its own: `phone`, `home_phone`, `homePhone`, no `hotel`."""
    before = text[start - 1 : start]
    if length >= 8 or not (before.isascii() and before.isalpha() and text[start].isascii()):
        return True
    return text[start].isupper() and before.islower()


# What follows a label

_STOPS = re.compile("[\"'`<>]")
_STOPS_OF_QUERY = re.compile("[\"'`<>&;|]")
_MARKUP = r"<(?:[/!]|[^<>\s]{1,80}>|[A-Za-z][\w\-]{0,20}\Z)"
_QUOTES_AT_END = r"\A[A-Za-z]{1,2}[\"']|[\"'`]+(?:[,;:)\]}.!?>|&+/]|\Z)"
_STOPS_OF_PASSWORD = re.compile(rf"{_QUOTES_AT_END}|{_MARKUP}|>(?:[<A-Za-z]|\Z)")
_STOPS_OF_PASSWORD_IN_QUERY = re.compile(
    rf"{_QUOTES_AT_END}|{_MARKUP}|[>;|]|&(?:[A-Za-z_][\w.\-\[\];]{{0,40}}(?:[=&]|\Z)|&|\Z)"
)
"""Most signs may be a password's, unless what follows shows that the text goes on there."""
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[{]|[a-z_][a-z0-9_]*\.[A-Za-z_]")
_NAME = re.compile(r"[A-Za-z_]+[0-9]{0,2}\Z")


def closing(text: str, quote: str, start: int, end: int) -> int:
    """Return where a quoted text ends, or -1: at its first quote, or at the next one, where that is one of its signs."""
    first = text.find(quote, start, end)
    if first < 0 or text[first + 1 : first + 2] in _BEHIND_QUOTES:
        return first
    second = text.find(quote, first + 1, first + _LONGEST_REST)
    rest = text[first + 1 : second]
    is_sign = second > 0 and text[second + 1 : second + 2] in _BEHIND_QUOTES
    return second if is_sign and rest.isascii() and _TEXT_GOES_ON.search(rest) is None else first


def cut(label: Label, *, is_password: bool = False) -> tuple[int, int, bool]:
    """Return the bounds of a value of any signs, and whether it was quoted."""
    text, start, quote = label.text, label.tail.start("value"), label.tail["quote"]
    if quote:
        close = closing(text, _CLOSING.get(quote, quote), start, start + 256)
        if close > start and "\n" not in text[start:close]:
            return start, start + len(text[start:close].rstrip()), True
    run = label.tail["value"]
    of_query = label.tail["operator"] == "="
    if is_password:
        stops = _STOPS_OF_PASSWORD_IN_QUERY if of_query else _STOPS_OF_PASSWORD
    else:
        stops = _STOPS_OF_QUERY if of_query else _STOPS
    if stop := stops.search(run):
        run = run[: stop.start()]
    return start, start + len(run.rstrip(".,;:)]}?")), False


def is_code(label: Label, value: str, behind: str) -> bool:
    """Say whether a value without quotes is an expression: `get()`, `self.key`, `f(password=pw1)`."""
    argument = label.text[label.start - 1 : label.start] in {"(", " "} and behind[:1] in {",", ")"}
    return _CODE.match(value) is not None or (argument and _NAME.match(value) is not None)


_LETTER = re.compile("[A-Za-z]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_FOLDER = re.compile(r"/(?:[a-z]+|[A-Z][a-z]+|[A-Z]+)[0-9]{0,3}(?:/|\Z)|//")
"""A part of a path: `/etc`, `/v2`; random text between two slashes hardly ever looks like it."""
_OWNERS = re.compile(
    r"(?:api|access|secret|private|account|auth|licen[cs]e|encrypt|encryption|signing|master|service|"
    r"subscription)[ _\-]?\Z",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?:(?:page|next|prev|continuation|sync|cursor|pad|eos|bos|unk)[ _\-]?|::\w*|pveapi)\Z",
    re.IGNORECASE,
)
"""What stands before the label where the value is no secret, or has a pattern of its own."""


OPTION = re.compile(r"--[a-z0-9_\-]*\Z", re.IGNORECASE)
"""The beginning of a command's option, of which a label is the end."""


def _secret(label: Label) -> Bounds | None:
    text, word = label.text, label.text[label.start : label.end].lower()
    before = max(0, label.start - 24)
    unowned = word == "key" and not _OWNERS.search(text, before, label.start)
    option = text[label.end] in " \t=" and OPTION.search(text, before, label.start)
    if unowned or not (label.joined or option) or _COUNTED.search(text, before, label.start):
        return None
    start, end, quoted = cut(label)
    value = text[start:end]
    if option and not value.isdigit() and looks_secret(value):
        return start, end
    if len(value) < (12 if quoted or option else 16) or not value.isascii() or " " in value:
        return None
    if value[0] in ".<${" or "://" in value or (not quoted and is_code(label, value, "")):
        return None
    if value[0] == "/" and (not _BASE64.fullmatch(value) or _FOLDER.search(value)):
        return None
    mixed = has_any(value, DIGITS) and _LETTER.search(value)
    return (start, end) if mixed and looks_random(value) else None


_DATE = re.compile(
    r"(?:19|20)[0-9]{2}[\-/. ](?:[0-9]{1,2}[\-/. ][0-9]{1,2}|(?:19|20)[0-9]{2})(?![0-9])"
)
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}\Z")


def _digits(value: str) -> str:
    return "".join(sign for sign in value if sign in "0123456789")


def _student(label: Label) -> Bounds | None:
    value = label.tail["value"]
    if _DATE.match(value) or len(_digits(value)) < 5:
        return None
    is_named = label.chinese or label.tail["kind"] is not None
    return label.tail.span("value") if is_named else None


def _phone(label: Label) -> Bounds | None:
    value = label.tail["value"]
    count = len(_digits(value))
    if not 7 <= count <= 15 or _DATE.match(value) or _ADDRESS.match(value):
        return None
    return label.tail.span("value") if label.joined or count >= 10 else None


def _identity(label: Label) -> Bounds | None:
    number = re.sub("[ -]", "", label.tail["value"])
    right = len(number) in {15, 18} and checksums.chinese_identity_shape(number)
    return label.tail.span("value") if right else None


def _social_security(label: Label) -> Bounds | None:
    right = checksums.us_social_security(_digits(label.tail["value"]))
    return label.tail.span("value") if right else None


def _card(label: Label) -> Bounds | None:
    digits = _digits(label.tail["value"])
    right = 12 <= len(digits) <= 19 and len(set(digits)) > 2 and checksums.luhn(digits)
    return label.tail.span("value") if right else None


_SERVER = re.compile(
    r"(?:public|host|server|node|pod|cluster|external|internal|elastic|gateway|dns|bind|listen|target|"
    r"dst|dest|destination|服务器|主机|网关|公网|内网|目标)[ _\-]?\Z",
    re.IGNORECASE,
)
_CLIENT = re.compile(
    r"(?:client|user|remote|login|visitor|caller|my|登录|登陆|客户端|用户|来源|访问)[ _\-]?\Z",
    re.IGNORECASE,
)


def _address(label: Label) -> Bounds | None:
    text, octets = label.text, [int(octet) for octet in label.tail["value"].split(".")]
    spoken = label.end - label.start > 2  # "login from" needs no operator, "ip" does
    if not (label.joined or spoken) or max(octets) > 255:
        return None
    before = max(0, label.start - 14)
    somebodys = spoken or _CLIENT.search(text, before, label.start)
    local = octets[0] in {0, 10, 127, 255} or octets[:2] in ([192, 168], [169, 254])
    local = local or (octets[0] == 172 and 16 <= octets[1] <= 31)
    if (local and not somebodys) or octets in ([0, 0, 0, 0], [127, 0, 0, 1]):
        return None
    return None if _SERVER.search(text, before, label.start) else label.tail.span("value")


# The table


def labels(text: str) -> tuple[str, ...]:
    """Return the words of a table of labels."""
    return tuple(text.split("|"))


_KIND_OF_STUDENT = (
    r"[a-z]{0,8}?(?:'s)?(?:[ _](?:registration|identification))?"
    r"(?P<kind>[ _\-.]{0,2}(?:id|number|num|nummer|no|nr|card|roll|#)(?![a-z])[.]?"
    r"(?:[ ]?(?:number|no[.]?|\#))?)?(?:号码?|编号|證號|号)?"
)
_KIND_OF_PHONE = r"[a-z]{0,3}(?:[ _\-]?(?:phone|home|work|no)(?![a-z]))?"
_KIND_OF_IDENTITY = "(?:[ _]?(?:id|card))?"
_KIND_OF_ADDRESS = r"(?:[ _\-]?addr(?:ess)?|地址)?"

LABELLED = (
    Labelled(
        "secret",
        "SECRET",
        labels(
            "secret|appsecret|apikey|clientsecret|secretkey|accesskey|authtoken|accesstoken|token|key|credential|密钥|秘钥|密鑰|令牌|凭证"
        ),
        tail("", "[!-~]{6,1024}"),
        _secret,
        ends_words=True,
    ),
)
"""Labelled values of any signs."""

LABELLED_NUMBERS = (
    Labelled(
        "student_id",
        "STUDENT_ID",
        labels(
            "student|matric|matrikel|matr.|enrol|学号|學號|学籍|学生证|学生号|学生编|学员号|准考证"
        ),
        tail(_KIND_OF_STUDENT, r"[A-Za-z]{0,5}[\-/]?[0-9][A-Za-z0-9\-/]{3,20}(?![A-Za-z0-9])"),
        _student,
    ),
    Labelled(
        "phone_labelled",
        "PHONE",
        labels(
            "phone|mobile|cell|tel|fax|whatsapp|电话|電話|手机|手機|座机|传真|联系方式|联系号码|热线"
        ),
        tail(
            _KIND_OF_PHONE + _NUMBER, r"[+(（]{0,2}[0-9][0-9 ()（）.\-]{5,22}[0-9](?![0-9A-Za-z_])"
        ),
        _phone,
    ),
    Labelled(
        "identity_labelled",
        "ID_CARD",
        labels(
            "身份证|身分证|身份證|证件|居民证|公民身份|id card|id_card|idcard|national|identity|id_no|"
            "id no|id number"
        ),
        tail(_KIND_OF_IDENTITY + _NUMBER, r"[0-9][0-9 \-]{13,20}[0-9Xx](?![0-9A-Za-z])"),
        _identity,
    ),
    Labelled(
        "social_security_labelled",
        "SSN",
        labels("ssn|social security|social_security|socialsecurity"),
        tail(_NUMBER, r"[0-9]{3}[ \-]?[0-9]{2}[ \-]?[0-9]{4}(?![0-9A-Za-z])"),
        _social_security,
    ),
    Labelled(
        "card_labelled",
        "CARD",
        labels("card|pan|卡号|卡號|银行卡|信用卡|储蓄卡|借记卡"),
        tail(_NUMBER, r"[0-9](?:[ .\-]?[0-9]){11,18}(?![0-9A-Za-z])"),
        _card,
    ),
    Labelled(
        "ip_labelled",
        "IP",
        labels(
            "ip|login from|log in from|logged in from|sign-in from|signed in from|remote_addr|"
            "remote addr|x-forwarded-for|登录地址|登陆地址|来源地址"
        ),
        tail(_KIND_OF_ADDRESS, r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9]|\.[0-9])"),
        _address,
    ),
)
"""Labelled values with digits, tried only where there are some."""
