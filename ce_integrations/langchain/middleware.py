"""Context engineering as a middleware of `create_agent`, for those who build their agent themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables.config import ensure_config

from ce_engine import BudgetConfig, ContextEngine, Report, RuntimeConfig, Scope, Store
from ce_integrations.identity.session import IdChoice, ScopeChoice
from ce_integrations.langchain.installer import ADAPTER
from ce_integrations.langchain.marks import Carrier, mark_of, tree
from ce_integrations.wrapping.guard import Fail


class CEMiddleware(AgentMiddleware[Any, Any], Carrier):
    """Brings context engineering into one agent: `create_agent(model, tools, middleware=[CEMiddleware()])`.

    In effect it is `install_ce(agent)`: it takes the same options, and where both are used, or the
    model has an installation of its own, each call is prepared once, by the outermost. Put it first
    in the list. It adds no node to the graph and no keys to its state.

    Attributes:
        installation: as `install_ce` gives it; `uninstall()` makes the middleware silent.

    Raises:
        ConfigError: options contradict each other.
        UnsupportedVersionError: the release of langchain-core is outside the supported range.
        StoreUrlError: the store's URL is not understood.
    """

    def __init__(  # noqa: PLR0913 - one parameter an option
        self,
        *,
        engine: ContextEngine | None = None,
        store: Store | str | None = None,
        config: RuntimeConfig | None = None,
        budget: int | BudgetConfig | None = None,
        scope: ScopeChoice = None,
        session_id: IdChoice = None,
        user_id: IdChoice = None,
        fail: Fail = "open",
        history: bool | None = None,
    ) -> None:
        super().__init__()
        self.installation = ADAPTER.install_ce(
            self,
            engine=engine,
            store=store,
            config=config,
            budget=budget,
            scope=scope,
            session_id=session_id,
            user_id=user_id,
            fail=fail,
            history=history,
        )

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Go on with the call; what it is sent is prepared where the model is called."""
        self._claim()
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Go on with the call; what it is sent is prepared where the model is called."""
        self._claim()
        return await handler(request)

    def __deepcopy__(self, memo: object) -> CEMiddleware:
        return self  # as a model's deep copy stays in its installation, whose engine has no copy

    def _claim(self) -> None:
        """Take over the agent's run; not its graph, which the middleware is not told of."""
        with self.installation.hooks.guard("middleware"):
            mark, callbacks = mark_of(self.callbacks), ensure_config().get("callbacks")
            run_id = getattr(callbacks, "parent_run_id", None)
            if mark is not None and isinstance(callbacks, BaseCallbackManager) and run_id:
                tree.claim(run_id, mark)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded so far is stored; false if it is not in time."""
        return self.installation.flush(timeout_s)

    def last_report(self, session: Scope | str) -> Report | None:
        """The newest report of a session, as `installation.last_report` gives it."""
        return self.installation.last_report(session)

    def uninstall(self) -> None:
        """Let the agent go on without it. Again, it does nothing."""
        self.installation.uninstall()
