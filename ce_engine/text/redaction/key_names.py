"""What keys of structured data say: which name a secret, which hold its name, its value, or what is known about it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ce_engine.schema.text_cache import text_cache
from ce_engine.text.redaction.labelled import labels
from ce_engine.text.redaction.passwords import several_words
from ce_engine.text.redaction.patterns import (
    DIGITS,
    has_any,
    looks_like_a_key,
    looks_random,
    password_value,
    words,
)
from ce_engine.text.redaction.secret_values import looks_secret


class KeyName(NamedTuple):
    """One key: the label of a text under it, that of what is in an object under it, its role beside others."""

    label: str | None = None
    inside: str | None = None
    values: str = ""
    """Which texts of such an object: those under a `VALUE`; else `ALL`, or what looks like chance (`RANDOM`)."""
    role: str = ""


class Hint(NamedTuple):
    """What something beside or above a value says of it."""

    label: str
    value: bool
    """Whether its own key says that it is one: then it need not look like it."""
    guess: bool = False
    """Whether only what looks like chance is taken for a secret, under any key."""
    is_named: bool = False
    """Whether the key right before it in a text names a secret: then it may be short, but no word."""


NO_HINT = Hint("", value=False)
"""Of what has a name beside it that names no secret."""
NAME, VALUE, ABOUT = "name", "value", "about"
ALL, RANDOM = "all", "random"

_SIGNS = re.compile(r"[^a-z0-9\u4e00-\u9fff]+")
_ENDS = {
    "PASSWORD": labels(
        "password|passwd|passphrase|passcode|pwd|密码|口令|密碼|dbpass|smtppass|mailpass|ftppass|mysqlpass|pgpass|"
        "postgrespass|redispass|rootpass|adminpass|userpass|sshpass|loginpass|apppass|authpass"
    ),
    "SECRET": labels(
        "secret|token|apikey|secretkey|accesskey|privatekey|authorization|credential|credentials|"
        "cookie|cookies|jwt|bearer|sshkey|密钥|秘钥|密鑰|令牌|凭证"
    ),
    "STUDENT_ID": labels("studentid|studentno|studentnumber|matriculationnumber|学号|學號"),
}
_OF_MANY = {
    "PASSWORD": labels("passwords|passwds|passphrases|passcodes"),
    "SECRET": labels(
        "apikeys|secretkeys|accesskeys|privatekeys|apitokens|accesstokens|authtokens|bearertokens|"
        "refreshtokens|clientsecrets"
    ),
}
_COLLECTIONS = labels("secrets|tokens|cookies")
"""Other tokens are words, too, `secrets` may be a list of names, and most cookies are no secrets."""
_AGAIN = re.compile(r"(?:confirmation|confirm|repeat|again|retype|verify|确认|[0-9]{1,2})\Z")
_COUNTED = re.compile(
    r"(?:page|next|prev|continuation|sync|cursor|eos|bos|unk|pad|sep|cls|mask|stop|max|total)token\Z"
)

_LAST_WORD = re.compile(r"([A-Z]?[a-z]+|[A-Z]+|[\u4e00-\u9fff]+)[^A-Za-z\u4e00-\u9fff]*\Z")
_ROLES = {
    NAME: words(
        "name key label field header k variable var option param parameter property attribute attr "
        "setting question 名称 名字 名 键 键名 字段 字段名 标签 参数 参数名 变量 变量名 选项"
    ),
    VALUE: words(
        "value values val v text content default example data current raw plain plaintext answer input "
        "string old new previous const 值 参数值 内容 文本 默认值 数据 当前 取值 旧 新"
    ),
    ABOUT: words(
        "id ids type types kind description title format hint help message error reason status state "
        "scope scopes role roles method algorithm alg version policy provider issuer audience url uri href "
        "link path file filename host region pattern at on date time created updated changed expires "
        "expiry user username email placeholder required properties metadata annotations tags enum in "
        "ref schema comment note notes symbol address length strength rules 描述 类型 说明 时间 编号 状态 "
        "用户 提示 备注 长度 规则"
    ),
}
VALUE_WORDS = sorted(_ROLES[VALUE], key=len, reverse=True)

_ACTIONS = words("reset forgot forgotten change changed show hide lost remember 重置 忘记 修改")
NAME_LENGTH = 64
_OPTION = re.compile(r"--?([^\W\d_][\w.\-]{0,63})(?:=(.+))?", re.DOTALL)
_SCHEME = re.compile(r"(?i:basic|bearer|token|digest|apikey|negotiate) \S{6,}\Z")
_OTHER_SCHEME = re.compile(r"[A-Za-z][\w\-]{1,24} (\S{16,})\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|\Z)")
_LETTER = re.compile("[A-Za-z]")
_SENTENCE = re.compile("[，。！？；：、“”《》]|[\u4e00-\u9fff]{6}|密码|口令|密碼|密钥|令牌|凭证")
"""What no secret has: Chinese has no spaces that tell words about a secret from one."""
_KEY_LENGTH = 24
"""A key of letters alone is no shorter."""


@text_cache(4096)
def key_name(key: str) -> KeyName:
    """Read a key: `dbPassword`, `X-Api-Key`, `登录口令`, `headerValue`."""
    name = _SIGNS.sub("", key.lower())
    last = _LAST_WORD.search(key)
    word = last[1].lower() if last else ""
    role = next((role for role, role_words in _ROLES.items() if word in role_words), "")
    if _COUNTED.search(name):
        return KeyName(role=role)
    for label, ends in _OF_MANY.items():
        if name.endswith(ends):
            return KeyName(label, label, ALL, role)
    own = next((label for label, ends in _ENDS.items() if name.endswith(ends)), None)
    if own is None and _AGAIN.sub("", name).endswith(_ENDS["PASSWORD"]):
        own = "PASSWORD"
    if name.endswith(_COLLECTIONS):
        return KeyName(own, "SECRET", RANDOM, role)
    return KeyName(own, own if own in _OF_MANY else None, role=role)


def sensitive_key(key: str, value: str) -> str | None:
    """Return the label of all that stands under a JSON key, or None for a key that says nothing."""
    label = key_name(key).label
    if key.lower() == "pass":  # or what a test says of itself
        return (
            "PASSWORD" if has_any(value, DIGITS) and password_value(value, explicit=False) else None
        )
    if label == "PASSWORD" and value.startswith(("/", "~")) and key.lower().endswith("pwd"):
        return None  # a working directory
    if label == "SECRET" and "=" not in value and key.lower().endswith(("cookie", "cookies")):
        return None
    return label


def name_of_pair(value: str) -> str | None:
    """Return the label of what a text names that stands beside its value: `{"name": "password", "value": ...}`."""
    label = key_name(value).inside if len(value) <= NAME_LENGTH else None
    return None if label is None or not _ACTIONS.isdisjoint(value.lower().split()) else label


def option(item: str) -> tuple[str, str, int] | None:
    """Return name, label and where its value begins (0: in the next item) of an option that takes a secret."""
    match = _OPTION.fullmatch(item) if item.startswith("-") else None
    label = key_name(match[1]).label if match else None
    if match is None or label not in _OF_MANY:
        return None
    return match[1], label, max(0, match.start(2))


def is_secret(text: str, hint: Hint) -> bool:
    """Say whether a text is what a hint says of it, rather than a word about it."""
    if not hint.label or (hint.label == "SECRET" and _is_word(text)) or _SENTENCE.search(text):
        return False
    if " " in text and not _SCHEME.match(text):
        if hint.label == "SECRET":
            parts = text.replace("=", " ").split()
            other = _OTHER_SCHEME.match(text)
            is_key = other is not None and looks_like_a_key(other[1])
            return is_key or ("=" in text and any(map(is_random, parts)))
        return several_words(text, 2)
    if text.startswith("-") or name_of_pair(text.rstrip(DIGITS)):
        return False
    if hint.value or hint.label == "PASSWORD":
        is_one = password_value(text, explicit=hint.value)
    else:
        is_one = _SCHEME.match(text) is not None or is_random(text.rpartition("=")[2] or text)
    return is_one or (hint.is_named and looks_secret(text))


def _is_word(text: str) -> bool:
    letters = text.strip(".,!?-").replace("-", "")
    return len(text) < _KEY_LENGTH and letters.isalpha() and not looks_secret(text)


def is_random(text: str) -> bool:
    """Say whether a text is a key rather than a word, a date, a path or a URL."""
    text = text.strip("\"';,")
    if len(text) < 12 or not text.isascii() or "://" in text or text[0] in "./~<${":
        return False
    mixed = has_any(text, DIGITS) and _LETTER.search(text)
    return bool(mixed) and _DATE.match(text) is None and looks_random(text)
