"""Data inside texts, whole or broken off: JSON, reprs, headers and commands whose names stand apart from their values."""

from __future__ import annotations

import re
from functools import partial

from ce_engine.text.redaction.key_names import (
    ALL,
    NAME,
    RANDOM,
    VALUE_WORDS,
    Hint,
    is_random,
    is_secret,
    key_name,
    name_of_pair,
    option,
    sensitive_key,
)
from ce_engine.text.redaction.labelled import Label, Labelled, closing, labels
from ce_engine.text.redaction.patterns import Bounds, Shape, password_value


_MARK = "[ ]?[\"']"  # the space is what is left of a backslash: JSON inside JSON
_COLON = rf"{_MARK}\s{{0,4}}:\s{{0,4}}"
_FIELD = rf"[\"'][\w\-]{{1,32}}{_COLON}(?:[\"'][^\"'\n]{{0,80}}[\"']|[\w.\-]{{1,24}})\s{{0,4}},\s{{0,64}}"
_VALUE_KEY = rf"[\"'](?i:[a-z_\-]{{0,16}}?(?:{'|'.join(VALUE_WORDS)})){_COLON}"
_BEGIN = r"(?:b(?=[\"']))?(?P<quote>[\"'])(?P<value>[^\"'\n])"
_TO_VALUE = rf"(?:{_FIELD}){{0,3}}?{_VALUE_KEY}"

_IN_OBJECT = re.compile(rf"s?{_COLON}(?:\{{\s{{0,64}}{_TO_VALUE}|(?P<list>\[\s{{0,64}})){_BEGIN}")
_DIRECT = re.compile(rf"{_COLON}{_BEGIN}")
_BESIDE = re.compile(rf"{_MARK}\s{{0,4}},\s{{0,64}}(?P<pair>{_TO_VALUE})?{_BEGIN}")

_BEFORE = re.compile(r"[\"']([^\"'\n]{0,48})\Z")
_NAMED = re.compile(r"[\"']([\w\-]{1,32})[ ]?[\"']\s{0,4}:\s{0,4}[\"'][^\"'\n]{0,48}\Z")
_FIRST = re.compile(r"[\[(]\s{0,16}b?[\"'][^\"'\n]{0,48}\Z")
_END = re.compile(r"[ ]?[\"']\s{0,16}[\])]")
_REACH = 160
_LONGEST = 16_000
_UP_TO_A_SPACE = re.compile(r"[^\s\[(…]*+")
_BROKEN_OFF = re.compile(r"\s{0,4}(?:[.…]{1,6}\s{0,4})?[\[(<]?[\w .…]{0,64}[\])>]?\s{0,4}\Z")
"""What stands behind a value that breaks off, up to the text's end: `... [truncated]`."""


def _name(label: Label) -> str:
    """The quoted text that ends with a label, or nothing where it is not quoted."""
    before = _BEFORE.search(label.text, max(0, label.start - 64), label.start)
    return before[1] + label.text[label.start : label.end] if before else ""


def _quoted(label: Label) -> Bounds | None:
    text, start = label.text, label.tail.start("value")
    end = closing(text, label.tail["quote"], start, start + _LONGEST)
    if end < 0:
        end = start + len(_UP_TO_A_SPACE.match(text, start, start + _LONGEST)[0])  # type: ignore[index] # of any text
        if end < len(text.rstrip()) and _BROKEN_OFF.match(text, end) is None:
            return None
    return start, start + len(text[start:end].rstrip())


def _accepted(label: Label, hint: Hint) -> Bounds | None:
    bounds = _quoted(label)
    return bounds if bounds and is_secret(label.text[slice(*bounds)], hint) else None


def _in_object(label: Label) -> Bounds | None:
    """`"password": {"value": "..."}` and `"passwords": ["..."]`."""
    plural = "s" if label.text[label.end] == "s" else ""
    name = key_name(_name(label) + plural)
    listed = label.tail["list"] is not None
    if name.inside is None or (listed and name.label is None):
        return None
    value = name.values == ALL or not (listed or name.values == RANDOM)
    return _accepted(label, Hint(name.inside, value, name.values == RANDOM, is_named=listed))


def _direct(kind: str, label: Label) -> Bounds | None:
    """`"db_pass": "..."`, `"authorization": "..."`: as in data, but for words, which stand there in texts, too."""
    name, bounds = _name(label), _quoted(label)
    if bounds is None or (key_name(name).label != kind and name.lower() != "pass"):
        return None
    value = label.text[slice(*bounds)]
    is_pass = name.lower() == "pass"  # or what a test says of itself
    sure = not is_pass and sensitive_key(name, value) == kind
    if kind == "PASSWORD" and not (sure or is_pass):
        return None  # a working directory
    hint = Hint(kind, value=sure and kind == "PASSWORD", is_named=sure)
    return bounds if is_secret(value, hint) else None


def _beside(label: Label) -> Bounds | None:
    """`"name": "password", "value": "..."`, `"--password", "..."` and `["Authorization", "..."]`."""
    name = _name(label)
    kind = name_of_pair(name)
    if kind is None:
        return None
    text, first = label.text, max(0, label.start - _REACH)
    if label.tail["pair"]:
        match = _NAMED.search(text, first, label.start)
        right = match is not None and key_name(match[1]).role == NAME
        return _accepted(label, Hint(kind, value=True)) if right else None
    if option_parts := option(name):
        return None if option_parts[2] else _accepted(label, Hint(kind, value=True))
    if kind != "SECRET" or _FIRST.search(text, first, label.start) is None:
        return None  # a list of two passwords, or of two words
    bounds = _accepted(label, Hint(kind, value=False))
    return bounds if bounds and _END.match(text, bounds[1]) else None


_COOKIES = r"(?:[\w.\-%]{1,64}=[^\s\"'<>;]{0,4096}(?:;[ ]?)?){1,40}+"


def _cookies(label: Label) -> Bounds | None:
    """Those of a header, where one of them looks like chance."""
    start, text = label.tail.start("value"), label.tail["value"].rstrip("; ")
    pairs = (cookie.partition("=")[2] for cookie in text.split(";"))
    return (start, start + len(text)) if any(map(is_random, pairs)) else None


_STATEMENT = re.compile(r"(?i:\b(?:create|alter)[ ]user\b[^\n;]{0,80})\Z")


def _in_sql(label: Label) -> Bounds | None:
    bounds, text = _quoted(label), label.text
    statement = _STATEMENT.search(text, max(0, label.start - 96), label.start)
    if statement is None and not text[label.start : label.end].isupper():
        return None  # prose: "the surface identified by 'id'"
    right = bounds and password_value(label.text[slice(*bounds)], explicit=True)
    return bounds if right else None


_PASSWORDS = labels(
    "password|passwd|passphrase|passcode|pwd|密码|口令|密碼|pass|pass-word|pass_word|pass-phrase|pass_phrase|"
    "pass-code|pass_code"
)
_SECRETS = labels(
    "secret|token|key|authorization|credential|credentials|cookie|密钥|秘钥|密鑰|令牌|凭证"
)

STRUCTURED = (
    *(
        Labelled("structured_secret", kind, words, tail, accept, ends_words=True)
        for kind, words in (("PASSWORD", _PASSWORDS), ("SECRET", _SECRETS))
        for tail, accept in ((_IN_OBJECT, _in_object), (_BESIDE, _beside))
    ),
    *(
        Labelled("structured_secret", kind, words, _DIRECT, partial(_direct, kind), ends_words=True)
        for kind, words in (
            ("PASSWORD", _PASSWORDS),
            ("SECRET", (*_SECRETS, "apikey", "keys", "jwt", "bearer")),
        )
    ),
    Labelled(
        "cookie",
        "SECRET",
        labels("cookie|cookies"),
        re.compile(rf"{_MARK}?\s{{0,2}}[:=]?\s{{0,2}}[\"']?(?P<value>{_COOKIES})"),
        _cookies,
    ),
    Labelled(
        "sql_password",
        "PASSWORD",
        labels("identified by"),
        re.compile(rf"[ ](?i:password[ ])?{_BEGIN}"),
        _in_sql,
    ),
)
"""Labelled values of any signs, behind more than an operator."""

_KEY_NAME = r"[A-Za-z0-9_.:\-]{0,60}(?:password|passwd|pwd|secret|token|api_?key)"


def _password(needs: str, pattern: str, *, explicit: bool = True) -> Shape:
    accept = partial(password_value, explicit=explicit)
    return Shape("command_password", "PASSWORD", needs, re.compile(pattern), accept)


_WITHIN = r"[^\n|;`&]{0,200}?"
_BEFORE_PASSWORDS = (
    ("docker", rf"docker\s+login\b{_WITHIN}\s-p\s{{1,4}}"),
    ("zip", rf"(?:un)?zip\s(?:{_WITHIN}\s)?(?-i:-P)\s{{0,4}}"),
    ("7z", rf"7za?\s(?:{_WITHIN}\s)?-p(?=\S)"),
    ("openssl", rf"openssl\s{_WITHIN}\s-(?:k\s{{1,4}}|pass(?:in|out)?\s{{1,4}}pass:)"),
    ("keytool", rf"keytool\s(?:{_WITHIN}\s)?-(?:src|dest)?(?:store|key)pass\s{{1,4}}"),
    ("useradd", rf"useradd\s(?:{_WITHIN}\s)?(?-i:-p)\s{{1,4}}"),
    ("usermod", rf"usermod\s(?:{_WITHIN}\s)?(?-i:-p)\s{{1,4}}"),
    ("<<<", r"passwd\b[^\n|;`&]{0,80}<<<\s{0,4}"),
    ("securestring", r"ConvertTo-SecureString\s{1,4}(?:-String\s{1,4})?(?=[\"'])"),
    ("net use", rf"net\s+use\s{_WITHIN}/user:\S{{1,64}}\s{{1,4}}(?!/)"),
    ("vault login", r"vault\s+login\s{1,4}(?:token=)?(?!-|\w{1,30}=)"),
    ("configure set", rf"configure\s+set\s{{1,4}}{_KEY_NAME}(?:_access_key)?\s{{1,4}}"),
    ("_authtoken", r"_authToken[ =]{1,4}"),
)
"""A word of a command, and the command up to its password."""
COMMANDS = (
    _password(
        "curl",
        # With an option or an address behind it, and before the end of that command.
        r"(?i:\bcurl)(?=\s+(?:[-\"'$\\<]|[\w\-]+(?:://|[./:]\w)))(?:[^\n|;`&]|\\\n|&(?!&)){0,400}?"
        r"\s(?:-u|--user)[ =]?[\"']?[^\s:\"'$<{]{0,64}:([^\s\"']{1,128})",
    ),
    *(
        _password(needs, rf"(?i:\b{before})[\"']?([^\s\"'$<{{]{{4,256}})")
        for needs, before in _BEFORE_PASSWORDS
    ),
    _password(
        "chpasswd",
        r"[\"'\s][\w.\-]{1,64}:([^\s\"'$]{4,128})[\"']?\s{0,4}\|\s{0,4}(?:sudo\s)?chpasswd\b",
    ),
    _password(
        "sqlplus",
        r"(?i:\bsqlplus)\s{1,4}(?:-\w{1,8}\s{1,4}){0,3}[^\s/\"'$]{1,64}/([^\s@/\"'$]{4,128})(?=[@\s]|\Z)",
    ),
    _password(
        "--password-stdin",
        r"\b(?:echo|printf)\s(?:-n\s)?[\"']?([^\s\"'$<{|]{4,256})[\"']?\s{0,4}\|[^\n|]{0,200}\s--password-stdin\b",
    ),
    _password(
        "<input",
        r"(?i:<input\s(?=[^<>]{0,300}?\btype=[\"']?password\b)[^<>]{0,300}?\bvalue=)\"([^\"<>]{3,256})\"",
    ),
    _password(
        "password>",
        r"(?i:<(?:\w{1,20}:)?password\s[^<>]{1,300}>)\s{0,80}([^<>\s]{3,256})(?=\s{0,80}</)",
    ),
    _password(
        'name="',
        rf'(?i:\bname="{_KEY_NAME}")(?:;[^\r\n]{{0,80}})?(?:\r?\n[^\r\n:]{{1,40}}:[^\r\n]{{0,120}}){{0,3}}'
        r"\r?\n\r?\n(\S{3,256})(?=\r?\n|\Z)",
    ),
    _password(
        "set password",
        r"(?i:\bset password(?: for [^\n;=]{1,100}?)? ?= ?(?:password\( ?)?)[\"']([^\"'\n]{3,256})[\"']",
    ),
    _password("sshpass", r"\bsshpass\s+-p\s{0,4}[\"']?([^\s\"'$<{]{1,128})"),
    _password("redis-cli", r"\bredis-cli\b[^\n|;`&]{0,200}?\s-a\s{1,4}[\"']?([^\s\"'$<{]{1,128})"),
    _password(
        "mysql",
        r"\bmysql(?:dump|admin|import|sh)?\s(?:[^\n|;`&]{0,200}?\s)?-p(?!ort|assword|lugin|rotocol)([^\s\"'$<{=]{3,128})",
    ),
    _password("machine", r"\bmachine\s+\S{1,128}\s+login\s+\S{1,128}\s+password\s+(\S{1,128})"),
    _password("pwd=", r"(?i:\buid=[^;\n]{0,64};\s?pwd=)([^;\s\"']{1,128})"),
    _password(
        "pass",
        r"(?i:(?<![A-Za-z0-9])(?:[A-Z0-9]{1,20}_){0,3}(?:db|smtp|mail|ftp|mysql|pg|postgres|redis|root|admin|user|ssh|login)"
        r"_?pass[ ]?[=:][ ]?)[\"']?((?:[^\s\"';,&()\[\]{}<>$]|&(?!\w{1,30}=)){4,128})(?=[\s\"';,&]|\Z)",
        explicit=False,
    ),
    _password(
        "pass=",
        r"(?i:(?<![A-Za-z0-9_.\-])pass=)(?=[^\s\"';,]{0,127}[A-Za-z])"
        r"((?:[^\s\"';,&()\[\]{}<>$]|&(?!\w{1,30}=)){4,128})(?=[\s\"';,&]|\Z)",
        explicit=False,
    ),
    _password(
        "password:",
        r"(?i:(?:\A|\n)[ \t]{0,40}[\w.\-]{0,40}password:)[ \t]{0,4}(?:[|>][+\-]?[ \t]{0,4})?\n[ \t]{1,16}([^\s:#]{4,128})[ \t]{0,4}(?=\n|\Z)",
        explicit=False,
    ),
    _password(
        "value=",
        rf'(?i:<(?:add|property|param|parameter|setting|entry)\s[^<>]{{0,200}}?(?:key|name)="{_KEY_NAME}"\s{{1,4}}value=)"([^"<>]{{3,256}})"',
    ),
    _password(
        "define(",
        rf"(?i:\bdefine\(\s{{0,4}}[\"']{_KEY_NAME}[\"']\s{{0,4}},\s{{0,4}})[\"']([^\"'\n]{{3,256}})[\"']",
    ),
    _password("setx", rf"(?i:\bsetx\s{{1,4}}{_KEY_NAME}\s{{1,4}})\"?([^\s\"%]{{6,256}})"),
    _password(
        "env",
        rf"(?:\A|\n)[ \t]{{0,8}}ENV[ ]{{1,4}}(?i:{_KEY_NAME})[ ]{{1,4}}\"?([^\s\"$]{{6,256}})",
    ),
)
"""Passwords and keys in commands, and in files that programs read."""
