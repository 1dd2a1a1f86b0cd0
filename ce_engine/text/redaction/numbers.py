"""Numbers that are personal: phones, identity cards, bank cards and accounts.

A pattern here is tried only where digits stand close together. What it finds must stand alone, pass
its checksum or numbering plan, and have no label or unit beside it that says it is something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ce_engine.text.redaction import checksums
from ce_engine.text.redaction.patterns import words


Accept = Callable[[str, int, int, str], bool]
"""(text, start, end, the digits alone) -> whether it is what the pattern looks for."""


class Number(NamedTuple):
    """A pattern over at least so many digits and, if there are any, one of `signs`."""

    rule: str
    label: str
    accept: Accept
    digits: int
    signs: frozenset[str]
    pattern: re.Pattern[str]

    @property
    def is_checked(self) -> bool:
        """Whether it has check digits: then `_` parts it from the words of a file's name."""
        return self.accept in (_identity, _bank_card)

    @property
    def is_sure(self) -> bool:
        """Whether it is what it is wherever it stands: it has a date and a check digit in it."""
        return self.accept is _identity

    @property
    def may_be_a_segment(self) -> bool:
        """Whether it may be all of a path's segment; other numbers there are mostly ids."""
        return self.accept is _bank_card or self.rule == "phone_cn_mobile"


_NEXT_DIGIT = r"(?:[ .\-_/()（）]{0,3}[0-9])"
NEAR_DIGITS = re.compile(rf"[0-9]{_NEXT_DIGIT}{{4,255}}")
"""Where digits stand so close together that a number, plain or labelled, is worth trying."""
MORE_DIGITS = re.compile(rf"{_NEXT_DIGIT}{{1,255}}")
"""How that goes on. Matched by pieces: all other threads wait for one match, and a text may be digits only."""

_SIGN_BEFORE = frozenset(" =([,")  # of a negative number
_MONEY = frozenset("$¥￥€£")
_UNIT = re.compile(
    r"\*+[A-Za-z0-9(]|[ ]?(?:bytes?|[kKMGTP]i?B|B|[mnuµ]s|%|元|件|个|条|次|人|字节)(?![A-Za-z])"
    r"|[ ](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]+[0-9]"  # a size in a listing of files
)
_SEGMENT_END = re.compile(r"(?P<kind>\.[A-Za-z]{2,5})?(?=[/?#\s\"'`<>()\[\],;:，。；、]|\Z)")
_MOST_IN_A_SEGMENT = 16
"""Digits: ids of databases have more."""
_OF_SOMEBODY = re.compile(
    r"(?i)(?<![a-z])(?:u|users?|members?|customers?|clients?|patients?|contacts?|phones?|tel|mobiles?|cards?|c|sms|call)/\Z"
)
"""The segment of a path before the number of somebody's; a number behind another one is mostly the id of a run."""
_CALL = re.compile(r"(?:[A-Za-z0-9_]\(|(?:sha|md)[0-9]{1,3}:)\Z")  # seed(348932549825235)
_ASKED_TO_CALL = re.compile(
    r"(?<![a-z_])(?:call|text|reach|dial|ring|phone|contact|sms|tel|cell|mobile|fax|whatsapp|"
    r"(?:my|his|her|our|your|their)[ ](?:new[ ])?number)(?:s|ed|ing)?(?![a-z_])[^.!?\n\"(]{0,24}\Z"
)
_IDENTIFIER = re.compile(r"(?:(?<![A-Za-z])[A-Z]+|[0-9][A-Za-z]*)-\Z")  # INV-, 7a-
_HEX_AFTER = re.compile(r"-[0-9a-f]{4,12}(?![0-9A-Za-z])")
_ANOTHER_PHONE = re.compile(r"[0-9]{7}/\Z")
_COLUMN_BEFORE = re.compile(r"[0-9A-Fa-f]{3} \Z")
_COLUMN_AFTER = re.compile(r" [0-9A-Fa-f]{3,4}(?![0-9A-Za-z/年:.\-])")

_CLAUSE = re.compile(r"[\n,，。！？!?;；|]|(?<!no)(?<!nr)\. ")
_LABEL_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|#|[\u4e00-\u9fff]+")
_FILLERS = words("is was no nr num number code key the #")
_OTHER_WORDS = words(
    "order invoice tracking shipment parcel waybill ticket issue batch row line serial sku item product "
    "build version revision isbn issn ean upc doi epoch timestamp ts time date size bytes byte mem "
    "memory offset address length len count total used free available capacity limit sequence seq "
    "commit run job pid port checksum hash digest crc seed amount balance price cost reference ref "
    "transaction txn trace span request req message event"
)
_OTHER_CHINESE = re.compile(
    r"(?:(?:订单|流水|快递|运单|物流|工单|发票)(?:编?号码?|编?码)?"
    r"|(?:批次|序列|商品|产品|交易|条形?|单|票|货|版本|编)(?:编?号码?|编?码)"
    r"|数量|金额|总计|总额|大小|字节|时间戳|版本)[是为]?\Z"
)
_NUMBERED = words("no nr num number code")
_PAID_WORDS = words("order transaction txn invoice reference ref request req message event")
_PAID_CHINESE = re.compile("订单|流水|交易|发票")
"""Labels of what people pay for, and of what they say: beside them a card's number is no stranger."""
_PEOPLE = words("user member login account customer wechat")


def stands_alone(text: str, start: int, end: int, rule: Number) -> bool:
    """Say whether a number is no part of a longer number, word, path, amount or identifier."""
    before, further = text[start - 1 : start], text[start - 2 : start - 1] if start > 1 else ""
    after, next_digit = text[end : end + 1], text[end + 1 : end + 2].isdigit()
    is_segment = rule.may_be_a_segment and _is_segment(text, start, end)
    if _glued(before, rule.is_checked or is_segment) or before in _MONEY:
        return False
    if _glued(after, rule.is_checked):
        return False
    if (after in {".", "-"} and next_digit) or (before == "." and further.isdigit()):
        return False
    if before == "-" and (
        further in _SIGN_BEFORE or _IDENTIFIER.search(text, max(0, start - 40), start)
    ):
        return rule.is_sure
    if before == "/" and (_in_word(further) or further in {"-", "."}):
        is_another_phone = _ANOTHER_PHONE.search(text, max(0, start - 12), start) is not None
        return rule.is_sure or is_segment or is_another_phone
    return _HEX_AFTER.match(text, end) is None


def _is_segment(text: str, start: int, end: int) -> bool:
    """Say whether a number in one run fills a segment of a path that is somebody's, or ends a file's name."""
    if not text[start:end].isdigit() or end - start > _MOST_IN_A_SEGMENT:
        return False
    ending = _SEGMENT_END.match(text, end)
    is_somebodys = _OF_SOMEBODY.search(text, max(0, start - 12), start) is not None
    return ending is not None and (is_somebodys or ending["kind"] is not None)


def _in_word(sign: str) -> bool:
    return sign.isascii() and (sign.isalnum() or sign == "_")


def _glued(sign: str, checked: bool) -> bool:
    return _in_word(sign) and not (checked and sign == "_")


def _other_number(text: str, start: int, end: int) -> bool:
    """Say whether the label before a bare number or the unit behind it says what else it is."""
    return _counted(text, start, end) or _labelled_otherwise(_label_before(text, start))


def _counted(text: str, start: int, end: int) -> bool:
    """Say whether it is an amount of something, or what a function is called with."""
    call = _CALL.search(text, max(0, start - 8), start)
    return call is not None or _UNIT.match(text, end) is not None


def _label_before(text: str, start: int) -> list[str]:
    return _LABEL_WORD.findall(_CLAUSE.split(text[max(0, start - 40) : start])[-1])


def _labelled_otherwise(before: list[str]) -> bool:
    """Say whether the words before a bare number say what else it is."""
    hashed = before[-1:] == ["#"]
    *others, last = _without_fillers(before) or [""]
    if last == "id":
        return not (others and others[-1].lower() in _PEOPLE)
    return hashed or last in _OTHER_WORDS or _OTHER_CHINESE.search(last) is not None


def _without_fillers(before: list[str]) -> list[str]:
    kept_words = list(before)
    while kept_words and kept_words[-1].lower() in _FILLERS:
        kept_words.pop()
    return [*kept_words[:-1], kept_words[-1].lower()] if kept_words else []


def _paid_for(before: list[str], *, in_groups: bool) -> bool:
    """Say whether a card's number is no stranger behind these words, what they are of having one of its own.

    `Order number 4111111111111111` says that it is that one, `order 4111111111111111` does not.
    """
    kept_words = _without_fillers(before)
    last = kept_words[-1] if kept_words else ""
    filled = {word.lower() for word in before[len(kept_words) :]} & _NUMBERED
    is_numbered = bool(filled) or last.endswith(("号", "号码", "编号", "编码"))
    if is_numbered and not in_groups:
        return False
    hashed = before[-1:] == ["#"] and last not in _OTHER_WORDS
    return hashed or last == "id" or last in _PAID_WORDS or _PAID_CHINESE.search(last) is not None


def _in_columns(text: str, start: int, end: int) -> bool:
    """Say whether groups with spaces are a part of more such groups: a table, a hex dump."""
    if " " not in text[start:end]:
        return False
    before = _COLUMN_BEFORE.search(text, max(0, start - 4), start)
    return before is not None or _COLUMN_AFTER.match(text, end) is not None


def _added(text: str, start: int) -> bool:
    """Say whether a plus is the mark of a line that a diff adds."""
    at_start = text[start] == "+" and text[start - 1 : start] in {"", "\n"}
    return at_start and ("@@ " in text or "diff " in text)


def _not_another(text: str, start: int, end: int, _: str) -> bool:
    elsewhere = _other_number(text, start, end) or _in_columns(text, start, end)
    return not elsewhere and not _added(text, start)


def _landline(text: str, start: int, end: int, digits: str) -> bool:
    return not checksums.calendar_date(digits[-8:]) and _not_another(text, start, end, digits)


def _spoken_phone(text: str, start: int, end: int, _: str) -> bool:
    before = text[max(0, start - 36) : start].lower()
    return _ASKED_TO_CALL.search(before) is not None and not _in_columns(text, start, end)


def _foreign_phone(text: str, start: int, end: int, digits: str) -> bool:
    bare, dots = text[start + 1 : end].isdigit(), text[start:end].count(".")
    return (
        (10 if bare else 8) <= len(digits) <= 15
        and dots != 1
        and len(set(digits)) > 2
        and not _added(text, start)
    )


def _bank_card(text: str, start: int, end: int, digits: str) -> bool:
    if not checksums.bank_card(digits) or _counted(text, start, end):
        return False
    if _in_columns(text, start, end) or _added(text, start):
        return False
    before, in_groups = _label_before(text, start), not text[start:end].isdigit()
    if not _labelled_otherwise(before):
        return True
    # Ids of databases have up to 19 digits in one run, and one in ten has the check digit.
    return (in_groups or len(digits) <= 16) and _paid_for(before, in_groups=in_groups)


def _social_security(_text: str, _start: int, _end: int, digits: str) -> bool:
    return checksums.us_social_security(digits)


def _identity(text: str, _start: int, end: int, digits: str) -> bool:
    return checksums.chinese_identity(digits + "X" if text[end - 1] in "xX" else digits)


_COUNTRY = (  # the codes in use, but for 1, which has its own pattern
    "(?:7|86|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[124]|9[0-58]|21[12368]|2[2346][0-9]|25[0-8]|"
    "29[01789]|35[0-9]|37[0-8]|38[0-35-79]|42[013]|5[09][0-9]|67[02-9]|68[0-35-9]|69[0-2]|"
    "8[08]0|85[02356]|886|96[0-8]|97[0-7]|99[2-68])"
)


def _numbers() -> tuple[Number, ...]:
    prefix = r"(?:(?:\+|00)86[ \-]?|86[ \-])?"
    china = r"(?:(?:\+|00)?86(?: - |[ \-])?|[(（]\+?86[)）][ \-]?)?"
    mobile = "1(?:3[0-9]|4[5-9]|5[0-35-9]|6[2567]|7[0-8]|8[0-9]|9[0-35-9])"
    area = "(?:10|2[0-9]|[3-9][0-9]{2})"
    local = r"[2-9][0-9]{2,3}(?: - |[ \-])?[0-9]{4}(?:-[0-9]{1,5})?"
    us, four = "[2-9][0-9]{2}", r"[0-9]{4}([ .\-_])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
    identity = ("identity_cn", "ID_CARD", _identity, 17)
    card = ("bank_card", "CARD", _bank_card, 14)
    cn_mobile = ("phone_cn_mobile", "PHONE", _not_another, 11)
    landline = ("phone_cn_landline", "PHONE", _landline, 10)
    us_phone = ("phone_us", "PHONE", _not_another, 10)
    spoken = ("phone_us", "PHONE", _spoken_phone, 10)
    foreign = ("phone_foreign", "PHONE", _foreign_phone, 8)
    security = ("social_security_us", "SSN", _social_security, 9)
    table: tuple[tuple[tuple[str, str, Accept, int], str, str], ...] = (
        (identity, "", "[1-9][0-9]{16}[0-9Xx]"),
        (identity, " -", r"[1-9][0-9]{5}([ \-])[0-9]{4}\1?[0-9]{4}\1[0-9]{3}[0-9Xx]"),
        (card, "", "(?:[0-9]{19}|[0-9]{15,16})"),
        (card, " .-_", rf"{four}\1[0-9]{{1,3}}"),
        (card, " .-_", four),
        (card, " -_", r"3[0-9]{3}([ \-_])[0-9]{6}\1[0-9]{4,5}"),
        (card, " -_", r"62[0-9]{4}[ \-_][0-9]{10,13}"),
        (cn_mobile, "", rf"{china}{mobile}[0-9]{{8}}(?:-[0-9]{{3,4}})?"),
        (cn_mobile, " .-", rf"{china}1[3-9][0-9]( - |[ .\-])[0-9]{{4}}\1[0-9]{{4}}"),
        (cn_mobile, " -", rf"{china}1[3-9][0-9]{{2}}( - |[ \-])[0-9]{{4}}\1[0-9]{{3}}"),
        (landline, " -)）", rf"{prefix}[(（]?0{area}(?:[)）][ \-]?| - |[ \-]){local}"),
        (landline, "", rf"(?:\+|00)86[ \-]?(?:\(0?\))?{area}[ \-]?{local}"),
        (us_phone, "(", rf"(?:\+?1[ .\-]?)?\({us}\)[ .\-]?{us}[ .\-][0-9]{{4}}"),
        (us_phone, ".-", rf"(?:\+?1[ .\-])?{us}(?:([.\-]){us}\1|/{us}-)[0-9]{{4}}"),
        (us_phone, "+", rf"\+1[ .\-]?{us}[ .\-]?{us}[ .\-]?[0-9]{{4}}"),
        (spoken, "", rf"(?:1[ \-]?)?{us} ?{us}[ \-]?[0-9]{{4}}"),
        (foreign, "+", rf"\+{_COUNTRY}(?:(?: - |[ .\-()]{{0,2}})[0-9]){{5,12}}"),
        (security, "-", "[0-9]{3}-[0-9]{2}-[0-9]{4}"),
    )
    return tuple(
        Number(*kind, frozenset(signs), re.compile(rf"(?<![0-9]){pattern}(?![0-9])"))
        for kind, signs, pattern in table
    )


NUMBERS = _numbers()
NUMBER_REACH = 80
"""More characters than any of these patterns looks at."""
_HEX = re.compile("[0-9A-F]+")

_HEX_LOWER = re.compile("[0-9a-f]+")

IBAN_HEAD = re.compile(r"[0-9](?<=[A-Za-z]{2}[0-9])[0-9](?:[ \-]?[A-Za-z0-9]){11,31}")
"""The check digits of an account number and all that may follow them."""


def _as_printed(account: str) -> tuple[str, str]:
    """An account's number in one run, and as banks print it, in groups of four."""
    return account, " ".join(account[at : at + 4] for at in range(0, len(account), 4))


def iban_at(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Return the bounds of the IBAN whose check digits `IBAN_HEAD` found, or None."""
    start = match.start() - 2
    length = checksums.IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
    places = [at for at in range(start, match.end()) if text[at] not in " -"][:length]
    if not length or len(places) < length:
        return None
    end = places[-1] + 1
    if _glued(text[start - 1 : start], checked=True) or _glued(text[end : end + 1], checked=True):
        return None
    account = "".join(text[at] for at in places)
    if account.islower() and "iban" not in text[max(0, start - 16) : start].lower():
        if _HEX_LOWER.fullmatch(account) and not account[2:].isdigit():
            return None  # uuids and hex dumps are in lower case, and many
        if text[start:end] not in _as_printed(account):
            return None
    if length % 4 == 0 and _HEX.fullmatch(account) and _in_columns(text, start, end):
        return None
    return (start, end) if checksums.iban(account.upper()) else None
