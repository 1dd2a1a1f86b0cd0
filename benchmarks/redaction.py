"""What redaction finds, kind by kind: by default, and with a detector; and what it takes that is nobody's.

    python benchmarks/redaction.py                              # the default
    python benchmarks/redaction.py --model en_core_web_lg       # and with PresidioDetector over this model of spaCy

Made texts from a fixed seed: values of no person, in sentences that the rules were not written for one by one. A value
counts as found where 95 % of its characters are taken out. A made set flatters: on real texts recall is lower.
"""

from __future__ import annotations

import argparse
import random
import re
import string
from collections.abc import Callable

from ce_engine import PresidioDetector, RedactionConfig
from ce_engine.text.redaction.checksums import luhn
from ce_engine.text.redaction.national_ids import SCHEMES
from ce_engine.text.redaction.redact import PatternRedactor
from ce_engine.text.redaction.wallets import base58check


R = random.Random(20261124)
EACH = 120
FIRST = [
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Emma",
    "Felix",
    "Grace",
    "Hugo",
    "Irene",
    "Jonas",
    "Lina",
    "Omar",
    "Priya",
    "Wei",
    "Yuki",
    "Olga",
    "Pedro",
    "Fatima",
    "Liam",
    "Zoe",
]
LAST = [
    "Miller",
    "Rossi",
    "Tanaka",
    "Schmidt",
    "Novak",
    "Silva",
    "Khan",
    "Garcia",
    "Dubois",
    "Petrov",
    "Okafor",
    "Larsen",
    "Murphy",
    "Haddad",
    "Costa",
]
CHINESE = [
    "张伟",
    "王芳",
    "李娜",
    "刘洋",
    "陈静",
    "杨帆",
    "赵磊",
    "黄敏",
    "周杰",
    "吴倩",
    "徐明",
    "孙丽",
]
CITIES = [
    "Lisbon",
    "Berlin",
    "Toronto",
    "Nairobi",
    "Osaka",
    "Madrid",
    "Chicago",
    "Dublin",
    "Warsaw",
    "Sydney",
]
STREETS = ["Oak", "Maple", "King", "Victoria", "Station", "Church", "Park", "Mill"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def pick(*items: str) -> str:
    return R.choice(items)


def digits(count: int) -> str:
    return "".join(R.choice(string.digits) for _ in range(count))


def signs(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(R.choice(alphabet) for _ in range(count))


def until(make: Callable[[], str], right: Callable[[str], bool]) -> str:
    while not right(value := make()):
        pass
    return value


def wallet() -> str:
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    bitcoin = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"
    assert all(base58check(each) and set(each) <= set(alphabet) for each in bitcoin)
    return pick(
        *bitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "0x" + signs(40, "0123456789abcdef")
    )


def born() -> str:
    year, month, day = R.randint(1940, 2010), R.randint(1, 12), R.randint(1, 28)
    return pick(
        f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}", f"{day:02}.{month:02}.{year}",
        f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}, {year}", f"{year}年{month}月{day}日",
    )  # fmt: skip


FORMS = {
    "es": "########Q", "fr": "1850575######44", "de": "###########", "br": "###########", "in": "############",
    "in_tax": "QQQPQ####Q", "kr": "900101#######", "jp": "############", "tw": "Q1########", "hk": "Q######X",
    "sg": "S#######Q", "gb": "AB######C", "gb_health": "##########", "pl": "###########", "nl": "#########",
    "be": "###########", "se": "8507######", "no": "###########", "ch": "756##########", "tr": "###########",
    "ru": "###########", "ca": "#########", "au": "#########", "passport": "Q########", "driver": "Q########",
}  # fmt: skip


def national() -> tuple[str, str]:
    scheme = R.choice([each for each in SCHEMES if each.rule.removeprefix("national_id_") in FORMS])
    form = FORMS[scheme.rule.removeprefix("national_id_")]

    def make() -> str:
        return "".join(
            {
                "#": digits(1),
                "Q": signs(1, string.ascii_uppercase),
                "X": signs(1, "0123456789A"),
            }.get(c, c)
            for c in form
        )

    value = until(make, lambda text: bool(scheme.form.fullmatch(text)) and scheme.check(text))
    return value, f"{scheme.words.split('|')[0]}: {{}}"


def card() -> str:
    value = until(lambda: "4" + digits(15), luhn)
    return pick(value, " ".join(value[at : at + 4] for at in range(0, 16, 4)))


def person() -> str:
    return f"{R.choice(FIRST)} {R.choice(LAST)}"


def address() -> str:
    return f"{R.randint(1, 990)} {R.choice(STREETS)} {pick('Street', 'Road', 'Avenue', 'Lane')}"


def password() -> str:
    return signs(R.randint(9, 16), string.ascii_letters + string.digits + "!#%*") + "7!"


Kind = tuple[str, Callable[[], str], tuple[str, ...]]

KINDS: tuple[Kind, ...] = (
    ("mail addresses", lambda: f"{signs(8, string.ascii_lowercase)}@example.{pick('com', 'org', 'de')}", ("write to {} soon", "邮箱{}，谢谢", '{{"to": "{}"}}')),
    ("phones", lambda: pick(f"13{digits(9)}", f"+44 20 7946 0{digits(3)}", f"(415) 555-{digits(4)}"), ("tonight on {}, ok?", "手机{}", "tel {}")),
    ("bank cards", card, ("pay with {} now", "卡号{}，有效期09/28")),
    ("keys and tokens of vendors", lambda: pick("ghp_" + signs(36), "sk-" + signs(48), "AKIA" + signs(16, string.ascii_uppercase)), ("use {} for it", "密钥{}")),
    ("passwords behind a label, English and Chinese", password, ("password: {}", "the wifi password is {}", "密码是{}", '{{"password": "{}"}}')),
    ("passwords, labels of other languages", password, ("Passwort: {}", "la contraseña es {}", "mot de passe : {}", "пароль: {}", "パスワード：{}", "비밀번호: {}", "senha: {}")),
    ("passwords with spaces, quoted or up to the end of the line", lambda: " ".join(signs(R.randint(4, 8), string.ascii_lowercase) for _ in range(4)), ("password: {}", 'the password is "{}"')),
    ("passwords with spaces within a sentence", lambda: " ".join(signs(5, string.ascii_lowercase) for _ in range(3)), ("my password is {} and nobody knows", "log in with {} please")),
    ("passwords of letters alone, behind a label, at the end of a line", lambda: signs(R.randint(8, 16), string.ascii_lowercase), ("password: {}", "Passwort: {}", "pw: {}", "db.password={}")),
    ("one-time codes beside a label", lambda: digits(6), ("your verification code is {}", "{} is your login code", "验证码{}，5分钟内有效", "Ihr Bestätigungscode lautet {}", "Код подтверждения: {}", "認証コードは{}です", "OTP {}")),
    ("one-time codes without one", lambda: digits(6), ("just got {} on my phone", "it says {}")),
    ("birth dates behind a label", born, ("date of birth: {}", "I was born on {}", "出生日期：{}", "né le {}", "geboren am {}", '{{"dob": "{}"}}')),
    ("birth dates without one", born, ("I turned one on {}", "{} was the day my mother had me")),
    ("IPv6 addresses", lambda: "2a02:8109:" + ":".join(f"{R.randrange(1, 65536):x}" for _ in range(6)), ("login from {}", "{} - - GET /", "来自{}的请求")),
    ("IPv4 addresses of clients", lambda: ".".join(str(R.randint(11, 126)) for _ in range(4)), ("login from {}", "client_ip={}", "登录地址{}")),
    ("MAC addresses", lambda: ":".join(f"{R.randrange(256):02x}" for _ in range(6)), ("device {} joined", "MAC地址：{}")),
    ("crypto wallets", wallet, ("send it to {} please", "钱包地址：{}")),
    ("names of people, English", person, ("I spoke with {} yesterday", "{} will call you back", "please ask {} for it")),
    ("names of people, Chinese", lambda: R.choice(CHINESE), ("请联系{}处理", "我叫{}")),
    ("street addresses", address, ("I live at {} now", "ship it to {}, please")),
    ("street addresses, Chinese", lambda: f"北京市海淀区中关村大街{R.randint(1, 99)}号", ("我住在{}", "寄到{}，谢谢")),
    ("cities and countries", lambda: R.choice(CITIES), ("we moved to {} in spring", "my flight to {} is late")),
)  # fmt: skip

APART = (
    '[{{"name": "DB_PASSWORD", "value": "{}"}}]',
    '{{"password": {{"value": "{}"}}}}',
    '["login", "--password", "{}"]',
    '[{{"名称": "登录密码", "值": "{}"}}]',
    "curl -u ann:{} https://example.com",
)

KEYED = (
    '{{"apiKey": "{}", "ok": true}}',
    '{{"apitoken": "{}"}}',
    '{{"client": {{"id": 7, "clientSecret": "{}"}}}}',
    '{{"body": "{{\\"access_token\\": \\"{}\\"}}"}}',
    "{{'secret': '{}'}}",
    'Result: {{"host": "h", "token": "{}',
    "mycli --access_token {} run",
    "mycli --api-key={} run",
)

CLEAN = (
    "Order {d8} shipped, invoice {d6} of 2026-03-04 total 1,{d3}.00",
    "commit {h40} merged, build 2.{d2}.{d3}, took {d4} ms",
    "订单号{d16}已发货，共{d2}件，金额{d3}元",
    "The meeting is on 12 March 2027 at 10:30 in room {d3}",
    "trace {h32} span {h16} status=200 bytes={d7}",
    "Error {d4}: connection refused after {d3} retries",
    "Can you summarise the last {d2} tickets for me?",
    "password must have {d2} characters, code {d4} was removed from the module",
    "会议改到周四下午三点，在{d3}会议室，请带上笔记本电脑",
    "The cache holds {d6} entries and expires after {d3} seconds",
    "Step {d2}: install the package, then run the tests and check the log",
    "ratio 0.{d8}, seed {d9}, page {d3} of {d4}",
    '{"token": "Hello", "logprob": -0.{d4}, "bytes": [72, {d2}]}',
    '{"secret": "production-db-{d2}", "apiKey": "string", "clientSecret": "clientSecret"}',
    '{"nextPageToken": "{h16}", "max_tokens": {d4}, "tokens": ["a{d2}"]}',
    "mycli --token-limit {d4} --max_tokens {d4} --token reader",
)


def clean() -> str:
    text = R.choice(CLEAN)
    text = re.sub(r"\{d(\d+)\}", lambda found: digits(int(found[1])), text)
    return re.sub(r"\{h(\d+)\}", lambda found: signs(int(found[1]), "0123456789abcdef"), text)


def made(make: Callable[[], str], sentences: tuple[str, ...]) -> tuple[str, str]:
    value = make()
    return R.choice(sentences).format(value), value


def recall(redactor: PatternRedactor, cases: list[tuple[str, str]]) -> float:
    found = 0
    for text, value in cases:
        start = text.index(value)
        covered = {at for span in redactor.find(text) for at in range(span.start, span.end)}
        found += len(covered & {*range(start, start + len(value))}) >= 0.95 * len(value)
    return 100 * found / len(cases)


def redactors(model: str) -> dict[str, PatternRedactor]:
    there = {"default": PatternRedactor()}
    if model:
        detector = PresidioDetector(models={"en": model})
        config = RedactionConfig(detector=detector, timeout_s=60)
        there["with [presidio]"] = PatternRedactor.configured(config).detecting()
    return there


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="", help="a model of spaCy, for PresidioDetector")
    there = redactors(parser.parse_args().model)
    print(f"| kind | {' | '.join(there)} |\n|---|{'---|' * len(there)}")
    rows = [(name, [made(make, sentences) for _ in range(EACH)]) for name, make, sentences in KINDS]
    numbers = [(form.format(value), value) for value, form in (national() for _ in range(3 * EACH))]
    rows.insert(12, (f"numbers of {len(FORMS)} countries and kinds, behind a label", numbers))
    apart = [made(password, APART) for _ in range(EACH)]
    rows.insert(8, ("passwords apart from their label, in JSON, commands and headers", apart))
    keyed = [made(lambda: signs(R.randint(8, 40)), KEYED) for _ in range(3 * EACH)]
    rows.insert(4, ("secrets of 8 to 40 letters and digits, in JSON and behind options", keyed))
    for name, cases in rows:
        print(
            f"| {name} | {' | '.join(f'{recall(each, cases):.0f} %' for each in there.values())} |"
        )
    texts = [clean() for _ in range(2000)]
    hits = [
        100 * sum(bool(each.find(text)) for text in texts) / len(texts) for each in there.values()
    ]
    print(
        f"| *false alarms, of {len(texts):,} clean texts* | {' | '.join(f'{hit:.2f} %' for hit in hits)} |"
    )


if __name__ == "__main__":
    main()
