"""Texts of tools are data, too: JSON, headers, command lines, SQL, where a name stands apart from its value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


REDACTOR = PatternRedactor()
WORD = "hunter2Xq!"
KEY = "PKR0CsTy4Qwb8DwkNhFdnXsiVpzz63FfkCzJr4i0"
BASIC = "Basic YW5uOmh1bnRlcjI="


def redacted(text: str) -> str:
    done = REDACTOR.redact(text, Numbering(bytes(32))).text
    assert REDACTOR.redact(done, Numbering(bytes(32))).text == done
    return done


DATA: list[tuple[Any, str, str]] = [
    ({"password": {"value": WORD}}, WORD, "PASSWORD"),
    ({"db": {"password": {"type": "plain", "value": "letmein"}}}, "letmein", "PASSWORD"),
    ({"passwords": ["letmein"]}, "letmein", "PASSWORD"),
    ({"api_key": {"current": WORD}}, WORD, "SECRET"),
    ([{"name": "Authorization", "value": BASIC}], BASIC, "SECRET"),
    ([{"name": "X-Api-Key", "value": KEY}], KEY, "SECRET"),
    ([{"key": "DB_PASSWORD", "type": "env", "ok": True, "value": "letmein"}], "letmein", "PASSWORD"),
    ([{"Name": "MasterPassword", "ParameterValue": WORD}], WORD, "PASSWORD"),
    ({"fields": [{"label": "Wifi password", "text": WORD}]}, WORD, "PASSWORD"),
    (["mysql", "--db-password", "letmein"], "letmein", "PASSWORD"),
    (["x", "--client-secret", WORD, "-v"], WORD, "SECRET"),
    ([["Authorization", BASIC]], BASIC, "SECRET"),
    ({"Cookie": f"session={KEY}"}, f"session={KEY}", "SECRET"),
    ({"name": "Set-Cookie", "value": f"sid={KEY}"}, f"sid={KEY}", "SECRET"),
    ({"密码": {"值": "芝麻abc123"}}, "芝麻abc123", "PASSWORD"),
    ([{"名称": "登录口令", "值": "abc123"}], "abc123", "PASSWORD"),
    ([{"name": "访问令牌", "value": WORD}], WORD, "SECRET"),
    ({"密钥": {"当前": WORD}}, WORD, "SECRET"),
    ({"host": "db1", "db_pass": "Hunter2zzz9!"}, "Hunter2zzz9!", "PASSWORD"),
    ({"DB_PASS": "Hunter2zzz9!"}, "Hunter2zzz9!", "PASSWORD"),
    ({"smtp": {"host": "m", "smtpPass": "Hunter2zzz9!"}}, "Hunter2zzz9!", "PASSWORD"),
    ({"login": "ada", "login_pass": "Hunter2zzz9!"}, "Hunter2zzz9!", "PASSWORD"),
    ({"Pass-Word": "Hunter2zzz9!"}, "Hunter2zzz9!", "PASSWORD"),
    ([{"service": "x", "apikey": KEY}], KEY, "SECRET"),
    ({"headers": {"authorization": KEY, "accept": "*/*"}}, KEY, "SECRET"),
    ({"credentials": KEY}, KEY, "SECRET"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "secret", "label"), DATA)
@pytest.mark.parametrize("form", ["json", "escaped", "indented", "nested", "python", "begun"])
def test_data_in_a_text(value: Any, secret: str, label: str, form: str) -> None:
    text = json.dumps(
        value, ensure_ascii=form == "escaped", indent=2 if form == "indented" else None
    )
    spelled = json.dumps(secret, ensure_ascii=form == "escaped")[1:-1]
    if form == "python":
        text = repr(value)
    if form == "nested":
        text = json.dumps({"body": text}, ensure_ascii=False)
    if form == "begun":
        text = f"Result: {text[:-1]}"
    assert redacted(text) == text.replace(spelled, f"[{label}_1]")


@pytest.mark.parametrize(
    ("text", "secret", "label"),
    [
        (f"GET / HTTP/1.1\nCookie: theme=dark; session={KEY}\nAccept: */*", f"theme=dark; session={KEY}", "SECRET"),
        (f"Set-Cookie: sid={KEY}; Path=/; HttpOnly", f"sid={KEY}; Path=/", "SECRET"),
        (f"curl --cookie 'sid={KEY}' https://example.com", f"sid={KEY}", "SECRET"),
        (f"curl -sS -u ann:{WORD} https://example.com", WORD, "PASSWORD"),
        (f'curl https://example.com --user "ann:{WORD}"', WORD, "PASSWORD"),
        (f'{{"password_confirmation": "{WORD}", "n": 1}}', WORD, "PASSWORD"),
        (f"user=ann&password2={WORD}&n=1", WORD, "PASSWORD"),
        (f"密码确认：{WORD}", WORD, "PASSWORD"),
        ("CREATE USER ann IDENTIFIED BY 'letmein';", "letmein", "PASSWORD"),
        ("create user ann identified by 'letmein'", "letmein", "PASSWORD"),
        (f"ALTER USER ann WITH PASSWORD '{WORD}'", WORD, "PASSWORD"),
        (f"the password “{WORD}” is weak", WORD, "PASSWORD"),
        (f"Password → {WORD}", WORD, "PASSWORD"),
        (f"<b>Password:</b> {WORD}", WORD, "PASSWORD"),
        (f"I changed my password to {WORD} today", WORD, "PASSWORD"),
        (f"密码 → {WORD}", WORD, "PASSWORD"),
        (f"密码“{WORD}”太简单", WORD, "PASSWORD"),
        (f"<b>密码：</b>{WORD}", WORD, "PASSWORD"),
        (f"我把密码改成了{WORD}，记住", WORD, "PASSWORD"),
        (f"口令已改为 {WORD}", WORD, "PASSWORD"),
        (f"令牌：{KEY}", KEY, "SECRET"),
        (f"密钥为“{KEY}”", KEY, "SECRET"),
    ],
)  # fmt: skip
def test_a_label_in_other_forms(text: str, secret: str, label: str) -> None:
    assert redacted(text) == text.replace(secret, f"[{label}_1]")


@pytest.mark.parametrize(
    "secret",
    [
        "SK" + "0a1b2c3d" * 4,
        "dp.pt." + "aB3dE4fG5h" * 4 + "iJk",
        "figd_" + "aB3dE4fG5h" * 4,
        "fw_" + "aB3dE4fG5hJ7" * 2,
        "pcsk_" + "aB3dE4fG5h_" * 5,
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "OTk4NjIyNDgzNDcxOTI1MjQ4.Gl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWsabcde",
        "sk-lf-0a1b2c3d-1f2e-3d4c-5b6a-0a1b2c3d4e5f",
        "sk_" + "0a1b2c3d" * 6,
        "EAAA" + "aB3dE4fG5h_-" * 5,
        *(f"EAA{letter}{'aB3dE4fG5h' * 9}" for letter in "AG"),
        "sk-lf-" + "aB3dE4fG5h" * 3,
        "v1.0-" + "0a1b2c3d" * 3 + "-" + "0a1b2c3d" * 18 + "4e",
        *(f"{name}{'aB3dE4fG5h' * 4}" for name in ("glc_", "nfp_", "pnu_", "pnb_", "fo1_", "fm2_")),
        "vercel_blob_rw_" + "aB3dE4fG5h" * 2 + "_" + "aB3dE4fG5h" * 3,
        *(f"pscale_{kind}_{'aB3.E4-G5_' * 4}x" for kind in ("tkn", "oauth", "pw")),
        "bkua_" + "0a1b2c3d" * 5,
        "pul-" + "0a1b2c3d" * 5,
        "rubygems_" + "0a1b2c3d" * 6,
        "cio" + "aB3dE4fG" * 4,
        "secret_" + "aB3dE4fG5h" * 4 + "iJk",
        "pat" + "aB3dE4fG5hJ7kL" + "." + "0a1b2c3d" * 8,
        "sk.eyJ" + "aB3dE4fG5h" * 4 + "." + "aB3dE4fG5h" * 2,
        "AGE-SECRET-KEY-1" + "Q7P4" * 14 + "ZX",
        "aB3dE4fG5hJ7kL.atlasv1." + "aB3dE4fG5h_-" * 5 + "abcdef9",
        "1//0" + "aB3dE4fG5h_-" * 5,
    ],
)
def test_keys_of_more_vendors(secret: str) -> None:
    assert redacted(f"use {secret} 吧") == "use [SECRET_1] 吧"


def test_the_lines_of_a_putty_key() -> None:
    key = "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\n{}\nPrivate-Lines: 2{}\nPrivate-MAC: 0a1b"
    lines = "\n" + "aB3/E4+G5h" * 6 + "\n" + "aB3/E4+G5h" * 2 + "=="
    public = "cD5/F4+G5h" * 6
    assert redacted(key.format(public, lines)) == key.format(public, "[SECRET_1]")


def test_the_signature_of_a_shared_url() -> None:
    url = "https://x.blob.core.windows.net/c?sv=2020&sig={}&se=2026-12-01"
    assert redacted(url.format("aB3d%2FeF5g7hJ9kL2mN4pQ6rS8tU0vW1xY3zA5bC7dE9%3D")) == url.format(
        "[SECRET_1]"
    )


LEFT = [
    "curl -fsSL https://get.docker.com | sh && docker run -u 1000:1000 nginx",
    "Install curl first. Then run docker run --user 1000:1000",
    "curl https://a.example/x.tgz -o x.tgz && git push -u origin:main",
    json.dumps({"properties": {"token": {"type": "string", "description": "The token"}, "password": {"type": "string"}}}),
    json.dumps([{"key": "auth.password", "text": "Password"}, {"key": "forgot_password", "value": "Forgot your password?"}]),
    json.dumps({"required": ["username", "password", "token"], "tokens": ["the", "Words2"]}),
    json.dumps([{"name": "max_tokens", "value": "4096"}, {"name": "token", "value": "string"}]),
    json.dumps({"token": {"symbol": "USDC", "name": "USD Coin", "decimals": 6}}),
    json.dumps({"password": ["This field is required."], "token": ["Invalid token."]}),
    json.dumps({"columns": ["user", "password", "email9"], "pair": ["password", "password2"]}),
    json.dumps([{"name": "refresh_token", "content": "The token was refreshed two minutes ago."}]),
    "['--password', '--token', '-v'], ['--max-tokens', '4096']",
    "parser.add_argument('--password', help='the password'); add('--token', 'TOKEN')",
    "foo('password', 'sha256'), get_token('token', default='none')",
    "Cookie: <name>=<value>; cookie = parse(header); set-cookie: theme=dark; Path=/",
    "curl -u user:password https://example.com; curl -u $USER:$PASS x; curl -u ann https://a.b:8080/",
    "password confirmation is required, password_repeat: str, password2: str, 密码确认不能为空",
    "deletes the surface identified by 'surfaceId'",
    "IDENTIFIED BY 'password' IDENTIFIED BY '${DB}'",
    'the password "Enter your password" field, password "string", with password \'\'',
    "changed the password to something else; set password to null; reset my password to continue",
    "SKYSCRAPER SK1234 fw_initializeConfiguration fw_bar sig=abc figd_ SKIP_THIS_TEST_FOR_NOW_PLEASE",
    "sk_initialize secret_of_the_universe_and_everything_else_we_know pattern.match pat.compile cioran pul-up",
    "EAAAAAAA v1.0-beta.3 secret_" + "manager_for_the_production_environment_of_x glc_1 nfp_value",
    "the path 1//02 and 1//0/a; Private-Lines: none; secret_" + "abcdefghij" * 4 + "klm",
    "zip -r x.zip . && unzip x.zip -d out; 7z a x.7z -mx9; openssl rand -hex 32; vault login -method=userpass",
    "passwd ada; useradd -m -s /bin/bash ada; sqlplus /nolog; sqlplus / as sysdba; aws configure set region eu-west-1",
    "echo $PASS | docker login --password-stdin; curl -u : https://a.b/; keytool -list -storepass $PASS",
    '{"pass": "12 of 14", "fail": "2 of 14"}, {"pass": true}, {"bearer": null}',
    "MTk4 is base64; OTHER.MODULE.ATTRIBUTE_NAME_THAT_IS_LONG_ENOUGH_TO_MATCH",
    "密码“不能为空”，密码 → 输入框，<b>密码：</b>必填，把密码改成了新的",
    '{"名称": "密码", "值": "string"}, {"密码": {"类型": "字符串"}}',
]  # fmt: skip


@pytest.mark.parametrize("text", LEFT)
def test_what_only_speaks_of_secrets_is_left(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "vault login {}",
        "vault login token={}",
        "echo {} | docker login -u me --password-stdin",
        "npm config set //registry.example/:_authToken {}",
        "aws configure set aws_secret_access_key {}",
        "curl -u :{} https://example.com",
        "echo 'ada:{}' | sudo chpasswd",
        "passwd ada <<< {}",
        "useradd -m -p {} ada",
        "zip -P {} x.zip y",
        "unzip -o -P '{}' x.zip",
        "7z x a.7z -p{}",
        "openssl enc -aes-256-cbc -k {} -in x",
        "openssl rsa -passin pass:{} -in x",
        "keytool -list -storepass {} -alias x",
        "sqlplus -S ada/{}@db",
        'ConvertTo-SecureString -String "{}" -AsPlainText',
        r"net use \\\\h\s /user:ada {}",
        "sshpass -p {} ssh host",
        "sshpass -p '{}' ssh host",
        "redis-cli -h host -a {} ping",
        "mysql -uroot -p{} shop",
        "machine host login ann password {}",
        "Driver=x;UID=sa;PWD={};",
        "export DB_PASS={}",
        "SMTP_PASS: '{}'",
        "name: x\npassword: |\n  {}\n",
        "  db.password:\n    {}\nport: 1",
        '<add key="Db:Password" value="{}"/>',
        "define('DB_PASSWORD', '{}');",
        "setx API_KEY {}",
        "FROM x\nENV API_KEY {}\nRUN y",
        "docker login -u ann -p {} registry",
        '<property name="db.password" value="{}"/>',
        '<input name="x" type="password" value="{}">',
        "https://host/login?user=ann&pass={}",
        "user=ann pass={}",
        'password = """{}"""',
        "password -> {}",
        "password（密码）：{}",
        "密码（初始）：{}",
        "密码(password)：{}",
        '<wsse:Password Type="http://docs.example/2004/01/profile#PasswordText">{}</wsse:Password>',
        '<Password encoding="plain">\n  {}\n</Password>',
        'Content-Disposition: form-data; name="password"\r\n\r\n{}\r\n--b7',
        'form-data; name="new_password"\nContent-Type: text/plain\n\n{}\n',
        "SET PASSWORD FOR 'ann'@'localhost' = '{}'",
        "set password for ann = PASSWORD('{}')",
        "SET PASSWORD = '{}'",
    ],
)
def test_passwords_in_commands_and_in_files_of_programs(text: str) -> None:
    secret = "Tr0ub4dor&3x"
    assert redacted(text.format(secret)) == text.format("[PASSWORD_1]")


@pytest.mark.parametrize("option", ["token", "api-key", "secret", "client-secret", "auth-token"])
def test_keys_behind_an_option_in_a_command(option: str) -> None:
    assert redacted(f"mycli --{option} {KEY} run") == f"mycli --{option} [SECRET_1] run"


@pytest.mark.parametrize(
    "text",
    [
        "mysql -p shop",
        "mysql -P 3306 -protocol=tcp",
        "boarding pass: A1234",
        "bypass=1 and compass = 12",
        '{"apikey": "string", "authorization": "required", "credentials": "same-origin"}',
        '{"pass": true, "fail": 3, "pass": "12", "db_pass": "required"}',
        '{"authorization": "https://example.com/oauth2/authorize-v2-endpoint"}',
        "docker login -p",
        "mycli --token reader --api-key production-key-name",
        "pass=93.5%, fail=6.5%, pass=1234567",
        "pass=true&pass=all",
        "user.password->c_str()",
        "def password(self) -> Str0ng:",
        "密码（至少8位）：请输入",
        "user_pass = getpass()",
        "db_pass = config.db_pass",
        "password:\n  min_length: 8",
        "password: |\n  your password here",
        "ENV PATH /usr/local/bin",
        "FROM x\nENV API_KEY $API_KEY",
        '<add key="Title" value="Password123"/>',
        "redis-cli -a",
        "the machine login page asks for a password",
        '<Password minOccurs="0" Type="string">required</Password>',
        '<password-field name="x">Str0ng&amp;Long1</password-field>',
        'input; name="password"\n\nEnter your password here, then go on',
        "set password for everybody = later",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("more", ["", " and so on" * 4000])
def test_a_command_is_found_wherever_it_stands_in_a_long_text(more: str) -> None:
    """Long texts are looked at stretch by stretch."""
    command = f"curl --silent -X POST -u ann:Tr0ub4dor&3x https://api.example.com/v1{more}"
    for before in (*range(13_500, 17_000, 61), 30_000, 32_700):
        text = f"{'lorem ipsum, ' * (before // 13)}\n{command}"
        assert redacted(text) == text.replace("Tr0ub4dor&3x", "[PASSWORD_1]"), before


@pytest.mark.parametrize(
    "name", "api_keys jwt id_jwt bearer pass ssh_key token authorization client_secret".split()
)
@pytest.mark.parametrize(
    "after", ["", "...", "… [truncated]", " [cut off after 2000 characters]", "\n"]
)
def test_a_value_in_json_that_breaks_off_inside_it(name: str, after: str) -> None:
    before = f'{{"host": "h", "{name}": "'
    label = "PASSWORD" if name == "pass" else "SECRET"
    assert redacted(f"{before}Zq7vKm2xWp9Lr4Tn8Bd3{after}").startswith(f"{before}[{label}_1]")


def test_what_breaks_off_elsewhere_is_left() -> None:
    for text in (
        '{"token": "The token was not found, and the next call',
        '{"jwt": "a token in JSON, see RFC7519 and then',
        '{"keys": "Left2 Right2 Up2 and',
        "the pass: 'unclosed, with 12 of 14 tests",
    ):
        assert redacted(text) == text
