"""What a key names is taken out wherever its value stands: deeper, beside it, behind it in a list."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


REDACTOR = PatternRedactor()
WORD = "hunter2Xq!"
KEY = "PKR0CsTy4Qwb8DwkNhFdnXsiVpzz63FfkCzJr4i0"
BASIC = "Basic YW5uOmh1bnRlcjI="


def redacted(value: Any) -> Any:
    done = REDACTOR.redact_json(value, Numbering(bytes(32))).value
    assert REDACTOR.redact_json(done, Numbering(bytes(32))).count == 0
    return done


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": {"value": WORD}}, {"password": {"value": "[PASSWORD_1]"}}),
        ({"password": {"value": 12345678}}, {"password": {"value": "[PASSWORD_1]"}}),
        ({"password": {"old": "letmein", "new": WORD}}, {"password": {"old": "[PASSWORD_1]", "new": "[PASSWORD_2]"}}),
        ({"password": {"hash": "5f4dcc3b5aa765d6"}}, {"password": {"hash": "[PASSWORD_1]"}}),
        ({"password": [{"text": WORD}]}, {"password": [{"text": "[PASSWORD_1]"}]}),
        ({"secret": {"data": {"k": KEY}}}, {"secret": {"data": {"k": "[SECRET_1]"}}}),
        ({"credentials": {"secret": {"current": WORD}}}, {"credentials": {"secret": {"current": "[SECRET_1]"}}}),
        ({"access_token": {"value": WORD, "ttl": 60}}, {"access_token": {"value": "[SECRET_1]", "ttl": 60}}),
        ({"passwords": [{"v": WORD}]}, {"passwords": [{"v": "[PASSWORD_1]"}]}),
        ({"passwords": {"ann": "letmein"}}, {"passwords": {"ann": "[PASSWORD_1]"}}),
        ({"passwords": ["letmein"]}, {"passwords": ["[PASSWORD_1]"]}),
        ({"secrets": {"db": KEY}}, {"secrets": {"db": "[SECRET_1]"}}),
        ({"tokens": {"refresh": KEY}}, {"tokens": {"refresh": "[SECRET_1]"}}),
        ({"password_confirmation": "letmein"}, {"password_confirmation": "[PASSWORD_1]"}),
        ({"passwordRepeat": "letmein", "password2": "letmein"}, {"passwordRepeat": "[PASSWORD_1]", "password2": "[PASSWORD_1]"}),
        ({"密码确认": "芝麻开门"}, {"密码确认": "[PASSWORD_1]"}),
        ([{"name": "password_confirmation", "value": WORD}], [{"name": "password_confirmation", "value": "[PASSWORD_1]"}]),
        ({"密码": {"值": "abc123"}}, {"密码": {"值": "[PASSWORD_1]"}}),
        ({"登录口令": {"内容": "芝麻开门"}}, {"登录口令": {"内容": "[PASSWORD_1]"}}),
        ({"访问令牌": {"当前": KEY}}, {"访问令牌": {"当前": "[SECRET_1]"}}),
        ({"密钥": {"数据": {"一": KEY}}}, {"密钥": {"数据": {"一": "[SECRET_1]"}}}),
    ],
)  # fmt: skip
def test_what_stands_in_an_object_under_the_name_of_a_secret(value: Any, expected: Any) -> None:
    assert redacted(value) == expected


PAIRS = [
    ({"name": "Authorization", "value": BASIC}, "value", "SECRET"),
    ({"name": "X-Api-Key", "value": KEY}, "value", "SECRET"),
    ({"key": "DB_PASSWORD", "value": WORD}, "value", "PASSWORD"),
    ({"key": "DB_PASSWORD", "value": "letmein"}, "value", "PASSWORD"),
    ({"value": "letmein", "type": "text", "name": "password"}, "value", "PASSWORD"),
    ({"label": "Password", "text": WORD}, "text", "PASSWORD"),
    ({"field": "client_secret", "content": WORD}, "content", "SECRET"),
    ({"Name": "MasterPassword", "Value": WORD}, "Value", "PASSWORD"),
    ({"ParameterKey": "DBPassword", "ParameterValue": WORD}, "ParameterValue", "PASSWORD"),
    ({"in": "header", "name": "api_key", "example": KEY}, "example", "SECRET"),
    ({"id": "pw", "label": "Wifi password", "answer": "correct horse"}, "answer", "PASSWORD"),
    ({"name": "Set-Cookie", "value": f"sid={KEY}; Path=/"}, "value", "SECRET"),
    ({"name": "phone", "value": "4155552671"}, "value", "PHONE"),
    ({"name": "password", "value": 12345678}, "value", "PASSWORD"),
    ({"名称": "密码", "值": "abc123"}, "值", "PASSWORD"),
    ({"字段": "登录口令", "内容": "芝麻开门"}, "内容", "PASSWORD"),
    ({"参数": "访问令牌", "值": WORD}, "值", "SECRET"),
    ({"name": "密钥", "value": WORD}, "value", "SECRET"),
]


@pytest.mark.parametrize(("pair", "place", "label"), PAIRS)
def test_a_name_and_its_value_in_two_fields(pair: dict[str, Any], place: str, label: str) -> None:
    assert redacted([pair]) == [pair | {place: f"[{label}_1]"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["mysql", "--password", WORD], ["mysql", "--password", "[PASSWORD_1]"]),
        (["--db-password", "letmein", "-v"], ["--db-password", "[PASSWORD_1]", "-v"]),
        (["-token", WORD], ["-token", "[SECRET_1]"]),
        (["--api-key", KEY], ["--api-key", "[SECRET_1]"]),
        ([f"--token={WORD}"], ["--token=[SECRET_1]"]),
        (["--password=letmein"], ["--password=[PASSWORD_1]"]),
        (["--密码", "abc123"], ["--密码", "[PASSWORD_1]"]),
        ([["Authorization", BASIC], ["Accept", "*/*"]], [["Authorization", "[SECRET_1]"], ["Accept", "*/*"]]),
        ({"headers": [("X-Api-Key", KEY)]}, {"headers": [["X-Api-Key", "[SECRET_1]"]]}),
        ([["令牌", KEY]], [["令牌", "[SECRET_1]"]]),
        ({"Cookie": f"theme=dark; session={KEY}"}, {"Cookie": "[SECRET_1]"}),
        ({"set-cookie": ["sid=a1; Path=/"]}, {"set-cookie": ["[SECRET_1]"]}),
        ({"cookies": {"theme": "dark", "sid": KEY}}, {"cookies": {"theme": "dark", "sid": "[SECRET_1]"}}),
        ({"cookies": [{"name": "sid", "value": KEY}]}, {"cookies": [{"name": "sid", "value": "[SECRET_1]"}]}),
    ],
)  # fmt: skip
def test_options_headers_and_cookies(value: Any, expected: Any) -> None:
    assert redacted(value) == expected


LEFT: list[Any] = [
    {"question": "怎样找回登录密码", "answer": "请打开设置，选择“账号与安全”，然后点“找回”。"},
    {"name": "令牌", "text": "玩家每回合获得一枚，可以用来购买建筑。"},
    {"key": "login.password", "value": "密码错误"},
    {"label": "TOKEN", "text": "running"},
    {"question": "where is my API token", "answer": "Settings"},
    {"name": "Secret", "content": "Agent."},
    {"header": "Token", "value": "Hello"},
    {"properties": {"token": {"type": "string", "description": "The token to use", "title": "Token"}}},
    {"properties": {"password": {"type": "string", "format": "password", "minLength": 8, "writeOnly": True}}},
    {"password": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "enum": ["a1", "b2"]}},
    {"password": {"label": "Password", "placeholder": "Enter your password", "rules": "required|min:8"}},
    {"password": {"strength": "strong", "changed_at": "2026-01-01T00:00:00Z", "length": 12, "expired": False}},
    {"password": {"reset": "We have e-mailed your reset link!", "user": "We cannot find that user."}},
    {"token": {"symbol": "USDC", "name": "USD Coin", "decimals": 6, "chain": "base"}},
    {"token": {"id": 7, "scope": "read", "created_at": "2026-01-01T00:00:00Z", "url": "https://example.com/v1"}},
    {"authorization": {"roles": ["admin", "user"], "policy": "default", "enabled": "yes"}},
    {"credentials": {"username": "ann", "type": "oauth2"}},
    {"tokens": ["kept", "the", "Words2"]},
    {"tokens": [{"text": "Hello", "pos": "NN"}], "usage": {"tokens": {"input": 5, "output": 7}}},
    {"secrets": ["db-password", "api-key"]},
    {"secrets": {"db_password": {"file": "./db_password.txt"}}},
    {"secretKeyRef": {"name": "mysql", "key": "password"}},
    {"required": ["username", "password", "token"]},
    [["user", "password"], ["token", "email"], ["password", "password2"]],
    {"fieldsets": [["password1", "password2"]]},
    ["password", "hello", "token", "world"],
    ["--password", "--token", "-v"],
    ["--max-tokens", "4096", "--next-page-token", "abc"],
    ["--password-file", "secrets.txt", "--token-limit=20"],
    {"name": "max_tokens", "value": 4096},
    {"name": "password", "value": "string", "type": "string"},
    {"name": "password", "value": ""},
    {"key": "auth.password", "text": "Password"},
    {"key": "auth.forgot_password", "text": "Forgot your password?"},
    {"label": "Reset password", "value": "daily"},
    {"name": "refresh_token", "content": "The token was refreshed two minutes ago."},
    {"name": "Ann", "content": "Hello, how are you?"},
    {"name": "api_key", "value": "${API_KEY}"},
    {"name": "password", "value": None, "text": True},
    {"cookie": "chocolate chip", "cookies": {"flavour": "oat"}, "cookie_policy": "a=b"},
    {"名称": "密码", "值": "string"},
    {"字段": "密码提示", "内容": "我的生日"},
    {"密码": {"类型": "字符串", "说明": "登录时输入"}},
]  # fmt: skip


@pytest.mark.parametrize("value", LEFT, ids=str)
def test_what_only_speaks_of_secrets_is_left(value: Any) -> None:
    done = REDACTOR.redact_json(value, Numbering(bytes(32)))
    assert (done.value, done.count) == (_as_lists(value), 0)


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value
