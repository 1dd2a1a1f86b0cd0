"""A store in which much went wrong, of an app that speaks Chinese only: every word of it is the app's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ce_engine import (
    Answer,
    Attachment,
    BlockType,
    BudgetConfig,
    ContextBlock,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Priority,
    PruneResult,
    Ref,
    Retrieval,
    RetrievedDoc,
    RuleJudge,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolCallStatus,
    ToolRun,
    TurnStatus,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import url_of


REFUND = Scope(session_id="退款咨询-王芳", user_id="王芳")
CONFIG = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=1500),
    store=StoreConfig(deadline_s=30),
    tool_results="compact",
    locale="zh",
)
LANES = ("主线", "复核")
MODELS = ("通义千问", "智谱清言")
FRAMEWORKS = ("langchain", "llamaindex", "autogen")
ORDERS = '[{"编号": 7, "状态": "已付款", "金额": 199}, {"编号": 8, "状态": "已付款", "金额": 99}]'


class BrokenPruner:
    """A pruner of somebody else's that cannot do it."""

    def prune(self, *_: object) -> PruneResult:
        raise RuntimeError


def fill_trouble(folder: Path) -> str:
    """A store with it; its URL."""
    url = url_of(folder / "ce.db")
    engine = create_context_engine(url, config=CONFIG, judge=RuleJudge())
    engine.sync.check()
    refund(engine)
    others(engine)
    engine.sync.close()
    engine = create_context_engine(url, config=CONFIG, pruner=BrokenPruner())
    engine.sync.check()
    app = HostApp(engine, REFUND, [system("你是客服。")], "langchain")
    answered(app, "裁剪器坏了怎么办？", "换一个。", lane_key=LANES[0])
    app.prepare(user("还在吗？"), lane_key=LANES[1])  # and nobody has answered yet
    engine.sync.flush()
    engine.sync.close()
    return url


def refund(engine: ContextEngine) -> HostApp:
    """One session in which all happens."""
    app = HostApp(engine, REFUND, [system("你是客服。")], "langchain")
    engine.sync.constraints.create(REFUND, "不要提到「猎鹰计划」。", priority=Priority.HIGH)
    lookup(app)
    documents(app)
    disagreement(engine)
    for number in range(10):
        answered(app, f"第{number}件事：{'请详细说明。' * 12}", f"第{number}件事已处理。" * 9)
    answered(app, "保密的项目叫什么？", "叫猎鹰计划。")
    answered(app, "七号订单的状态是什么？", "一处说已付款，一处说未付款。")
    lookup(app, again=True)
    badly_ended(app)
    oversized(app)
    picture(app)
    asked = app.prepare(user("请把问题改写得短一些。"), purpose="helper")
    finish(app, asked, "七号订单？")
    block = ContextBlock(
        block_id="步骤",
        block_type=BlockType.STATE,
        priority=Priority.HIGH,
        content="正在核对。",
        refs=[Ref(evidence_id="没有的证据")],
    )
    engine.loop.run(engine.put_context_blocks(REFUND, [block]))
    answered(app, "核对完了吗？", "快了。")
    return app


def answered(
    app: HostApp, question: str, answer: str, model: str = MODELS[0], lane_key: str | None = None
) -> None:
    """A turn that goes as it should."""
    asked = app.prepare(user(question), lane_key=lane_key)
    finish(app, asked, answer, model=model)


def finish(
    app: HostApp,
    asked: object,
    answer: str,
    status: TurnStatus = TurnStatus.COMMITTED,
    model: str = MODELS[0],
) -> None:
    said = assistant(answer)
    app.engine.sync.commit(
        asked.turn,  # type: ignore[attr-defined]
        Answer(said.message, model=model, provider="服务商"),
        status=status,
        usage=Usage(200, 30, 230, latency_ms=800),
    )
    app.messages.append(said)


def lookup(app: HostApp, *, again: bool = False) -> None:
    """A tool that finds the orders, and one that fails."""
    calls = ("查询一", "查询二") if not again else ("查询三", "查询四")
    asked = app.prepare(user("我的订单怎么样了？"))
    asking = tool_calls(
        (calls[0], "查订单", {"客户": "王芳"}), (calls[1], "查物流", {"单号": "七"})
    )
    app.engine.sync.commit(asked.turn, Answer(asking.message, model=MODELS[0], provider="服务商"))
    app.messages.append(asking)
    runs = (
        ToolRun("查订单", {"客户": "王芳"}, ORDERS, calls[0], calls[0], duration_ms=7),
        ToolRun("查物流", {"单号": "七"}, "超时了", calls[1], calls[1],
                status=ToolCallStatus.TIMEOUT, error="物流系统没有回答", duration_ms=900),
    )  # fmt: skip
    for run in runs:
        app.engine.post_tool_run(
            app.scope, run, request_id=f"request-{app.requests}", framework=app.framework
        )
    results = [tool_result(calls[0], ORDERS), tool_result(calls[1], "超时了", error=True)]
    answering = app.prepare(*results, new_request=False)
    finish(app, answering, "七号订单已付款。")


def documents(app: HostApp) -> None:
    """A retrieval, and an answer that quotes it."""
    found = [
        RetrievedDoc("退款在七个工作日内原路返回到付款账户。" * 3, uri="文档://退款", score=0.9),
        RetrievedDoc("换货不收运费。", uri="文档://换货", score=0.4),
    ]
    hit = Retrieval("知识库", "退款多久到账？", found, "检索一", duration_ms=3)
    app.engine.post_retrieval(
        app.scope, hit, request_id=f"request-{app.requests + 1}", framework=app.framework
    )
    answered(app, "退款多久到账？", "退款在七个工作日内原路返回到付款账户。")


def disagreement(engine: ContextEngine) -> None:
    """Two sources that say different things of one order."""
    for kind, name, text in (
        (SourceKind.TOOL, "订单系统", '{"id": 7, "状态": "已付款"}'),
        (SourceKind.RAG, "知识库", '{"id": 7, "状态": "未付款"}'),
    ):
        source = EvidenceSource(kind=kind, name=name)
        engine.loop.run(engine.ingest(REFUND, text, source, EvidenceType.OTHER))


def badly_ended(app: HostApp) -> None:
    """Turns that failed, were broken off, were tried again."""
    asked = app.prepare(user("为什么这么慢？"))
    app.engine.loop.run(app.engine.fail(asked.turn, "模型没有回答"))
    finish(app, app.prepare(new_request=False), "因为排队。")  # tried again
    finish(app, app.prepare(user("还要多久？")), "大约还", TurnStatus.INCOMPLETE)
    asked = app.prepare(user("到底要多久？"))
    app.engine.loop.run(app.engine.fail(asked.turn, "模型没有回答"))
    app.messages.pop()
    app.prepare(user("在忙吗？"), lane_key=LANES[0])  # and its process ends


def oversized(app: HostApp) -> None:
    """A question that is alone too much."""
    answered(app, "这是全部的合同条款：" + "甲方应当在收到货物之后及时付款。" * 200, "太长了。")
    app.messages.pop()
    app.messages.pop()


def picture(app: HostApp) -> None:
    """A picture whose size nobody knows."""
    shown = replace(
        user("图里是什么？"), attachments=(Attachment("image", digest="图"),), media=("图",)
    )
    finish(app, app.prepare(shown), "一张发票。")


def others(engine: ContextEngine) -> None:
    """Small sessions of several frameworks and models."""
    for number in range(9):
        scope = Scope(session_id=f"闲聊-{number}", user_id="李雷" if number % 2 else "")
        app = HostApp(engine, scope, [system("你是客服。")], FRAMEWORKS[number % 3])
        answered(app, f"第{number}张发票在哪里？", "在蓝色文件夹里。", MODELS[number % 2])
