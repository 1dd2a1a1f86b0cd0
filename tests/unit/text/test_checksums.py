"""What tells a card or an identity number from any number."""

from __future__ import annotations

from ce_engine.text.redaction import checksums


def test_an_identity_card_has_a_province_and_a_birthday() -> None:
    assert checksums.chinese_identity_shape("110105194912310021")
    for province in ("00", "16", "20", "47", "99"):
        assert not checksums.chinese_identity_shape(f"{province}0105194912310021")
    for born in ("19490230", "19491301", "18000101", "21500101"):
        assert not checksums.chinese_identity_shape(f"110105{born}0021")


def test_a_card_has_the_length_of_its_network() -> None:
    assert checksums.bank_card("4111111111111111")
    for other in ("411111111111116", "9111111111111111"):
        right = other[:-1] + next(d for d in "0123456789" if checksums.luhn(other[:-1] + d))
        assert not checksums.bank_card(right)
