"""The value of a key or option that names a secret goes out of texts, too, though it is short or made of letters alone."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable

import pytest

from ce_engine import RuntimeConfig, Scope, create_context_engine
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


REDACTOR = PatternRedactor()
SECRETS = (
    "VonUgcPRZFFnlh33", "xuByFjlXrvuo", "JTsZvaQSwdcx", "68sypsx23Hln", "RbgQNYsvjLZXACRZ", "hzdUHsWnIsaDBxtZ",
    "Xq7Lm2Za", "aB3dE4fG5h", "k3j9x2qp", "qwkjhgxzvbnm", "48213907", "Zq7-kP_4", "a1b2c3", "hunter2Xq!",
)  # fmt: skip
NAMES = (
    "apiKey", "api_key", "x-api-key", "secretAccessKey", "clientSecret", "accessToken", "access_token", "privateKey",
    "secret", "token", "authorization", "credentials", "apitoken", "authtoken", "bearertoken", "sessiontoken",
    "refreshtoken", "accesskey", "clientsecret", "mytoken", "appsecret",
)  # fmt: skip


def redacted(text: str) -> str:
    done = REDACTOR.redact(text, Numbering(bytes(32))).text
    assert REDACTOR.redact(done, Numbering(bytes(32))).text == done
    return done


FORMS: dict[str, Callable[[str, str], str]] = {
    "json": lambda name, secret: json.dumps({"n": 1, name: secret, "ok": True}),
    "indented": lambda name, secret: json.dumps({"n": 1, name: secret}, indent=2),
    "nested": lambda name, secret: json.dumps({"body": json.dumps({name: secret})}),
    "python": lambda name, secret: repr({name: secret}),
    "begun": lambda name, secret: f'Result: {{"n": 1, "{name}": "{secret}',
    "listed": lambda name, secret: json.dumps({name: [secret]}),
    "paired": lambda name, secret: json.dumps([{"name": name, "value": secret}]),
}


@pytest.mark.req("A-19", "B-04")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_of_any_form_under_its_name(name: str, form: str) -> None:
    for secret in SECRETS:
        text = FORMS[form](name, secret)
        assert redacted(text) == text.replace(secret, "[SECRET_1]")


@pytest.mark.parametrize("name", ["dbpass", "db_pass", "userpwd", "mypasswd", "password"])
@pytest.mark.parametrize("form", FORMS)
def test_a_password_of_any_form_under_its_name(name: str, form: str) -> None:
    for secret in SECRETS:
        text = FORMS[form](name, secret)
        assert redacted(text) == text.replace(secret, "[PASSWORD_1]")


@pytest.mark.parametrize("length", [8, 10, 12, 16, 20, 32])
def test_few_secrets_by_chance_stay(length: int) -> None:
    signs, chance = string.ascii_letters + string.digits, random.Random(length)
    secrets = ["".join(chance.choices(signs, k=length)) for _ in range(1000)]
    stay = [secret for secret in secrets if secret in redacted(json.dumps({"apiKey": secret}))]
    assert len(stay) <= (5 if length < 12 else 1)


@pytest.mark.parametrize("name", ["apitokens", "access_tokens", "apiKeys", "clientSecrets"])
def test_each_of_many_under_their_name(name: str) -> None:
    done = REDACTOR.redact_json({name: ["Xq7Lm2Za", "k3j9x2qp"]}, Numbering(bytes(32)))
    assert done.value == {name: ["[SECRET_1]", "[SECRET_2]"]}


@pytest.mark.parametrize(
    "option",
    [
        "access_token", "client_secret", "api_key", "auth_token", "refresh_token", "aws_secret_access_key",
        "token", "api-key", "apitoken", "sessiontoken",
    ],
)  # fmt: skip
@pytest.mark.parametrize("operator", [" ", "="])
def test_a_secret_of_any_form_behind_an_option(option: str, operator: str) -> None:
    for secret in SECRETS:
        if not secret.isdigit():
            text = f"mycli --{option}{operator}{secret} run"
            assert redacted(text) == f"mycli --{option}{operator}[SECRET_1] run"


def test_a_password_behind_an_option_with_an_underscore() -> None:
    assert redacted("mycli --db_password Tr0ub4dor -v") == "mycli --db_password [PASSWORD_1] -v"


LEFT = [
    *('{"apikey": "string", "token": "required", "credentials": "same-origin"}', '{"token": "Hello", "logprob": -0.1}'),
    *('{"token": " configuration"}', '{"token": "getElementById"}', '{"token": "()));"}', '{"token": "2023"}'),
    *('{"output_token": "NextPageMarker"}', '{"input_token": "ExclusiveStartKey"}', '{"token": "12:30:45"}'),
    *('{"OPENAI_API_KEY": "OpenAI"}', '{"DEEPSEEK_API_KEY": "DeepSeek"}', '{"api_key": "OPENAI_API_KEY"}'),
    *('{"secret": "production-db-2"}', '{"secret": "/run/secrets/db1"}', '{"token": "https://example.com/v1/a1b2"}'),
    *('{"token": "{{ token_1 }}"}', '{"apiKey": "${API_KEY_1}"}', '{"apiKey": "your-api-key-1"}', '{"token": "token1"}'),
    *('{"secret": "sha256"}', '{"token": "base64url"}', '{"token": "250milliseconds"}', '{"token": "2026-01-02"}'),
    *('{"nextPageToken": "Xq7Lm2Za"}', '{"max_token": "128000"}', '{"monkey": "Xq7Lm2Za"}', '{"compass": "Xq7Lm2Za"}'),
    *('{"oldpwd": "/home/ann1/x"}', '{"accessToken": "Zugriffstoken"}', '{"apiKey": "Clé d’API"}', '{"token": null}'),
    *("mycli --token reader --api_key production-key-name", "--max_tokens 409600 --token_limit=20 --token-file a1b2c3"),
    *("mycli --access_token $TOKEN1 --api_key <KEY_1> --secret {secret1}", "monkey=a1b2c3d4e5f6g7h8i9"),
]  # fmt: skip


@pytest.mark.parametrize("text", LEFT)
def test_words_places_and_templates_are_left(text: str) -> None:
    assert redacted(text) == text


def test_the_results_of_tools_are_stored_without_the_secrets_in_their_json() -> None:
    engine = create_context_engine("memory://", config=RuntimeConfig())
    scope = Scope(session_id="s", user_id="u")
    app = HostApp(engine, scope)
    prepared = app.prepare(user("go"))
    app.commit(prepared, tool_calls(("c", "read", {})))
    result = json.dumps({"apiKey": SECRETS[0], "apitoken": SECRETS[1], "ok": True})
    prepared = app.prepare(tool_result("c", result), new_request=False)
    app.commit(prepared, assistant("done"))
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    engine.sync.close()
    assert document is not None
    stored = [message.content for message in document.session.messages]
    assert '{"apiKey": "[SECRET_1]", "apitoken": "[SECRET_2]", "ok": true}' in stored
