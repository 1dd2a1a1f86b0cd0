"""What is secret by its own form: the keys and tokens of vendors, URLs with passwords, mail.

Every pattern here needs a literal that is looked for first, and reads a bounded stretch of text
behind it, so that a search is linear and most text costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple


VERSION = "patterns/11"
"""Raise it with every change to what is found; it is stored with each row (decision 13)."""

LABELS = {
    "EMAIL": "邮箱",
    "PHONE": "电话",
    "ID_CARD": "身份证",
    "SSN": "社保号",
    "CARD": "银行卡",
    "IBAN": "国际账户",
    "SECRET": "密钥",
    "PASSWORD": "密码",
    "STUDENT_ID": "学号",
    "IP": "IP地址",
    "MAC_ADDRESS": "MAC地址",
    "WALLET": "钱包地址",
    "ONE_TIME_CODE": "验证码",
    "BIRTH_DATE": "出生日期",
    "NATIONAL_ID": "证件号",
}
"""Label of a placeholder -> what it is called in Chinese."""

Bounds = tuple[int, int]


def words(text: str) -> frozenset[str]:
    """Return the words of a text; for tables of words."""
    return frozenset(text.split())


class Token(NamedTuple):
    """A vendor's key: the prefix that it is filed under, then what `body` matches."""

    rule: str
    body: re.Pattern[str]


def _anywhere(_text: str, _start: int, _end: int) -> bool:
    return True


class Shape(NamedTuple):
    """A pattern worth trying where `needs` occurs; its first group is what is taken out.

    `accept` looks at that alone, `beside` at (text, start, end) of it.
    """

    rule: str
    label: str
    needs: str
    pattern: re.Pattern[str]
    accept: Callable[[str], bool]
    beside: Callable[[str, int, int], bool] = _anywhere


_WORD, _URL = "[A-Za-z0-9]", r"[A-Za-z0-9_\-]"
_VENDORS = (
    ("openai_key", "sk-", rf"(?:proj-|svcacct-|admin-|or-v1-)?{_URL}{{20,}}"),
    ("anthropic_key", "sk-ant-", rf"{_URL}{{20,}}"),
    ("aws_key", "AKIA ASIA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_WORD}{{30,}}"),
    ("github_token", "github_pat_", r"\w{22,}"),
    ("gitlab_token", "glpat- glrt- gldt- glcbt- glptt- gloas-", rf"{_URL}{{20,}}"),
    ("google_key", "AIza", rf"{_URL}{{35}}"),
    ("google_key", "GOCSPX- ya29.", rf"{_URL}{{20,}}"),
    ("slack_token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", rf"{_URL}{{16,}}"),
    ("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", rf"{_WORD}{{16,}}"),
    ("huggingface_token", "hf_ api_org_", rf"{_WORD}{{30,}}"),
    ("model_provider_key", "gsk_ r8_", rf"{_WORD}{{30,}}"),
    ("model_provider_key", "xai- pplx- nvapi- tvly-", rf"{_URL}{{24,}}"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_", r"\w{32,}"),
    ("npm_token", "npm_", rf"{_WORD}{{36}}"),
    ("pypi_token", "pypi-", rf"AgE{_URL}{{40,}}"),
    ("cloud_key", "LTAI AKLT", rf"{_WORD}{{12,}}"),
    ("cloud_key", "AKID", rf"{_WORD}{{32}}"),
    ("cloud_key", "dop_v1_ doo_v1_ dapi", "[0-9a-f]{32,}"),
    ("shop_token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    ("shop_token", "sq0atp- sq0csp-", rf"{_URL}{{22,}}"),
    ("mail_service_key", "SG.", rf"{_URL}{{16,}}\.{_URL}{{16,}}"),
    ("mail_service_key", "key-", "[0-9a-f]{32}(?![0-9a-f])"),
    ("service_token", "dckr_pat_ glsa_ hvs. hvb. PMAK- NRAK- ATATT3", rf"{_URL}{{20,}}"),
    ("service_token", "lin_api_ ntn_ sbp_", rf"{_WORD}{{20,}}"),
    ("service_token", "dp.pt. dp.st. dp.ct. dp.sa.", rf"(?:{_WORD}{{1,32}}\.)?{_WORD}{{40,}}"),
    ("service_token", "figd_ pcsk_", rf"{_URL}{{36,}}"),
    ("service_token", "SK", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("service_token", "EAA", rf"{_WORD}{{80,}}"),
    ("model_provider_key", "fw_", rf"(?=[A-Za-z]{{0,23}}[0-9]){_WORD}{{20,}}(?!\w)"),
    ("model_provider_key", "sk_", "[0-9a-f]{48}(?![0-9A-Za-z])"),
    ("service_token", "EAAA", rf"{_WORD}{{79,}}|{_URL}{{60}}(?!{_URL})"),  # as `EAA`, or a shop's
    ("cloud_key", "v1.0-", "[0-9a-f]{24}-[0-9a-f]{100,}"),
    ("service_token", "glc_ nfp_ pnu_ pnb_ fo1_ fm2_", rf"{_URL}{{36,}}"),
    ("service_token", "vercel_blob_rw_ pscale_tkn_ pscale_oauth_ pscale_pw_", r"[\w.\-]{32,}"),
    ("service_token", "bkua_ pul-", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    ("service_token", "rubygems_", "[0-9a-f]{48}"),
    ("service_token", "cio", rf"(?=[A-Za-z]{{0,31}}[0-9]){_WORD}{{32}}(?!\w)"),
    ("service_token", "secret_", rf"(?=[A-Za-z]{{0,42}}[0-9]){_WORD}{{43}}(?!\w)"),
    ("service_token", "pat", rf"{_WORD}{{14}}\.[0-9a-f]{{64}}"),
    ("service_token", "sk.eyJ", rf"{_URL}{{20,}}\.{_URL}{{16,}}"),
    ("private_key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    ("bot_token", "MT Mj Mz ND NT Nj Nz OD OT", rf"{_WORD}{{20,26}}\.{_URL}{{6}}\.{_URL}{{27,}}"),
)  # fmt: skip
"""Rule, prefixes, and what follows one of them."""


def _tokens() -> dict[str, Token]:
    return {
        prefix: Token(rule, re.compile(body, re.ASCII))
        for rule, prefixes, body in _VENDORS
        for prefix in prefixes.split()
    }


TOKENS = _tokens()
TOKEN_RUN = re.compile(r"[^A-Za-z0-9_\-.][A-Za-z0-9_\-.]{18,}+")
"""What stands before a text without a gap, and the text, long enough to hold a token."""
TOKEN_PREFIX = re.compile(
    rf"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))(?:{'|'.join(sorted(map(re.escape, TOKENS), key=len, reverse=True))})"
)


# Words or chance

_WORDS = re.compile(
    r"(?:[A-Z]{2,}+|[A-Z]?[a-z]{2,}+|[0-9]{1,4}+(?![0-9])|[vV][0-9]{1,3}(?![A-Za-z0-9])|[_\-./:])++"
)
_DIGIT_RUN = re.compile("[0-9]+")
_HYPHENATED = re.compile("(?!lf-[0-9a-f]{8}-[0-9a-f]{4}-)[a-z0-9]{1,15}(?:-[a-z0-9]{1,15})+")
_TEMPLATE = re.compile(
    r"[<\[{()|\\]|\$[{(A-Za-z_]|%[sdr(]|%[A-Za-z_]+%\Z|\.\.\.|--|:?([xX*.•_#?-])\1*\Z"
    r"|(?i:your|my[_\-]|the[_\-]|some|example|placeholder|\[?redacted)"
)
_NO_PASSWORD = words(
    "pass password passwd pwd passphrase string str bytes text none null nil true false undefined void any "
    "required optional hidden secret invalid incorrect wrong missing empty unknown disabled enabled "
    "default input field prompt value type object"
)
_TECHNICAL = re.compile(
    r"(?i:sha|md|base|utf|aes|rsa|pbkdf|argon|bcrypt|http|oauth|ipv)[_\-]?[0-9]|[0-9]+[\-+]?[a-z]{0,10}\Z"
)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HEXADECIMAL = re.compile(
    r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{16,}|(?=[A-F]*[0-9])(?=[0-9]*[A-F])[0-9A-F]{16,}"
)
_OWN_NAME = re.compile(r"(?i)[a-z_\-]*passw[a-z_\-]*")  # CHANGE_PASSWORD = "CHANGE_PASSWORD"
_SYMBOLS = "!@#$%^&*?~+"
DIGITS = "0123456789"


def has_any(text: str, signs: str) -> bool:
    """Say whether one of a few signs is in a text: several times faster than a loop or a pattern."""
    return any(map(text.__contains__, signs))


def looks_random(value: str) -> bool:
    """Say whether the value is more than words, one or two short numbers and what joins them."""
    return _WORDS.fullmatch(value) is None or len(_DIGIT_RUN.findall(value)) > 2


def looks_like_a_key(value: str) -> bool:
    """Say whether the value is hexadecimal, or digits among small and capital letters: no name, date, path or UUID."""
    if _UUID.fullmatch(value):
        return False
    mixed = not value.islower() and not value.isupper() and len(_DIGIT_RUN.findall(value)) > 1
    return _HEXADECIMAL.fullmatch(value) is not None or (mixed and looks_random(value))


def password_value(value: str, *, explicit: bool) -> bool:
    """Say whether what follows the word password is one, rather than prose, code or a template.

    `explicit` is a value that something marks as one: quotes, `PASSWORD=`, a Chinese label.
    """
    if len(value) < (3 if explicit else 5) or value.lower() in _NO_PASSWORD:
        return False
    if _TEMPLATE.match(value) or _OWN_NAME.fullmatch(value):
        return False
    if explicit or (value.isdigit() and len(value) >= 6):
        return True
    if has_any(value, DIGITS):
        return _TECHNICAL.match(value) is None
    mixed = value.isalnum() and not value.islower() and looks_random(value)
    return mixed or has_any(value, _SYMBOLS)


def is_token(prefix: str, body: str) -> bool:
    """Say whether what follows a vendor's prefix is no sample (`ghp_xxxx`), no class of CSS (`sk-fade-in`)."""
    return len(set(body)) > 5 and not (prefix == "sk-" and _HYPHENATED.fullmatch(body))


def _secret(rule: str, needs: str, pattern: str, accept: Callable[[str], bool] = bool) -> Shape:
    return Shape(rule, "SECRET", needs, re.compile(pattern), accept)


_URL_SAFE = r"[A-Za-z0-9_\-]"
_KEY_LINE = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BLOCK = rf"(?:[^-]|-(?!----)){{40,16000}}+-----END {_KEY_LINE}"
_KEY_CUT_SHORT = r"\s{0,4}[A-Za-z0-9+/=]{32}[A-Za-z0-9+/=\s]{0,16000}"
_SCHEMES = (
    "token|apikey|api-key|key|bot|negotiate|ntlm|hmac|hmac-sha(?:1|256|512)|ssws|sso-key|sharedkey|aws|"
    "zoho-oauthtoken"
)
"""Of a header's credentials; what stands behind another one, or behind none, must look more like a key."""
_HEADER = r"(?i:authorization)[^\w\r\n.!?]{1,6}(?:[bf][\"'])?"
_FOLDED = r"(?i:authorization)[^\w\r\n.!?]{1,6}(?:\r?\n[ \t]{1,8})?(?:[bf][\"'])?"
_CREDENTIALS = r"[A-Za-z0-9._~+/\-]{16,4000}={0,2}"
_OTHER_CREDENTIALS = r"[A-Za-z0-9_+/\-]{16,4000}={0,2}(?![\w.:/\-])"
_JWT = rf"eyJ{_URL_SAFE}{{8,4000}}\.{_URL_SAFE}{{10,8000}}(?:\.{_URL_SAFE}{{0,4000}}){{1,3}}"


def _in_url(user: str, between: str) -> Shape:
    pattern = rf"://[^\s:/?#\[\]\"'<>{user}]{{0,64}}:({between})@(?=[A-Za-z0-9\[])"
    accept = partial(password_value, explicit=True)
    return Shape("url_password", "PASSWORD", "://", re.compile(pattern), accept)


SHAPES = (
    _secret(
        "private_key", "private key", rf"(-----BEGIN {_KEY_LINE}(?:{_KEY_BLOCK}|{_KEY_CUT_SHORT}))"
    ),
    # Looked for once from where a run begins, so that many beginnings in one take no longer.
    _secret(
        "jwt",
        "eyj",
        rf"(?<!{_URL_SAFE})(?:{_URL_SAFE}{{0,24}}[_\-]|(?<=%)[0-9A-Fa-f]{{2}})?({_JWT})",
    ),
    _secret(
        "bearer_token",
        "bearer",
        rf"(?i:\bbearer)[ \t]{{1,4}}[\"'`]?({_CREDENTIALS})",
        looks_random,
    ),
    _secret(
        "basic_authorization",
        "basic",
        rf"{_FOLDED}(?i:basic)[ \t]{{1,4}}([A-Za-z0-9+/]{{8,400}}={{0,2}})",
    ),
    _secret(
        "authorization_token",
        "authorization",
        rf"{_FOLDED}(?i:{_SCHEMES})(?:[ \t]{{1,4}}|=)(?:[\w\-]{{1,64}}:)?({_CREDENTIALS})",
        looks_random,
    ),
    _secret(
        "authorization_token",
        "authorization",
        rf"{_HEADER}(?:(?:[A-Z]|(?<=[:=] )[a-z])[A-Za-z0-9\-]{{1,20}}[ \t]{{1,4}})?({_OTHER_CREDENTIALS})",
        looks_like_a_key,
    ),
    _secret(
        "authorization_token",
        "pveapitoken",
        r"(?i:pveapitoken)=[^\s=]{1,128}=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    ),
    _secret(
        "request_signature", "signature=", r"(?i:signature)=([A-Fa-f0-9]{64,1024})(?![A-Za-z0-9])"
    ),
    _secret(
        "telegram_token",
        ":aa",
        rf"(?:(?<!\w)|(?<=/bot))([0-9]{{8,10}}:AA{_URL_SAFE}{{33}})(?!{_URL_SAFE})",
    ),
    _secret(
        "webhook",
        "/api/webhooks/",
        rf"discord(?:app)?\.com/api/webhooks/[0-9]{{15,22}}/({_URL_SAFE}{{40,200}})",
    ),
    _secret("webhook", "/bot/v2/hook/", rf"/open-apis/bot/v2/hook/({_URL_SAFE}{{20,200}})"),
    _secret("webhook", "/webhook/send?key=", rf"/webhook/send\?key=({_URL_SAFE}{{20,200}})"),
    _secret(
        "webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_]{20,200})",
    ),
    _secret(
        "service_token", ".atlasv1.", rf"(?<!\w)([A-Za-z0-9]{{14}}\.atlasv1\.{_URL_SAFE}{{60,80}})"
    ),
    _secret("google_key", "1//0", rf"(?<![\w:/])(1//0{_URL_SAFE}{{40,200}})", looks_random),
    _secret(
        "private_key",
        "private-lines:",
        r"Private-Lines:[ \t]{0,4}[0-9]{1,3}((?:\s{1,4}[A-Za-z0-9+/=]{4,80}(?![\w\-:])){1,99})",
    ),
    _secret(
        "shared_signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/_\-]{30,200}={0,2})", looks_random
    ),
    _secret("url_token", "://", rf"://({_URL_SAFE}{{20,255}})@(?=[A-Za-z0-9\[])", looks_random),
    _in_url("", r"[^\s/@\"'<>]{1,128}(?:@[^\s/@?#&,;\"'<>]{1,128}){0,4}"),
    # Drivers of databases take a `/` in it; a port is none, nor the path behind `git@host:`.
    _in_url("@", r"(?!port/|[0-9]{1,5}/)[^\s/@?#&=\"'<>]{1,64}(?:/[^\s/@?#&=\"'<>]{0,64}){1,4}"),
)

SIGNED_HEADERS = (
    _secret(
        "authorization_digest",
        "response=",
        r"(?i:authorization\W{1,6}digest)[ \t][^\r\n]{1,800}?[ ,;](?i:response)=\W{0,2}([A-Fa-f0-9]{32,128})",
    ),
    _secret(
        "authorization_hawk",
        "mac=",
        r"(?i:authorization\W{1,6}hawk)[ \t][^\r\n]{1,800}?[ ,](?i:mac)=\W{0,2}([A-Za-z0-9+/]{20,128}={0,2})",
    ),
)
"""Their patterns read on for hundreds of signs, so that they look at a long text by stretches."""


# Mail

_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u052f"
"""Of scripts that part words: in Chinese a word before an address would be taken for a part of it."""
_LOCAL_PART = re.compile(rf"[{_LETTERS}0-9._%+'\-]{{1,64}}\Z")
_DOMAIN = re.compile(
    rf"(?:[{_LETTERS}0-9](?:[{_LETTERS}0-9\-]{{0,61}}[{_LETTERS}0-9])?\.){{1,8}}"
    rf"(?:xn--[A-Za-z0-9]{{2,59}}|[{_LETTERS}]{{2,24}})(?![{_LETTERS}0-9])"
)
MAIL_SIGN = re.compile(
    rf"(?<=[{_LETTERS}0-9._%+'\-])@(?=[{_LETTERS}0-9][{_LETTERS}0-9\-]{{0,62}}\.)"
)
"""Where `mail_at` is worth a look."""
_URL_USER = re.compile(r"://(?:[^\s/@]{0,64}:)?\Z")
_RELEASE = re.compile(r"v?[0-9]+\.[0-9]+\.")
_NO_TOP_LEVEL = words(
    "service socket timer target mount automount slice scope swap device png jpg jpeg gif svg webp "
    "js mjs css html json"
)
_CALLED_TOP_LEVEL = words("com org net edu gov cn io de uk jp")
_MACHINE_USERS = words("git hg svn root ubuntu debian ec2-user centos vagrant postgres")


def mail_at(text: str, at: int) -> Bounds | None:
    """Return the bounds of the mail address around the `@` at index `at`, or None."""
    local, domain = _LOCAL_PART.search(text, max(0, at - 64), at), _DOMAIN.match(text, at + 1)
    if local is None or domain is None:
        return None
    name = local[0].lstrip("._%+'-")
    start, end = at - len(name), domain.end()
    top = domain[0].rpartition(".")[2].lower()
    called = text[end : end + 1] in {"(", "["} and top not in _CALLED_TOP_LEVEL
    if not name or name[-1] in ".%'" or name in _MACHINE_USERS:
        return None
    if called or top in _NO_TOP_LEVEL or _RELEASE.match(domain[0]):
        return None  # `a@b.transpose(`, `getty@tty1.service`, `logo@2x.png`, `pkg@1.2.3-rc.one`
    if _URL_USER.search(text, max(0, start - 70), start):
        return None  # the user of a URL, or the password, which has its own rule
    return start, end
