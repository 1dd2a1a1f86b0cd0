"""One-time codes, birth dates and numbers of countries: what only a label beside it makes personal."""

from __future__ import annotations

import re
from datetime import date

from ce_engine.text.redaction import checksums
from ce_engine.text.redaction.devices import IPV6, ipv6, is_somebodys
from ce_engine.text.redaction.labelled import Label, Labelled, labels
from ce_engine.text.redaction.national_ids import SCHEMES, Scheme, without_signs
from ce_engine.text.redaction.patterns import Bounds, Shape


_IS = (
    r"(?:is|was|ist|lautet|est|es|était|era|é|è|jest|on|är|er|是|为|為|はです|は|이|은|는|가|—|–|-)"
)
OPERATOR = (
    r"(?:[ ]?[(（][^()（）\n]{1,16}[)）])?[\"'`”’」』】\])）]{0,2}\*{0,2}"
    rf"(?P<operator>[ \t]?(?::=|=>|[:：=＝])|[ \t]{{0,2}}{_IS}(?![A-Za-z])[ \t]?[:：]?)?"
    r"[ \t]{0,4}\*{0,2}(?P<quote>[\"'`“‘「『【\[]?)"
)
"""What stands between a label and its value in many languages."""


def _tail(suffix: str, value: str) -> re.Pattern[str]:
    return re.compile(rf"(?i:{suffix}{OPERATOR})(?P<value>{value})")


# One-time codes

_CODE = r"(?:[A-Z]-)?(?:[0-9]{3}[ \-][0-9]{3}|[0-9]{4,10}|(?=[A-Z]{0,7}[0-9])[A-Z0-9]{5,8})(?![0-9A-Za-z]|[.:\-/][0-9])"
_YEAR = re.compile(r"(?:19|20)[0-9]{2}\Z")
_NAME = r"(?:[ ]+(?:for|to|de|für|pour|para|da|do)[ ]+[\w.'\- ]{1,24}?)?"


def _one_time_code(label: Label) -> Bounds | None:
    value, operator = label.tail["value"], label.tail["operator"]
    if not operator and (not label.chinese or not value.isdigit()):
        bare = len(value) >= 6 and value.isdigit()
        if not bare:
            return None
    if _YEAR.match(value) and operator not in {":", "："}:
        return None
    return label.tail.span("value")


def _pin(label: Label) -> Bounds | None:
    return label.tail.span("value") if label.tail["operator"] else None


_CODES = labels(
    "verification code|verify code|one-time code|one time code|one-time password|one time password|"
    "one-time passcode|otp|2fa code|two-factor code|mfa code|login code|sign-in code|sign in code|"
    "security code|authentication code|auth code|confirmation code|access code|authenticator code|"
    "sms code|"
    "verification_code|verificationcode|otp_code|sms_code|smscode|"
    "验证码|驗證碼|校验码|校驗碼|动态码|动态密码|动态口令|短信码|确认码|一次性密码|授权码|"
    "código de verificación|codigo de verificacion|código de confirmación|código de seguridad|"
    "código de verificação|código de confirmação|código de segurança|"
    "code de vérification|code de confirmation|code de sécurité|code à usage unique|"
    "bestätigungscode|sicherheitscode|verifizierungscode|einmalcode|einmalpasswort|freischaltcode|"
    "codice di verifica|codice di sicurezza|codice otp|verificatiecode|bevestigingscode|"
    "код подтверждения|код проверки|одноразовый код|одноразовый пароль|kod weryfikacyjny|doğrulama kodu|"
    "verifieringskod|認証コード|確認コード|認証番号|ワンタイムパスワード|인증번호|인증 번호|인증코드|"
    "mã xác minh|mã xác nhận|kode verifikasi|رمز التحقق|सत्यापन कोड|รหัส otp|קוד אימות"
)
_AFTER = (
    r"(?=[ ]?(?:is|ist|est|es|é|è)[ ](?:your|the|my|ihr|dein|votre|tu|su|seu|il tuo)[ ]"
    r"[^.\n]{0,32}?(?:code|otp|password|passcode|código|codice|kennwort)"
    r"|[ ]as[ ](?:your|the)[ ][^.\n]{0,32}?(?:code|otp|password|passcode))"
)
_GIVEN = (
    r"((?:[A-Z](?<![\w.\-:/#$€£].)-)?[0-9](?<![\w.:/#$€£].)(?:[0-9]{3,7}|[0-9]{2}[ \-][0-9]{3}))"
)


def _digits_alone(text: str) -> bool:
    return not _YEAR.match(text)


_ASKED_FOR = re.compile(
    r"(?i:(?<![a-z])(?:use|enter|type|input|code)[ ](?:the[ ](?:code[ ])?|code[ ])?)\Z"
)


def _asked_for(text: str, start: int, _: int) -> bool:
    return _ASKED_FOR.search(text, max(0, start - 24), start) is not None


CODES_BEFORE_LABELS = (
    Shape(
        "one_time_code", "ONE_TIME_CODE", " ", re.compile(f"{_GIVEN}(?i:{_AFTER})"), _digits_alone
    ),
    Shape(
        "one_time_code",
        "ONE_TIME_CODE",
        " to ",
        re.compile(
            rf"{_GIVEN}"
            r"(?=[ ]to[ ](?:verify|log[ ]?in|sign[ ]?in|confirm|complete|authenticate|reset))"
        ),
        _digits_alone,
        _asked_for,
    ),
    Shape(
        "one_time_code",
        "ONE_TIME_CODE",
        "码",
        re.compile(
            r"([0-9](?<![0-9A-Za-z_.\-:/#$￥¥].)[0-9]{3,7})(?=[ ]?[（(]?(?:是|为|為)?(?:您的|你的|本次)?[^\s，。,;；0-9]{0,10}"
            r"(?:验证码|驗證碼|校验码|动态码|动态密码|确认码))"
        ),
        bool,
    ),
)
"""`482913 is your code`."""


# Birth dates

_MONTHS = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|janv|févr|fév|mars|avr|juin|juil|août|"
    "déc|ene|enero|abr|ago|dic|fev|abril|maio|set|out|dez|gen|mag|giu|lug|ott|янв|фев|мар|апр|ма|июн|июл|авг|"
    "сен|окт|ноя|дек"
)
_MONTH = rf"(?i:(?:{_MONTHS})[^\W\d_]{{0,8}})"
_DATE = (
    r"(?:(?:18|19|20)[0-9]{2}[ ]?[\-/.年년][ ]?[0-9]{1,2}[ ]?[\-/.月월][ ]?[0-9]{1,2}(?:[ ]?[日号號일])?"
    r"|[0-9]{1,2}[ ]?[\-/.][ ]?[0-9]{1,2}[ ]?[\-/.][ ]?(?:(?:18|19|20)[0-9]{2}|[0-9]{2})"
    r"|(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    rf"|(?:the[ ])?[0-9]{{1,2}}(?:st|nd|rd|th|er|º)?[. ,\-/]{{1,2}}(?:of[ ]|de[ ])?{_MONTH}[. ,\-/]{{1,2}}(?:de[ ])?[0-9]{{4}}"
    rf"|{_MONTH}[. ]{{1,2}}[0-9]{{1,2}}(?:st|nd|rd|th)?[ ,]{{1,2}}[0-9]{{4}}"
    r"|(?:18|19|20)[0-9]{2}[ ]?年[ ]?[0-9]{1,2}[ ]?月"
    r")(?![0-9A-Za-z]|[.\-/:][0-9])"
)
_PARTS = re.compile("[0-9]+")
_FIRST_YEAR = 1900
_BIRTHS = labels(
    "date of birth|birth date|birthdate|date_of_birth|birth_date|dateofbirth|birthday|dob|d.o.b|born on|born|"
    "date de naissance|née le|né le|geburtsdatum|geburtstag|geboren am|geb.|geb |"
    "fecha de nacimiento|nacido el|nacida el|nací el|data di nascita|nato il|nata il|"
    "data de nascimento|nascido em|nascida em|geboortedatum|geboren op|data urodzenia|doğum tarihi|"
    "födelsedatum|fødselsdato|syntymäaika|дата рождения|родился|родилась|"
    "出生日期|出生年月|出生时间|出生於|出生于|生日|生于|生於|生年月日|誕生日|생년월일|생일|"
    "ngày sinh|tanggal lahir|تاريخ الميلاد|जन्म तिथि|วันเกิด"
)


def _birth_date(label: Label) -> Bounds | None:
    if label.text[label.start] == "生" and label.text[label.start - 1 : label.start] in {
        "发",
        "產",
        "产",
        "發",
    }:
        return None  # 发生于: it happened
    value = label.tail["value"]
    year = next((int(part) for part in _PARTS.findall(value) if len(part) == 4), None)
    if value.isdigit():
        year = int(value[:4]) if checksums.calendar_date(value) else 0
    if year is not None and not _FIRST_YEAR <= year <= date.max.year:
        return None  # of somebody in a book
    small = [int(part) for part in _PARTS.findall(value) if len(part) < 3]
    if any(part > 31 for part in small[:2]) or 0 in small[:2]:
        return None
    return label.tail.span("value")


# Numbers of countries, addresses

_KIND = (
    r"(?:[ ]?(?:kimlik|no|nummer|fiscal|code)(?![a-z]))?(?:'s)?"
    r"(?:[ _\-.]{0,2}(?:number|numero|número|num|nummer|no|nr|nº|n°|id|card|#)(?![a-z])[.]?){0,2}"
    r"(?:号码?|號碼?|编号|字号|字號|番号|번호)?"
)


def _national(scheme: Scheme) -> Labelled:
    def accept(label: Label) -> Bounds | None:
        value = label.tail["value"]
        match = scheme.form.fullmatch(without_signs(value).replace("/", ""))
        lone = label.end - label.start < 4 and not label.joined and value.isalpha()
        return label.tail.span("value") if match and not lone and scheme.check(match[0]) else None

    value = r"[A-Za-z0-9](?:[ .\-/]{0,2}[A-Za-z0-9]|\([0-9Aa]\)){6,19}(?![0-9A-Za-z])"
    return Labelled(scheme.rule, "NATIONAL_ID", labels(scheme.words), _tail(_KIND, value), accept)


def _ipv6(label: Label) -> Bounds | None:
    value = label.tail["value"]
    start, end = label.tail.span("value")
    is_address = value.count(":") > 2 and ipv6(value) is not None
    return (start, end) if is_address and is_somebodys(label.text, label.start, end) else None


LABELLED_SHORT = (
    Labelled("one_time_code", "ONE_TIME_CODE", _CODES, _tail(rf"(?:号码?)?{_NAME}", _CODE), _one_time_code),
    Labelled("pin", "ONE_TIME_CODE", labels("pin|пин-код|пин"), _tail("(?:[ ]?number)?", r"[0-9]{4,8}(?![0-9A-Za-z]|[.:\-/][0-9])"), _pin),
    Labelled(
        "card_code", "ONE_TIME_CODE", labels("cvv|cvc"), _tail("2?(?:[ ]code)?", r"[0-9]{3,4}(?![0-9A-Za-z]|[.:\-/][0-9])"),
        lambda label: label.tail.span("value"),
    ),
    Labelled("birth_date", "BIRTH_DATE", _BIRTHS, _tail("", _DATE), _birth_date),
    Labelled(
        "ipv6_labelled", "IP", labels("ip|login from|logged in from|remote_addr|x-forwarded-for|登录地址|来源地址"),
        _tail(r"(?:v6)?(?:[ _\-]?addr(?:ess)?|地址)?", IPV6), _ipv6,
    ),
)  # fmt: skip
"""Labelled values with a few digits."""

LABELLED_NATIONAL = tuple(map(_national, SCHEMES))
