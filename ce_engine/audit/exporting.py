"""Gives a person what is stored of them (B-08)."""

from __future__ import annotations

from dataclasses import asdict

from ce_engine.audit.reading import see_whole
from ce_engine.errors import StoreError
from ce_engine.runtime.waiting import STORE_S, answered
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.scope import Scope
from ce_engine.schema.user_export import SessionExport, SettingExport, UserExport
from ce_engine.stores.base import BaseStore
from ce_engine.turns.engine_base import EngineBase


class ExportMethods(EngineBase):
    """The part of the engine that exports."""

    async def export_user_data(self, account_id: str, user_id: str) -> UserExport:
        """All sessions and settings of exactly this user, of every project, ephemeral ones too.

        Originals in a second store are none of it: `engine.original` gives them, one by one.

        Raises:
            FileDamagedError: a session of this user's cannot be read; nothing is exported.
            StoreError: the store is somebody's own, and cannot list what owners set.
            StoreUnavailableError: the store cannot be read now.
        """
        return await self.loop.share(self._exported(account_id, user_id))

    async def _exported(self, account_id: str, user_id: str) -> UserExport:
        await self._land_all(STORE_S)
        await see_whole(self.store, account_id, user_id)
        listed = await answered(
            self.store.list_sessions(account_id=account_id, user_id=user_id, ephemeral=True)
        )
        infos = [
            info for info in listed if (info.account_id, info.user_id) == (account_id, user_id)
        ]
        sessions = [session for info in infos if (session := await self._session(info)) is not None]
        if not isinstance(self.store, BaseStore):
            raise StoreError(f"the store {self.store.url!r} cannot list what owners set")
        settings = [
            SettingExport(
                project_id=project, name=name, value=setting.value, standing=setting.standing
            )
            for (account, user, project, name), setting in (
                await answered(self.store.list_settings())
            ).items()
            if (account, user) == (account_id, user_id)
        ]
        return UserExport(
            exported_at=self.clock.now_iso(),
            account_id=account_id,
            user_id=user_id,
            sessions=sessions,
            settings=settings,
        )

    async def _session(self, info: SessionInfo) -> SessionExport | None:
        """One of them; `None` where it was deleted meanwhile."""
        plain = Scope.of_stored(info.account_id, info.user_id, info.session_id)
        chain = await answered(self.store.chain(plain))
        project = chain.head.project_id if chain is not None else ""
        scope = Scope.of_stored(*plain.key, project)
        document = await answered(self.store.get_session(scope))
        if document is None or chain is None:
            return None
        turns = await answered(self.store.list_turns(scope))
        return SessionExport(
            project_id=project,
            ephemeral=info.ephemeral,
            frameworks=info.frameworks,
            created_at=info.created_at,
            updated_at=info.updated_at,
            document=document,
            turns=[asdict(turn) for turn in turns],
            events=chain.events,
        )
