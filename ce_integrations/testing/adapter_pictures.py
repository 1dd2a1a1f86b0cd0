"""Contract: pictures cost what the provider's formula says, and what is known of them is recorded."""

from __future__ import annotations

import re
import struct
import zlib

from ce_engine import AttachmentRecord, BudgetConfig, RuntimeConfig
from ce_integrations.testing.answers import JsonObject
from ce_integrations.testing.contract_case import ContractCase, count
from ce_integrations.testing.framework_apps import needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide


BUDGET = 1_500
SHOWN = 12
"""Pictures that are shown, one a question: more than the budget holds."""

WIDTH, HEIGHT = 3, 2


def png(width: int, height: int, shade: int = 0) -> bytes:
    """A picture of one grey."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([shade]) * width) * height)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


class Pictures(ContractCase):
    """Messages that show something."""

    @needs("show")
    def test_small_pictures_do_not_cost_the_history(self, trial: SideBySide) -> None:
        ce_run = self.showing(trial)
        assert ce_run.result == ["I see."] * SHOWN
        reports = [turn.report for turn in trial.turns()]
        assert [report.get("over_budget", False) for report in reports] == [False] * SHOWN
        assert max(map(count, ce_run.bodies)) <= BUDGET
        question_lists = [_questions(body) for body in ce_run.bodies]
        for n, questions in enumerate(question_lists):
            assert questions[-1] == n, "the question's own picture"
            assert len(questions) >= min(n + 1, 2), "the one before it"

    @needs("show")
    def test_a_picture_leaves_its_size_in_the_record(self, trial: SideBySide) -> None:
        self.showing(trial)
        questions = [m for m in trial.document().session.messages if m.role == "user"]
        pictures = [attachment for message in questions for attachment in message.attachments or ()]
        assert len(pictures) == SHOWN
        assert {(picture.kind, picture.width, picture.height) for picture in pictures} == {
            ("image", WIDTH, HEIGHT)
        }
        assert {_label(picture) for picture in pictures} == {f"[image {WIDTH}x{HEIGHT}, png]"}
        assert len({picture.digest for picture in pictures}) == SHOWN

    def showing(self, trial: SideBySide) -> AppRun:
        """A conversation with a picture in each question, within a small budget."""
        show = self.show
        assert show is not None

        def drive(target: object) -> list[str]:
            return [
                trial.run(show(target, f"number {n}: 这是什么?", png(WIDTH, HEIGHT, n), SESSION))
                for n in range(SHOWN)
            ]

        budget = BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0)
        return trial.drive(drive, "I see.", config=RuntimeConfig(budget=budget))


def _questions(body: JsonObject) -> list[int]:
    """The numbers of the questions in a body that go out with their pictures."""
    numbers = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list) and {"text", "image_url"} <= {p["type"] for p in content}:
            # What is brought in stands before a question's own words.
            text = "\n".join(part["text"] for part in content if part["type"] == "text")
            numbers.append(int(re.findall(r"number ([0-9]+):", text)[-1]))
    return numbers


def _label(attachment: AttachmentRecord) -> str:
    return attachment.label()
