"""Two conversations of our own making, and a question about an early message of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ce_engine import Author, AuthorKind, Message, Role


class Talk(NamedTuple):
    """A conversation of a user and an assistant, in turn, on some days; and what is asked in the end.

    Attributes:
        title: of its section.
        days: the first day of each stretch, and what was said then.
        question: asked after all of it.
        budget: tokens that the input may have.
    """

    title: str
    user: str
    assistant: str
    days: dict[str, list[str]]
    question: str
    budget: int

    def messages(self) -> list[Message]:
        found: list[Message] = []
        for day, texts in self.days.items():
            begins = datetime.fromisoformat(f"{day}T09:00:00").replace(tzinfo=UTC)
            for n, text in enumerate(texts):
                is_user = n % 2 == 0
                kind = AuthorKind.USER if is_user else AuthorKind.AGENT
                found.append(
                    Message(
                        role=Role.USER if is_user else Role.ASSISTANT,
                        content=text,
                        author=Author(kind=kind, id=self.user if is_user else self.assistant),
                        at=(begins + timedelta(minutes=n)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    )
                )
        return found


ENGLISH = Talk(
    title="A question in English",
    user="Nora",
    assistant="Clerk",
    days={
        "2026-03-02": [
            "Good morning! I am moving the bakery to Harbour Street in April.",
            "Congratulations! Shall I keep a list of what has to be done?",
            "Please. First: the old oven goes to my brother Tom, he collects it on the 28th of March.",
            "Noted: Tom collects the old oven on 28 March.",
            "And the new oven needs a three-phase socket; the electrician is Mrs Okafor.",
            "Noted: Mrs Okafor for the three-phase socket.",
            "She asks 340 euros for it, cash.",
            "I put 340 euros for the socket into the budget.",
        ],
        "2026-03-09": [
            "The landlord wants the deposit by Friday.",
            "I will remind you on Thursday evening.",
            "What do you think of green tiles behind the counter?",
            "Green goes well with the oak shelves that you described.",
            "Then green. The tiler comes when the floor is dry.",
            "Noted: the tiler comes after the floor.",
            "I also need somebody for the sign above the door.",
            "Three sign makers work near the harbour; shall I ask them for offers?",
        ],
        "2026-03-16": [
            "Yes, ask all three. And what will the weather be on Saturday?",
            "Cloudy and dry, about eleven degrees.",
            "Good, then we paint the window frames on Saturday.",
            "Noted: the window frames on Saturday.",
            "Two of my regulars offered to help with the boxes.",
            "That is kind. Shall I write them a plan for the day?",
            "Please do, with a break at noon.",
            "The plan is ready: boxes at nine, break at noon, shelves at one.",
        ],
    },
    question="How much does the electrician want for the oven's socket?",
    budget=320,
)

CHINESE = Talk(
    title="A question in Chinese",
    user="小林",
    assistant="助手",
    days={
        "2026-05-04": [
            "奶奶下个月过八十岁生日,我们想在老家办。",
            "恭喜!要我列一张准备清单吗?",
            "好。奶奶对花生过敏,菜里一点都不能放。",
            "记下了:所有的菜都不放花生。",
            "表哥从成都坐火车来,六号下午四点到。",
            "记下了:六号下午四点去车站接表哥。",
        ],
        "2026-05-11": [
            "院子里能摆几张圆桌?",
            "按您说的大小,可以摆六张,每张坐十个人。",
            "那就六张。桌布要红色的。",
            "记下了:六张圆桌,红色桌布。",
            "请柬上写什么好呢?",
            "可以写:福如东海,寿比南山。",
        ],
        "2026-05-18": [
            "照相的师傅说要提前一个星期定时间。",
            "我下周一提醒您给他打电话。",
            "谢谢。天气预报怎么样?",
            "那几天多云,不下雨,二十五度左右。",
            "太好了,那就在院子里吃饭。",
            "好的,地点定在院子里。",
        ],
    },
    question="订菜的时候,奶奶不能吃什么?",
    budget=260,
)
