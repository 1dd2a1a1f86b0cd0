"""What is taken out, what is left, and what stands in its place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ce_engine.errors import ContextEngineError, RedactionError
from ce_engine.ports.redaction import RedactedData, Redactor
from ce_engine.text.redaction.placeholders import CAPACITY, Numbering
from ce_engine.text.redaction.redact import PatternRedactor, SensitiveSpan


SECRET = b"0123456789abcdef0123456789abcdef"
REDACTOR = PatternRedactor()

# Values of no person: reserved for examples, or made up with valid check digits.
FOUND = [
    ("EMAIL", "anna.miller+news@mail.example.co.uk", "Please write to {}, thanks"),
    ("EMAIL", "zhangsan_88@example.cn", "我的邮箱是{}，谢谢"),
    ("EMAIL", "anna＠example．com", "邮箱：{}"),
    ("PHONE", "13912345678", "我的手机号是{}，有事联系"),
    ("PHONE", "13912345678", "reach me on {} tonight"),
    ("PHONE", "139-1234-5678", "{} 找王老师"),
    ("PHONE", "139 1234 5678", "text {} please"),
    ("PHONE", "+86 139 1234 5678", "from {}"),
    ("PHONE", "+8613912345678", "tel {}"),
    ("PHONE", "１３９１２３４５６７８", "电话{}"),
    ("PHONE", "010-62345678", "座机 {} 转 8"),
    ("PHONE", "（0755）82345678", "公司{}"),
    ("PHONE", "+86-21-62345678", "office {}"),
    ("PHONE", "(415) 555-2671", "Call me at {} after 6pm."),
    ("PHONE", "415.555.2671", "or {}"),
    ("PHONE", "+1 415 555 2671", "at {}"),
    ("PHONE", "4155552671", "call me on {}"),
    ("PHONE", "+44 20 7946 0958", "London: {}."),
    ("ID_CARD", "11010519491231002X", "身份证号码为{}，请核对"),
    ("ID_CARD", "11010519491231002x", "on file: {}."),
    ("ID_CARD", "110105 19491231 002X", "{}"),
    ("ID_CARD", "１１０１０５１９４９１２３１００２Ｘ", "证件{}已录入"),
    ("ID_CARD", "110105491231002", "身份证：{}"),
    ("SSN", "219-09-9998", "my number is {}"),
    ("SSN", "219099998", "SSN: {}"),
    ("CARD", "4111 1111 1111 1111", "card {} exp 09/28"),
    ("CARD", "4111-1111-1111-1111", "{}"),
    ("CARD", "378282246310005", "amex {}"),
    ("CARD", "6222021234567890128", "银行卡{}"),
    ("CARD", "4111111111111111", "scan_{}_2024.pdf"),
    ("CARD", "4111-1111-1111-1111", "/home/anna/扫描_{}_正面.jpg"),
    ("CARD", "4111_1111_1111_1111", "scan_{}_2024.pdf"),
    ("ID_CARD", "11010519491231002X", "张三_{}_正面.jpg"),
    ("IBAN", "DE89370400440532013000", "Rechnung_{}_bezahlt.pdf"),
    ("IBAN", "DE89 3704 0044 0532 0130 00", "Wire it to {} please"),
    ("IBAN", "GB29NWBK60161331926819", "收款账户{}"),
    ("SECRET", "sk-proj-" + "a1B2c3D4e5" * 4, "use {} until tomorrow"),
    ("SECRET", "sk-ant-api03-" + "a1B2c3D4e5" * 4, "{}"),
    ("SECRET", "AKIA" + "QZ7K2M4N5P6R7S2T", "aws {}"),
    ("SECRET", "ghp_" + "a1B2c3" * 6, "https://{}@github.com/x/y"),
    ("SECRET", "AIza" + "Sy-1234567" * 3 + "abcde", "密钥是{}，不要外传"),
    ("SECRET", "xoxb-" + "123456789012-" * 2 + "AbCdEfGh", "{}"),
    ("SECRET", "sk_live_" + "a1B2c3D4" * 3, "{}"),
    ("SECRET", "hf_" + "aBcDeFgH" * 4 + "ij", "{}"),
    ("SECRET", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij_-", 'token="{}"'),
    ("SECRET", "abcdefABCDEF0123456789", "Authorization: Bearer {}"),
    ("SECRET", "abcdefABCDEF0123456789", "Authorization: Token {}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "authorization: {}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "curl -H 'Proxy-Authorization: {}' https://x.example/a"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "Authorization: Bot {}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "Authorization: key={}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "Authorization: HMAC-SHA256 {}"),
    ("SECRET", "Token f3Gk29QpLz81XmTr7Yw4", "(b'authorization', b'{}')"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "'Authorization': f'Token {}', x"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", 'authorization: bearer "{}"'),
    ("SECRET", "Basic dXNlcjpwYXNzd29yZA==", "'Authorization': b'{}', x"),
    ("SECRET", "Basic dXNlcjpwYXNzd29yZA==", "[(b'authorization', b'{}')]"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "[(b'x-api-key', b'{}'), (b'host', b'x')]"),
    ("SECRET", "dXNlcjpwYXNzd29yZA==", "Authorization:\n  Basic {}"),
    ("SECRET", "9f86d081884c7d65", "Authorization: {}"),
    ("PASSWORD", "hunter2Sommer", "{{u'password': u'{}'}}"),
    ("PASSWORD", "wK8&t2*gi'D<7", "DB_PASSWORD={}\nX=1"),
    ("PASSWORD", "uez'd_D<k}Z8", "My password is {}"),
    ("PASSWORD", "Sommer77", "MYSQL_PWD={} mysqldump"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", '密钥是"{}"请保存，用户名是"ann"。'),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", 'api key: "{}"(see "notes")'),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", '{{"apikey": "{}"x, "note": "The quick brown fox"}}'),
    ("PASSWORD", "Sommer77", '**password**: "{}"** and "x y"'),
    ("PASSWORD", "Sommer77", "我的密码是“{}”请不要告诉“别人”。"),
    ("PASSWORD", "Sommer77", "IDENTIFIED BY password='{}'@'localhost'"),
    ("PASSWORD", "Sommer77", "export PASSWORD={};cd /srv"),
    ("PASSWORD", "Sommer77", "PGPASSWORD={}>/dev/null"),
    ("PASSWORD", "Sommer77", "https://x.example/?password={}&debug"),
    ("PASSWORD", "Sommer77", "<x password={}>text</x>"),
    ("PASSWORD", "Sommer77", "Server=x;Uid=a;PWD={};"),
    ("PASSWORD", 'uez"d_D<k}Z8', 'connect(password="{}", host="h")'),
    ("SECRET", "aBc9dEf0GhI1jKl2MnO3pQr==", "Authorization: SharedKey account:{}"),
    ("SECRET", "YIIJvwYGKwYBBQUCoIIJszCC+f3Gk29Qp==", "Authorization: Negotiate {}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "authorization: jwt {}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "authorization: klaviyo-api-key {}"),
    (
        "SECRET",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "Authorization: PVEAPIToken=root@pam!mon={}",
    ),
    (
        "SECRET",
        "6R4rV5iE+NPoym+WwjeHzjAGXUtLNIxmo1vpMofpLAE=",
        'Authorization: Hawk id="dh37", ts="1353832234", nonce="j4h3g2", mac="{}"',
    ),
    (
        "SECRET",
        "6629fae49393a05397450978507c4ef1",
        'Authorization: Digest username="Mufasa", uri="/dir", response="{}", qop=auth',
    ),
    (
        "SECRET",
        "fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024",
        "Authorization: AWS4-HMAC-SHA256 SignedHeaders=host;range, Signature={}",
    ),
    (
        "SECRET",
        "fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024",
        "https://b.example/o?X-Amz-Expires=60&X-Amz-Signature={}",
    ),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", "apikey: {}"),
    ("SECRET", "9f86d081884c7d659a2feaa0c55ad015", "https://x.example/?apikey={}"),
    ("SECRET", "f3Gk29QpLz81XmTr7Yw4", 'token = b"{}"'),
    ("PASSWORD", "S3cr3t!pw", 'password = b"{}"'),
    ("PASSWORD", "hunter2x", "pwd: bytes = rb'{}'"),
    (
        "SECRET",
        "123456789:AAEZq8Xw2Lm4Vt6Rb1Nc7YdZq8Xw2Lm4Vt6",
        "https://api.telegram.org/bot{}/getMe",
    ),
    (
        "SECRET",
        "Zq8Xw2Lm4Vt6Rb1Nc7Yd" * 3,
        "https://discord.com/api/webhooks/123456789012345678/{}",
    ),
    (
        "SECRET",
        "693a1236-7a0c-4bc4-97a0-0ec2b1fa5aaa",
        "https://open.feishu.cn/open-apis/bot/v2/hook/{}",
    ),
    (
        "SECRET",
        "693a1236-7a0c-4bc4-97a0-0ec2b1fa5aab",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}",
    ),
    ("SECRET", "EAAC" + "Zq8Xw2Lm4Vt6Rb1Nc7Yd" * 5, "{}"),
    ("SECRET", "a8f5f167f44f4964e6c998dee827110c", '{{"apiKey": "{}"}}'),
    ("SECRET", "Zq8Xw2Lm4Vt6Rb1Nc7Yd", "appsecret：{}"),
    ("SECRET", "Zq8Xw2Lm4Vt6Rb1Nc7Yd", "the clientsecret is {}"),
    (
        "SECRET",
        "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 20 + "\n-----END PRIVATE KEY-----",
        "{}\n",
    ),
    ("PASSWORD", "hunter2!x", "password: {}"),
    ("PASSWORD", "correcthorse", 'Password = "{}"'),
    ("PASSWORD", "letmein", "DB_PASSWORD={}"),
    ("PASSWORD", "Zx8#k2", "登录密码：{}，别告诉别人"),
    ("PASSWORD", "abc12345", "密码{}"),
    ("PASSWORD", "s3cr3t", "mysql://app:{}@db.example.com:3306/app"),
    ("PASSWORD", "hunter2", "connect --password {} now"),
    ("PASSWORD", "Sunny2024", "The password for the wifi is {}."),
    ("PASSWORD", "swordfish", "password: {}"),
    ("PASSWORD", "swordfish", "user: ann\nPassword: {}\nhost: db"),
    ("PASSWORD", "Schwertfisch", "Passwort: {}"),
    ("PASSWORD", "correcthorsebatterystaple", "pw: {}"),
    ("PASSWORD", "QXZWVKPLMT", "my password: {}. Please change it."),
    ("PASSWORD", "ZqvgcwaafEhcqt", "password: {}"),
    ("PASSWORD", "swordfish", "spring.datasource.password={}\nspring.datasource.user=ann"),
    ("PASSWORD", "swordfish", "password: {}，谢谢"),
    ("STUDENT_ID", "2021001234", "学号：{}"),
    ("STUDENT_ID", "A12345678", "我的学号是{}，申请补考"),
    ("STUDENT_ID", "20231234", "Student ID: {}"),
    ("STUDENT_ID", "U2023-12345", '{{"studentId": "{}"}}'),
    ("IP", "91.2.3.4", "login from {} at 10:02"),
    ("ID_CARD", "11010519491231002X", "s3://scans/{}/front.jpg"),
    ("ID_CARD", "11010519491231002X", "ID-{}"),
    ("CARD", "4111111111111111", "https://shop.example/cards/{}"),
    ("PHONE", "13912345678", "GET /users/{}/orders?page=2"),
    ("PHONE", "13912345678", "/tmp/{}.csv"),
    ("PHONE", "13912345678", "张三_{}.pdf"),
    ("EMAIL", "jörg.müller@example.com", "an {} bitte"),
    ("EMAIL", "info@müller.de", "an {}, bitte"),
    ("EMAIL", "иван@почта.рф", "пиши на {}"),
]

LEFT = [
    "Authorization: see section 3.2.1 of rfc7235, or AuthorizationServerConfigurer2Support",
    "last authorization: 2024-05-06T10:11:12Z, prior authorization = PA20240001234567",
    "authorization: 550e8400-e29b-41d4-a716-446655440000, Authorization. Request 550e8400-e29b-41d4-a716-446655440000",
    "authorization: arn:aws:iam::123456789012:role/Admin42Role, authorization: tests/e2e/test_auth0_v2.py::test_1",
    "ERROR authorization: AADSTS50011_redirect_uri_mismatch, Authorization: See docs/api/v2/Users2024/index",
    'token = r"[-!#$%&*+.^_`|~0-9a-zA-Z]+"',
    "authorization commit 9f86d081884c7d659a2feaa0, authorization was 9f86d081884c7d659a2feaa0",
    'authorization: hawk, with mac="see the specification" in it',
    "Authorization: sha256 checksums are listed, authorization: Mandant 4711 has approved",
    'OLD_PWD=/home/ann, export LAST_PWD="/srv/app/v2", MY_PWD=build, cd x;PWD=/tmp/work2 make',
    'password = b"", apikey: ${API_KEY_V2_PROD1}, authorization: /etc/app/authorization.conf',
    "Order number 4111111111111111 shipped",
    "订单号：13912345678，已发货",
    "流水号110101194912310021",
    '{"id": 13912345678, "run_id": 13912345679}',
    '{"size": 13958643712}',
    "-rw-r--r-- 1 root root 13958643712 Nov 21 10:02 disk.img",
    "https://example.com/runs/13912345678/jobs",
    "https://item.shop.example/100012043978.html, /status/1593847562018263040, mmexport1512345678901.jpg",
    "order_13912345678, /orders/13912345678/items, INV-4111111111111111",
    "epoch_ms 1700000000000, ns 1700000000000000000",
    "0.4111111111111111 and 1.13912345678e-05",
    "sha256:4111111111111111411111111111111141111111111111114111111111111111",
    "13912345-6789-4123-8123-139123456789",
    "00000010: 4111 1111 1111 1111 0310 2345 6789 1234",
    "rng = default_rng(348932549825235)",
    "3113794652, 4155552671, 2935384095",
    "4111111111111112 fails the check of Luhn",
    "scan_4111111111111112_2024.pdf, node_4111_1111_1111_1112, seed = 4111_1111_1111_1112",
    "order_number_4111111111111111, build_4111111111111111, IMG_20240102_101112345.jpg",
    "x4111111111111111_y, y_4111111111111111x, user_13912345678_v2, a_110105194912310021_b",
    "编号110105194912310021",
    "DE89370400440532013001",
    "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000",
    "ticket 20231234 closed, batch S33412849, student count 2023",
    "password is required, password: str, password=password, 密码不能为空",
    "password: ${DB_PASSWORD} or <your-password> or ********",
    "password: required\npassword: string\nPassword: Optional.\npw: hidden\nPassword: changed",
    "password: the one from yesterday\npassword: swordfish was yesterday's\npassword: swordfish or not",
    "Passwort: vergessen\nKennwort: erforderlich\ncontraseña: incorrecta\nmot de passe: oublié\nsenha: obrigatória",
    "  password: SecretStr\n  password: string;\n  db_password: Incomplete\n  password: newValue\n}",
    "    self.password = hashed\n    password = given\nawait login(user,\n  password=given\n)",
    "Password: Security\nPassword: encrypted\npassword: passwordHash\npassword = getPassword",
    "password: description\nPassword: administrator\npassword: pending\npassword: immediately\nPassword: Encryption",
    "Password: Managers\n## Password: Basics\n1. Password: Complete\nPassword: Kerberos\nPassword: OAuth",
    "## Password: Zebras\n 2) Password: Anatomy\npassword: resetting\npassword: Monday\nPassword: alphanumeric.",
    "password: fingerprint\npw: watts\nPW: megawatt\npwd: directory\npw: zebra",
    "Wachtwoord: wijzigen\nMot de passe: modifier\nContraseña: cambiar\nPasswort: anzeigen\nSenha: alterar",
    "forgot password: settings\nPassword: Enter\nparola: amore\nheslo: svoboda",
    "def login(user: str, password: str | None = None) -> bool:",
    "token = self.tokens[0]; secret = vault.get('name'); max_tokens=4096",
    '{"next_page_token": "abcdef0123456789abcdef", "total_tokens": 4155552671}',
    'class="sk-fading-circle sk-child-delay-10" api_key="sk-..."',
    "git@github.com:org/repo.git, react@18.2.0, @types/node@20.11.5, getty@tty1.service",
    "user at example dot com; q@k.transpose(-2, -1)",
    "version 4.15.555.2671, 2024-01-01T10:02:03.123456Z, +0800",
    "ISBN 978-0-306-40615-7, EAN 4006381333931",
    "host ip: 10.0.0.3, IP: 127.0.0.1, PING 93.184.216.34",
]


def numbering() -> Numbering:
    return Numbering(SECRET)


@pytest.mark.req("A-19", "B-04")
@pytest.mark.parametrize(("label", "value", "sentence"), FOUND)
def test_the_value_and_nothing_else_is_taken_out(label: str, value: str, sentence: str) -> None:
    text = sentence.format(value)
    done = REDACTOR.redact(text, numbering())
    assert done.text == sentence.format(f"[{label}_1]")
    start = text.index(value)
    assert [span[:3] for span in done.spans] == [(start, start + len(value), label)]
    assert (done.count, done.has_sensitive, len(done.rules)) == (1, True, 1)


@pytest.mark.parametrize("text", LEFT)
def test_what_only_looks_like_it_is_left(text: str) -> None:
    done = REDACTOR.redact(text, numbering())
    assert done.text is text
    assert (done.spans, done.rules, done.count, done.has_sensitive) == ((), (), 0, False)


@pytest.mark.req("B-04")
@pytest.mark.parametrize("labelled", ["学号：{}", "student id {}"])
def test_a_student_id_needs_its_label(labelled: str) -> None:
    assert REDACTOR.find(labelled.format("2021001234"))
    assert not REDACTOR.find("2021001234 是什么？")


def test_escapes_of_json_hide_nothing() -> None:
    text = r'{"note": "\u7535\u8bdd\uff1a13912345678\n\u5bc6\u7801\uff1aabc12345"}'
    expected = r'{"note": "\u7535\u8bdd\uff1a[PHONE_1]\n\u5bc6\u7801\uff1a[PASSWORD_1]"}'
    assert REDACTOR.redact(text, numbering()).text == expected
    nested = r'{"args": "{\"password\": \"hunter2\", \"to\": \"anna@example.com\"}"}'
    expected = r'{"args": "{\"password\": \"[PASSWORD_1]\", \"to\": \"[EMAIL_1]\"}"}'
    assert REDACTOR.redact(nested, numbering()).text == expected


@pytest.mark.parametrize(
    "around", ["_{}_", "__{}__", "-{}-", "DEPLOY_{}", "a_b-{}", "q=%20{}&n=1", "`_{}`"]
)
@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z",
        "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9",
        "AKIA" + "IOSFODNN7EXAMPLE",
        # One that says who somebody is.
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    ],
)
def test_a_token_is_found_behind_what_joins_words(around: str, token: str) -> None:
    """Emphasis of Markdown, names of tools, variables, addresses."""
    done = REDACTOR.redact(f"See {around.format(token)} for it.", numbering())
    assert token not in done.text


def test_the_longest_match_wins() -> None:
    text = "password: anna@example.com!13912345678"
    assert REDACTOR.redact(text, numbering()).text == "password: [PASSWORD_1]"


def test_a_password_in_a_url_is_no_mail_address() -> None:
    text = "postgresql://admin:s3cret@db.example.com/x"
    assert (
        REDACTOR.redact(text, numbering()).text
        == "postgresql://admin:[PASSWORD_1]@db.example.com/x"
    )


def test_spans_are_in_the_original() -> None:
    text = "密码：\u200babc12345，邮箱 ａnna@example.com"
    values = [text[span.start : span.end] for span in REDACTOR.find(text)]
    assert values == ["abc12345", "ａnna@example.com"]
    assert isinstance(REDACTOR.find(text)[0], SensitiveSpan)


# Placeholders


def test_a_value_keeps_its_number_in_a_session() -> None:
    numbers = numbering()
    first = REDACTOR.redact("anna@example.com, ben@example.com", numbers)
    again = REDACTOR.redact("to ben@example.com; cc ANNA@example.com", numbers)
    assert first.text == "[EMAIL_1], [EMAIL_2]"
    assert again.text == "to [EMAIL_2]; cc [EMAIL_1]"
    other = REDACTOR.redact("ben@example.com", Numbering(SECRET[::-1]))
    assert other.text == "[EMAIL_1]"


def test_spellings_of_one_number_are_one_value() -> None:
    text = "13912345678 = 139-1234-5678 = +86 139 1234 5678 = １３９１２３４５６７８"
    assert REDACTOR.redact(text, numbering()).text == " = ".join(["[PHONE_1]"] * 4)


def test_placeholders_in_chinese() -> None:
    numbers = numbering()
    done = REDACTOR.redact("邮箱 anna@example.com，密码：abc12345", numbers, "zh")
    assert done.text == "邮箱 [邮箱_1]，密码：[密码_1]"
    assert REDACTOR.redact("anna@example.com", numbers, "en").text == "[EMAIL_1]"
    assert REDACTOR.redact(done.text, numbers, "en").text is done.text


def test_numbers_go_on_after_a_restart() -> None:
    before = numbering()
    REDACTOR.redact("anna@example.com ben@example.com 13912345678", before)
    assert before.counters() == {"EMAIL": 2, "PHONE": 1}
    counted = Numbering(SECRET, before.counters())
    assert REDACTOR.redact("carl@example.com", counted).text == "[EMAIL_3]"
    remembered = Numbering(SECRET, placeholders=before.learned())
    assert (
        REDACTOR.redact("carl@example.com, ben@example.com", remembered).text
        == "[EMAIL_3], [EMAIL_2]"
    )
    assert [(item.label, item.number) for item in remembered.learned()] == [("EMAIL", 3)]
    assert remembered.learned() == []


def test_the_memory_holds_no_value() -> None:
    numbers = numbering()
    REDACTOR.redact("password: hunter2secret, anna@example.com", numbers)
    held = repr([getattr(numbers, name) for name in Numbering.__slots__])
    assert "hunter2" not in held
    assert "anna" not in held
    other = Numbering(SECRET[::-1])
    other.placeholder("PASSWORD", "hunter2secret")
    assert other.learned()[0].mac not in [item.mac for item in numbers.learned()]


def test_the_memory_is_bounded() -> None:
    numbers = Numbering(SECRET, counters={"EMAIL": 5})
    for value in range(CAPACITY):
        numbers.placeholder("SECRET", str(value))
    assert numbers.placeholder("SECRET", "0") == "[SECRET_1]"
    assert numbers.placeholder("EMAIL", "late@example.com") == "[EMAIL_6]"
    assert numbers.placeholder("EMAIL", "late@example.com") == "[EMAIL_7]"
    assert numbers.counters() == {"EMAIL": 7, "SECRET": CAPACITY}


def test_threads_agree_on_a_number() -> None:
    session = REDACTOR.bind(SECRET, [], "en")
    texts = [f"user{index % 50}@example.com" for index in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        done = [result.text for result in pool.map(session.text, texts)]
    pairs = set(zip(texts, done, strict=True))
    assert (
        len(pairs) == len({text for text, _ in pairs}) == len({place for _, place in pairs}) == 50
    )


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(RedactionError, match="has 3 bytes, expected 16"):
        Numbering(b"abc")


# Data


@pytest.mark.req("A-19", "B-02")
def test_data_is_redacted_by_key_and_by_form() -> None:
    value = {
        "password": "correct horse",
        "openaiApiKey": "anything",
        "学号": "abc",
        "tokens": ["kept"],
        "next_page_token": "kept",
        "pwd": "/home/kept",
        "to": ["anna@example.com", "nobody"],
        "phone": "4155552671",
        "mobile": 13912345678,
        "order_id": 13912345678,
        "secrets": {"token": ["a", "b", 5], "n": 1.5, "ok": True, "none": None},
        "anna@example.com": 1,
    }
    before = repr(value)
    done = REDACTOR.redact_json(value, numbering())
    assert done.value == {
        "password": "[PASSWORD_1]",
        "openaiApiKey": "[SECRET_1]",
        "学号": "[STUDENT_ID_1]",
        "tokens": ["kept"],
        "next_page_token": "kept",
        "pwd": "/home/kept",
        "to": ["[EMAIL_1]", "nobody"],
        "phone": "[PHONE_1]",
        "mobile": "[PHONE_2]",
        "order_id": 13912345678,
        "secrets": {"token": ["[SECRET_2]", "[SECRET_3]", 5], "n": 1.5, "ok": True, "none": None},
        "[EMAIL_1]": 1,
    }
    assert (done.count, done.has_sensitive) == (9, True)
    assert repr(value) == before
    assert REDACTOR.redact_json(done.value, numbering()).count == 0


def test_no_entry_of_a_mapping_is_lost() -> None:
    done = REDACTOR.redact_json({"a@example.com": 1, "A@example.com": 2}, numbering())
    assert sorted(done.value.values()) == [1, 2]


def test_data_may_be_deep_but_not_endless() -> None:
    deep: list[object] = ["anna@example.com"]
    for _ in range(900):
        deep = [deep]
    assert REDACTOR.redact_json(deep, numbering()).count == 1
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(RedactionError, match="deeper than 1000"):
        REDACTOR.redact_json(endless, numbering())


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(RedactionError, match="'bytes' is no JSON value"):
        REDACTOR.redact_json({"x": b"anna@example.com"}, numbering())


def test_numbers_that_are_nobodys_pass() -> None:
    numbers = [float("nan"), float("inf"), -1e300, 10**5000, 0, 1.25]
    kept = REDACTOR.redact_json(numbers, numbering()).value
    assert all(left is right for left, right in zip(kept, numbers, strict=True))


# Rules of the user's own


@pytest.mark.req("A-19")
def test_own_patterns_and_dictionaries() -> None:
    own = PatternRedactor(
        patterns={"employee_no": r"E-\d{4}"}, dictionaries={"项目": ["Falcon", "猎鹰计划"]}
    )
    numbers = numbering()
    done = own.redact("E-1234 leads falcon and 猎鹰计划, not falconry; again E-1234", numbers)
    assert done.text == (
        "[EMPLOYEE_NO_1] leads [项目_1] and [项目_2], not falconry; again [EMPLOYEE_NO_1]"
    )
    assert done.rules == ("employee_no", "项目")
    assert own.redact(done.text, numbers).text is done.text


def test_own_patterns_never_touch_a_placeholder() -> None:
    own = PatternRedactor(patterns={"all": r".*", "digits": r"\d*"})
    assert own.redact("mail [EMAIL_1], 7", numbering()).text == "[ALL_1][EMAIL_1][ALL_2]"


@pytest.mark.parametrize(
    ("patterns", "dictionaries", "message"),
    [
        ({"bad": "(unclosed"}, {}, "'bad' is no regular expression.*mend it"),
        ({"no name": "x"}, {}, "'no name' has no name.*rename it"),
        ({}, {"words": ["ok", " "]}, "'words' has an empty word.*remove it"),
        ({}, {"words": "Falcon"}, r"'words' is one text.*put it into \[...\]"),
    ],
)
def test_a_bad_rule_names_the_cure(
    patterns: dict[str, str], dictionaries: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(ContextEngineError, match=message):
        PatternRedactor(patterns=patterns, dictionaries=dictionaries)


def test_the_version_tells_rules_apart() -> None:
    plain, own = PatternRedactor().version, PatternRedactor(patterns={"a": "x"}).version
    other = PatternRedactor(patterns={"a": "y"}).version
    assert len({plain, own, other}) == 3
    assert PatternRedactor(patterns={"a": "x"}).version == own
    assert own.startswith(plain) is plain.startswith("patterns/") is True


def test_it_fits_its_port() -> None:
    redactor: Redactor = PatternRedactor()
    session = redactor.bind(SECRET, [], "zh")
    done = session.text("邮箱 anna@example.com")
    assert (done.text, done.count, done.has_sensitive, done.rules) == (
        "邮箱 [邮箱_1]",
        1,
        True,
        ("mail",),
    )
    assert session.data({"to": "anna@example.com"}) == RedactedData(
        {"to": "[邮箱_1]"}, ("mail",), 1
    )
    assert (
        redactor.bind(SECRET, session.learned(), "en").text("anna@example.com").text == "[EMAIL_1]"
    )
