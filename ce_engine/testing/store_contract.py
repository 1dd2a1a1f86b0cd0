"""What every store must do, as tests: subclass `StoreContract` and give it a `store` fixture."""

from __future__ import annotations

from ce_engine.testing.store_behaviour import BehaviourContract
from ce_engine.testing.store_documents import DocumentContract
from ce_engine.testing.store_writes import WritesContract


class StoreContract(WritesContract, DocumentContract, BehaviourContract):
    """Everything that `ports.Store` promises.

    A subclass gives a fixture `store`: an empty store, closed by the fixture afterwards.
    """
