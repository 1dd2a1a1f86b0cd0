"""The suites of the ports: our own parts keep them, and each sees parts that do not (A-26, A-27)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ce_engine import (
    AssembledInput,
    BlockRenderer,
    CharBasedEstimator,
    ContextBlock,
    ContextPiece,
    Event,
    InMemoryEventBus,
    InputAssembler,
    LlmRequest,
    LlmResponse,
    RedactResult,
    RenderedBlock,
    RuleIngestor,
    Scope,
    SessionDeriver,
    Sha256Hasher,
    SourceKind,
    SystemClock,
    TiktokenEstimator,
    UuidV4Generator,
)
from ce_engine.schema.ids import Sha256Hasher as DefaultHasher
from ce_engine.testing import (
    AssemblerContract,
    BlockDeriverContract,
    ClockContract,
    ContextSourceContract,
    EmbedderContract,
    EventBusContract,
    EvidenceIngestorContract,
    HasherContract,
    IdGeneratorContract,
    IdsInOrder,
    LlmAdapterContract,
    MockLlmAdapter,
    RedactorContract,
    RendererContract,
    TokenEstimatorContract,
)
from ce_engine.testing.block_contracts import Resolver
from ce_engine.text.redaction.redact import PatternRedactor
from tests.hosts.embed_host import Failing, Subjects


pytestmark = pytest.mark.req("A-27")
ESTIMATOR = CharBasedEstimator()


class Notes:
    """A source as the docs show one."""

    name = "notes"
    section = "knowledge__context"

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        texts = [f"{query} {n}" for n in range(9)]
        return [ContextPiece(text, score=0.5, user_id=scope.user_id) for text in texts][:limit]


class TestMockLlmAdapter(LlmAdapterContract):
    @pytest.fixture
    def llm_adapter(self) -> MockLlmAdapter:
        return MockLlmAdapter()


class TestClock(ClockContract):
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()


class TestIdGenerator(IdGeneratorContract):
    @pytest.fixture
    def id_generator(self) -> UuidV4Generator:
        return UuidV4Generator()


class TestIdsInOrder(IdGeneratorContract):
    @pytest.fixture
    def id_generator(self) -> IdsInOrder:
        return IdsInOrder()


class TestHasher(HasherContract):
    @pytest.fixture
    def hasher(self) -> Sha256Hasher:
        return Sha256Hasher()


class TestEventBus(EventBusContract):
    @pytest.fixture
    def event_bus(self) -> InMemoryEventBus:
        return InMemoryEventBus()


class TestTokenEstimator(TokenEstimatorContract):
    @pytest.fixture(params=[CharBasedEstimator, TiktokenEstimator])
    def token_estimator(self, request: pytest.FixtureRequest) -> Any:
        return request.param()


class TestRedactor(RedactorContract):
    @pytest.fixture
    def redactor(self) -> PatternRedactor:
        return PatternRedactor()


class TestDeriver(BlockDeriverContract):
    @pytest.fixture
    def deriver(self) -> SessionDeriver:
        return SessionDeriver(ESTIMATOR)


class TestRenderer(RendererContract):
    @pytest.fixture
    def renderer(self) -> BlockRenderer:
        return BlockRenderer(ESTIMATOR)


class TestAssembler(AssemblerContract):
    @pytest.fixture
    def assembler(self) -> InputAssembler:
        return InputAssembler(ESTIMATOR)


class TestIngestor(EvidenceIngestorContract):
    @pytest.fixture
    def ingestor(self) -> RuleIngestor:
        return RuleIngestor()


class TestSource(ContextSourceContract):
    @pytest.fixture
    def source(self) -> Notes:
        return Notes()


class TestEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Subjects:
        return Subjects()


# Parts that break a promise


def part(base: object, **methods: Any) -> Any:
    """A part with some of its methods replaced."""
    return type("Broken", (type(base),), {name: staticmethod(m) for name, m in methods.items()})()


class Forgetful(PatternRedactor):
    """Gives every value a new placeholder."""

    def bind(self, key: bytes, known: Any, locale: str) -> Any:
        bound, numbers = super().bind(key, (), locale), itertools.count()
        return SimpleNamespace(
            text=lambda text: replace(
                bound.text(text), text=bound.text(text).text.replace("_1]", f"_{next(numbers)}]")
            ),
            data=bound.data,
            learned=list,
            restore=bound.restore,
        )


class Leaking(PatternRedactor):
    """Says that it hit, and leaves it."""

    def bind(self, key: bytes, known: Any, locale: str) -> Any:
        bound = super().bind(key, known, locale)
        return SimpleNamespace(
            text=lambda text: RedactResult(text, bound.text(text).rules, 1, True),
            data=bound.data,
            learned=bound.learned,
            restore=bound.restore,
        )


class Deaf(InMemoryEventBus):
    """Stops at a handler that fails."""

    async def emit(self, event: Event) -> None:
        for handler in self._handlers.get(event.event_type, ()):
            result = handler(event)
            if inspect.isawaitable(result):
                await result


class Cutting(BlockRenderer):
    """Knows no hints."""

    async def render_block(
        self, block: ContextBlock, resolver: Any, hints: Any = None
    ) -> RenderedBlock:
        return await super().render_block(block, resolver)


class Silent(BlockRenderer):
    """Does not tell what it could not resolve."""

    async def render_block(
        self, block: ContextBlock, resolver: Any, hints: Any = None
    ) -> RenderedBlock:
        made = await super().render_block(block, resolver, hints)
        return made.model_copy(update={"degradations": []})


class Twice(SessionDeriver):
    """Derives everything two times."""

    async def derive(self, *args: Any) -> list[ContextBlock]:
        return (await super().derive(*args)) * 2


class Greedy(SessionDeriver):
    """Derives what nobody asked for."""

    async def derive(
        self, session_doc: Any, evidences: Any, options: Any = None
    ) -> list[ContextBlock]:
        return await super().derive(session_doc, evidences)


class Turned(InputAssembler):
    """Gives the messages in another order."""

    def assemble(self, messages: Any, blocks: Any, hint: Any = None) -> AssembledInput:
        return super().assemble([*reversed(messages)], blocks, hint)


class Blind(InputAssembler):
    """Leaves the blocks out."""

    def assemble(self, messages: Any, blocks: Any, hint: Any = None) -> AssembledInput:
        return super().assemble(messages, [], hint)


class Generous(Notes):
    """Gives more than it is asked for."""

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        return super().fetch(scope, query, limit + 1)


class Foreign(Notes):
    """Offers another user's."""

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        return [replace(p, user_id="somebody") for p in super().fetch(scope, query, limit)]


COUNT = itertools.count()
BROKEN: list[tuple[type, str, Any]] = [
    (ClockContract, "clock", part(SystemClock(), now_iso=lambda: "2026-01-01 00:00:00")),
    (
        ClockContract,
        "clock",
        part(SystemClock(), now_iso=lambda: f"20{90 - next(COUNT) % 60:02}-01-01T00:00:00Z"),
    ),
    (IdGeneratorContract, "id_generator", part(UuidV4Generator(), generate=lambda: "same")),
    (IdGeneratorContract, "id_generator", part(UuidV4Generator(), generate=lambda: "")),
    (HasherContract, "hasher", part(DefaultHasher(), digest=lambda text: str(hash(text[:1]) % 7))),
    (HasherContract, "hasher", part(DefaultHasher(), digest=lambda text: f"{len(text):032x}")),
    (EventBusContract, "event_bus", Deaf()),
    (TokenEstimatorContract, "token_estimator", part(ESTIMATOR, estimate_text=lambda *_: 0)),
    (
        TokenEstimatorContract,
        "token_estimator",
        part(ESTIMATOR, estimate_text=lambda text, *_: max(1, 50 - len(text)) if text else 0),
    ),
    (
        TokenEstimatorContract,
        "token_estimator",
        part(ESTIMATOR, estimate_messages=lambda *_: 1),
    ),
    (RedactorContract, "redactor", Leaking()),
    (RedactorContract, "redactor", Forgetful()),
    (BlockDeriverContract, "deriver", Twice(ESTIMATOR)),
    (BlockDeriverContract, "deriver", Greedy(ESTIMATOR)),
    (RendererContract, "renderer", Cutting(ESTIMATOR)),
    (RendererContract, "renderer", Silent(ESTIMATOR)),
    (AssemblerContract, "assembler", Turned(ESTIMATOR)),
    (AssemblerContract, "assembler", Blind(ESTIMATOR)),
    (EvidenceIngestorContract, "ingestor", part(RuleIngestor(), ingest=lambda _: None)),
    (
        EvidenceIngestorContract,
        "ingestor",
        part(RuleIngestor(), ingest=lambda draft: replace(draft, confidence=30.0)),
    ),
    (
        EvidenceIngestorContract,
        "ingestor",
        part(RuleIngestor(), ingest=lambda draft: replace(draft, confidence=0.5)),
    ),
    (ContextSourceContract, "source", Generous()),
    (ContextSourceContract, "source", Foreign()),
    (EmbedderContract, "embedder", Failing(answer=lambda found: found[::-1])),
    (EmbedderContract, "embedder", Failing(answer=lambda found: found[1:])),
    (
        EmbedderContract,
        "embedder",
        Failing(answer=lambda found: [v[: 5 - n % 2] for n, v in enumerate(found)]),
    ),
    (EmbedderContract, "embedder", Failing(answer=lambda found: [[1.0, 2.0] for _ in found])),
]


def run(suite: Any, fixtures: dict[str, Any]) -> Iterator[str]:
    """Run a suite's tests by hand; the names of those that fail."""
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        wanted = [each for each in inspect.signature(test).parameters if each not in fixtures]
        values = {"form": "text", "kind": SourceKind.TOOL}
        given = {each: values[each] for each in wanted}
        given |= {k: v for k, v in fixtures.items() if k in inspect.signature(test).parameters}
        try:
            if inspect.iscoroutinefunction(test):
                anyio.run(lambda test=test, given=given: test(**given))  # type: ignore[misc] # bound now
            else:
                test(**given)
        except Exception:
            yield name


@pytest.mark.parametrize(
    ("suite", "name", "broken"),
    BROKEN,
    ids=[f"{s.__name__}-{n}" for n, (s, _, _) in enumerate(BROKEN)],
)
def test_a_part_that_breaks_a_promise_is_seen(suite: type, name: str, broken: Any) -> None:
    fixtures = {
        name: broken,
        "resolver": Resolver(e1="The order is paid. 订单已付款。", e2="x" * 5000),
    }
    assert list(run(suite(), fixtures))


SOUND = {
    ClockContract: ("clock", SystemClock()),
    IdGeneratorContract: ("id_generator", UuidV4Generator()),
    HasherContract: ("hasher", Sha256Hasher()),
    EventBusContract: ("event_bus", InMemoryEventBus()),
    TokenEstimatorContract: ("token_estimator", ESTIMATOR),
    RedactorContract: ("redactor", PatternRedactor()),
    BlockDeriverContract: ("deriver", SessionDeriver(ESTIMATOR)),
    RendererContract: ("renderer", BlockRenderer(ESTIMATOR)),
    AssemblerContract: ("assembler", InputAssembler(ESTIMATOR)),
    EvidenceIngestorContract: ("ingestor", RuleIngestor()),
    ContextSourceContract: ("source", Notes()),
    EmbedderContract: ("embedder", Subjects()),
}


def test_and_a_sound_part_is_not() -> None:
    texts = Resolver(e1="The order is paid. 订单已付款。", e2="x" * 5000)
    failed = {
        suite.__name__: list(run(suite(), {name: sound, "resolver": texts}))
        for suite, (name, sound) in SOUND.items()
        if suite is not EventBusContract  # it wants a bus of its own in each test
    }
    assert not any(failed.values()), failed
    assert SOUND.keys() == {suite for suite, _, _ in BROKEN}


class SilentModel:
    """A model that answers nothing."""

    async def generate(self, request: LlmRequest) -> LlmResponse:
        del request
        return LlmResponse("  ", "m", 1, 2, 9)


@pytest.mark.anyio
async def test_a_model_that_says_nothing_is_caught() -> None:
    suite = LlmAdapterContract()
    with pytest.raises(AssertionError):
        await suite.test_it_answers(SilentModel())
    with pytest.raises(AssertionError):
        await suite.test_tokens_are_told_and_add_up(SilentModel())
