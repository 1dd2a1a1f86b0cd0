"""What every store must do, as tests: subclass `StoreContract` and give it a `store` fixture."""

from __future__ import annotations

from ce_engine.testing.store_behaviour import BehaviourContract
from ce_engine.testing.store_deletion import DeletionContract
from ce_engine.testing.store_documents import DocumentContract
from ce_engine.testing.store_settings import SettingsContract
from ce_engine.testing.store_summaries import SummariesContract
from ce_engine.testing.store_writes import WritesContract


class StoreContract(
    WritesContract,
    DocumentContract,
    BehaviourContract,
    DeletionContract,
    SettingsContract,
    SummariesContract,
):
    """Everything that `ports.Store` promises.

    A subclass gives a fixture `store`: an empty store, closed by the fixture afterwards; and
    `bytes_of(store)`: all bytes that it keeps, for what must not be there any more.
    """
