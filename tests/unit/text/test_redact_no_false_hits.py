"""Code and tool output without anything personal in it passes as it is: 10,000 lines of each.

A bare number of eleven digits that begins like a mobile phone may be one, and is taken for one: what
tells it apart is a label, a unit or its place, and all of these are here.
"""

from __future__ import annotations

import base64
import json
import random
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from ce_engine.text.redaction.redact import PatternRedactor


REDACTOR = PatternRedactor()
LINES = 10_000

# Parts of the standard library whose authors left no address in any supported release.
MODULES = (
    *("asyncio", "collections", "importlib", "unittest", "multiprocessing", "tomllib", "zoneinfo"),
    *("wsgiref", "ast.py", "typing.py", "dataclasses.py", "enum.py", "functools.py", "getpass.py"),
    *("netrc.py", "secrets.py", "hmac.py", "ssl.py", "socket.py", "random.py"),
    *("threading.py", "traceback.py", "difflib.py", "fractions.py", "statistics.py", "datetime.py"),
    *("shutil.py", "calendar.py", "ftplib.py", "configparser.py", "_pydecimal.py", "gettext.py"),
)

R = random.Random()
WORDS = "cache model layer token index batch reader writer queue worker agent prompt store".split()


def hexes(size: int) -> str:
    return f"{R.getrandbits(size * 4):0{size}x}"


def uuid() -> str:
    return "-".join(hexes(size) for size in (8, 4, 4, 4, 12))


def word() -> str:
    return R.choice(WORDS)


def version() -> str:
    return ".".join(str(R.randint(0, 40)) for _ in range(R.randint(2, 4)))


def address() -> str:
    return ".".join(str(R.randint(1, 254)) for _ in range(4))


def day() -> str:
    return f"20{R.randint(10, 29)}-{R.randint(1, 12):02d}-{R.randint(1, 28):02d}"


def clock() -> str:
    return f"{R.randint(0, 23):02d}:{R.randint(0, 59):02d}:{R.randint(0, 59):02d}"


def number(most: int) -> int:
    return R.randint(0, 10 ** R.randint(1, most))


def epoch() -> int:
    return R.randint(1_500_000_000, 1_999_999_999)


def base64_line() -> str:
    return base64.b64encode(R.randbytes(57)).decode()


def json_line() -> str:
    return json.dumps(
        {
            "id": R.randint(10**10, 10**19),
            "run_id": R.randint(10**10, 10**11),
            "node_id": base64.b64encode(R.randbytes(12)).decode(),
            "created_at": epoch() * 10 ** R.choice([0, 3, 6, 9]),
            "size": R.randint(10**10, 10**11),
            "values": [R.random(), -R.random() * 1e9, R.random() * 1e-9, number(9)],
            "usage": {"prompt_tokens": number(6), "total_tokens": R.randint(10**9, 10**10)},
            "lat": R.uniform(-90, 90),
            "trace": uuid(),
            "next_page_token": base64.b64encode(R.randbytes(18)).decode(),
        },
        indent=R.choice([None, None, 2]),
    )


def chinese_line() -> str:
    return R.choice(
        [
            f"{day()} {clock()} 订单号：{R.randint(10**17, 10**18)}，已发货",
            f"快递单号SF{R.randint(10**12, 10**13)}，预计明天到",
            f"流水号{R.randint(10**17, 10**18)} 金额：{number(6)}.{R.randint(10, 99)}元",
            f"商品编号{R.randint(10**10, 10**11)}库存{number(4)}件，共{number(5)}人",
            f"耗时 {R.randint(10**10, 10**11)}ns，大小：{R.randint(10**10, 10**11)} 字节",
            "密码错误，请重试；密码长度为8-20位；学号不能为空；手机号格式不正确",
        ]
    )


OUTPUT: dict[str, Callable[[], str]] = {
    "git log": lambda: f"commit {hexes(40)}\nDate:   {day()} {clock()} +0{R.randint(0, 9)}00\n    Fix {word()} (#{number(6)})",
    "git diff": lambda: f"diff --git a/{word()}.py b/{word()}.py\nindex {hexes(7)}..{hexes(7)} 100644\n@@ -{number(5)},{number(3)} +{number(5)},{number(3)} @@\n-{word()} = {number(9)}\n+{number(9)}",
    "pip list": lambda: f"{word()}-{word()}      {version()}\n{word()}=={version()}rc{R.randint(1, 3)}+cu{R.randint(100, 130)}",
    "npm": lambda: f"├── @{word()}/{word()}@{version()}\n└── {word()}@{version()}-beta.{R.randint(1, 9)}",
    "json": json_line,
    "uuid": lambda: f'trace_id={uuid()} span={hexes(16)} etag W/"{hexes(32)}"',
    "hash": lambda: f"sha256:{hexes(64)}  {word()}.tar.gz\nmd5 {hexes(32)}",
    "log": lambda: f"{day()}T{clock()}.{R.randint(0, 999_999_999):09d}Z INFO [{word()}-{R.randint(1, 99)}] took {R.random() * 1000} ms, ts={epoch()}, epoch_ms {epoch()}{R.randint(100, 999)}",
    "stack trace": lambda: f'  File "/srv/{word()}/{word()}.py", line {number(4)}, in {word()}_{word()}\n    {word()} = self.{word()}[{number(3)}]({word()}={number(4)})\nValueError: 0x{hexes(12)}',
    "table": lambda: f"| {word()} | {number(9):>12} | {R.random():.6f} | {R.random():.15f} | {day()} |",
    "csv": lambda: ",".join(str(number(9)) for _ in range(8)) + f",{R.random()!r},{R.random() * 1e16!r}",
    "listing": lambda: f"-rw-r--r-- 1 root root {R.randint(0, 10**11)} Nov {R.randint(1, 28)} 10:02 {word()}-{day()}.log",
    "processes": lambda: f"root  {number(6)}  0.{R.randint(0, 9)}  1.{R.randint(0, 9)} {number(8)} {number(7)} ?  Ssl  {clock()} /usr/bin/{word()} --port={R.randint(1024, 65535)}",
    "books": lambda: f"ISBN 978-{R.randint(0, 9)}-{R.randint(10, 99)}-{R.randint(100000, 999999)}-{R.randint(0, 9)}, ISBN: {R.randint(9780000000000, 9799999999999)}",
    "orders": lambda: f"Order number {R.randint(10**15, 10**16)} shipped, invoice no. {R.randint(10**10, 10**16)}, tracking #{R.randint(10**11, 10**19)}",
    "network": lambda: f"64 bytes from {address()}: icmp_seq={number(3)} ttl=56 time=11.{R.randint(0, 9)} ms\nListening on {address()}:{R.randint(1, 65535)}, via {address()}/24",
    "access": lambda: f'{address()} - - [{day()}:{clock()} +0000] "GET /v1/items/{R.randint(10**10, 10**11)}?page={number(3)} HTTP/1.1" 200 {number(6)}',
    "versions": lambda: f"v{version()} build {day().replace('-', '')}.{number(4)}, kernel {version()}-{number(3)}-generic",
    "floats": lambda: f"loss={R.random()!r} grad={R.random() * 1e-12!r} pi=3.{R.randint(10**29, 10**30)} [{R.random() * 1e11:.3f}]",
    "hex dump": lambda: f"{number(7):08x}: " + " ".join(hexes(4) for _ in range(8)) + "  ................",
    "decimal dump": lambda: f"{number(7):08d}: " + " ".join(f"{R.randint(0, 9999):04d}" for _ in range(8)),
    "base64": base64_line,
    "systemd": lambda: f"getty@tty{R.randint(1, 9)}.service loaded active, {word()}@{number(3)}.socket, icon@2x.png",
    "config": lambda: f"password: ${{{word().upper()}_PASSWORD}}\ntoken = os.environ['{word().upper()}_TOKEN']\npublic_ip = \"{address()}\"\napi_key=\"sk-...\"",
    "help": lambda: f"  --password TEXT   Your password is required, at least {R.randint(8, 20)} characters\n  --token-file PATH  secret: see {word()}",
    "chinese": chinese_line,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    R.seed(20261121)


def assert_no_hit(texts: dict[str, str]) -> None:
    hits = {
        (name, span.rule, text[max(0, span.start - 40) : span.end + 10])
        for name, text in texts.items()
        for span in REDACTOR.find(text)
    }
    assert hits == set()


@pytest.mark.req("A-19")
def test_code_has_no_hit() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    files = [
        file
        for module in MODULES
        for file in (
            [library / module] if module.endswith(".py") else (library / module).rglob("*.py")
        )
    ]
    texts = {str(file.relative_to(library)): file.read_text(encoding="utf-8") for file in files}
    assert sum(len(text.splitlines()) for text in texts.values()) >= LINES
    assert_no_hit(texts)


@pytest.mark.req("A-19")
def test_tool_output_has_no_hit() -> None:
    texts = {name: "\n".join(make() for _ in range(400)) for name, make in OUTPUT.items()}
    assert sum(len(text.splitlines()) for text in texts.values()) >= LINES
    assert_no_hit(texts)


def test_one_line_at_a_time_has_no_hit_either() -> None:
    texts = {f"{name} {at}": make() for name, make in OUTPUT.items() for at in range(100)}
    assert_no_hit(texts)
