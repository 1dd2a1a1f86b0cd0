"""The bytes that a row's MAC is of are the same in every Python that we run on: files outlive it (B-01)."""

from __future__ import annotations

import pytest

from ce_engine.stores.tables.macs import CONTENT, RowKey
from ce_engine.stores.tables.tables import messages


ROW = (1, "消息 one", b"\x00\xff", None, 2.5, 2**40, True, "plain")


@pytest.mark.req("B-01")
def test_the_mac_of_a_row_is_what_it_was_in_every_python() -> None:
    content = CONTENT[messages]
    row = (*ROW, *(None for _ in content.names[len(ROW) :]))
    tag, mac = RowKey(bytes(32)).of(content, row)
    assert (tag.hex(), mac.hex()) == ("981c98e8230c5294", "b3035577e88fc534062a3203")
