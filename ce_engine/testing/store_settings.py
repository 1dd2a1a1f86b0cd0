"""What owners set, as tests of stores: exact keys, versions, one cheap read, deletion (D-04, D-06, B-08)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ce_engine.errors import VersionConflictError
from ce_engine.ports.store import Store
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.testing.samples import SCOPE, message


CANARY = "canary"
MINE = replace(SCOPE, project_id="p")
OTHERS = (
    replace(MINE, account_id="other"),
    replace(MINE, user_id="other"),
    replace(MINE, user_id=""),
    replace(MINE, project_id="other"),
    replace(MINE, project_id=""),
)
VALUES: list[Any] = [0, "", [], {}, False, "字\x00\ud83d", {"a": [1, None, {"字": 2.5}]}]


async def _read_setting(store: Store, scope: Scope) -> tuple[Any, int]:
    """Value and version of the setting `x`; what a store without MACs says of its standing is the store's own."""
    setting = await store.get_setting(scope, "x")
    assert setting is not None
    return setting.value, setting.version


class SettingsContract:
    """Settings: named values of (account, user, project), beside all sessions."""

    pytestmark = pytest.mark.anyio

    def bytes_of(self, store: Store) -> bytes:
        """All bytes that the store keeps."""
        raise NotImplementedError

    @pytest.mark.req("D-04", "D-06")
    async def test_a_setting_comes_back_with_its_version(self, store: Store) -> None:
        assert await store.get_setting(MINE, "x") is None
        for version, value in enumerate(VALUES, start=1):
            assert await store.put_setting(MINE, "x", value) == version
            assert await _read_setting(store, MINE) == (value, version)
        assert await store.get_setting(MINE, "y") is None

    async def test_what_was_put_and_what_comes_back_are_nobody_elses_objects(
        self, store: Store
    ) -> None:
        value = {"items": [1]}
        await store.put_setting(MINE, "x", value)
        value["items"].append(2)
        setting = await store.get_setting(MINE, "x")
        assert setting is not None
        setting.value["items"].append(3)
        assert await _read_setting(store, MINE) == ({"items": [1]}, 1)

    @pytest.mark.req("B-03", "D-10")
    async def test_settings_are_of_exactly_one_owner_and_project(self, store: Store) -> None:
        await store.put_setting(MINE, "x", "mine")
        for other in OTHERS:
            assert await store.get_setting(other, "x") is None
            assert await store.version(other) == Versions()
        another = Scope(session_id="another", user_id="u", account_id="a", project_id="p")
        another = replace(another, user_id=MINE.user_id, account_id=MINE.account_id)
        assert await _read_setting(store, another) == ("mine", 1)

    @pytest.mark.req("D-04")
    async def test_a_stale_version_overwrites_nothing(self, store: Store) -> None:
        await store.put_setting(MINE, "x", "first", expected_version=0)
        for stale in (0, 2):
            with pytest.raises(VersionConflictError, match=f"version 1, expected {stale}"):
                await store.put_setting(MINE, "x", "lost", expected_version=stale)
        assert await _read_setting(store, MINE) == ("first", 1)
        assert await store.put_setting(MINE, "x", "second", expected_version=1) == 2

    @pytest.mark.req("D-04")
    async def test_of_two_that_write_at_once_one_wins(self, store: Store) -> None:
        async def write(n: int) -> bool:
            try:
                await store.put_setting(MINE, "x", n, expected_version=0)
            except VersionConflictError:
                return False
            return True

        won = await asyncio.gather(*(write(n) for n in range(8)))
        assert sum(won) == 1
        assert await _read_setting(store, MINE) == (won.index(True), 1)

    async def test_one_read_tells_what_moved(self, store: Store) -> None:
        await store.put_setting(MINE, "x", 1)
        assert await store.version(MINE) == (0, 0, 1)
        await store.apply(MINE, message("m1"))
        await store.put_setting(MINE, "y", 1)
        await store.put_setting(OTHERS[-1], "y", 1)
        assert await store.version(MINE) == (1, 0, 2)
        session = Scope(session_id="new", user_id=MINE.user_id, account_id=MINE.account_id)
        assert await store.version(replace(session, project_id="p")) == (0, 0, 2)

    async def test_no_value_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="None"):
            await store.put_setting(MINE, "x", None)

    @pytest.mark.req("A-30", "B-08")
    async def test_deleted_settings_are_in_no_byte_and_their_versions_go_on(
        self, store: Store
    ) -> None:
        for scope in (MINE, *OTHERS):
            await store.put_setting(scope, "x", "keep" if scope.user_id != MINE.user_id else CANARY)
        await store.put_setting(OTHERS[0], "x", "keep")
        await store.put_setting(MINE, "y", CANARY * 5000)
        before = await store.version(MINE)
        assert await store.delete_settings(MINE.account_id, MINE.user_id) == 4
        await store.purge()
        assert await store.get_setting(MINE, "x") is None
        assert CANARY.encode() not in self.bytes_of(store)
        assert await _read_setting(store, OTHERS[0]) == ("keep", 2)
        assert await _read_setting(store, OTHERS[1]) == ("keep", 1)
        # Whoever remembers the values of before must see that they are gone, and what comes after.
        assert (await store.version(MINE)).settings > before.settings
        assert await store.put_setting(MINE, "x", "new", expected_version=0) == 3
        assert await store.delete_settings("nobody", "nobody") == 0
