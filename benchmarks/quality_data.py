"""The data of `quality.py`: public, and none of it ours. Their licences do not let us hand them on."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple


WHERE = """\
Put these files into one folder, and name it with --data or QUALITY_DATA:
  locomo*.json  LoCoMo, long conversations with questions: github.com/snap-research/locomo, data/locomo10.json (CC BY-NC 4.0)
  cmrc*.json    CMRC 2018, Chinese questions: github.com/ymcui/cmrc2018, squad-style-data/cmrc2018_dev.json (CC BY-SA 4.0)
  tau*.json     tau-bench, real tool runs: github.com/sierra-research/tau-bench, historical_trajectories/gpt-4o-airline.json (MIT)
A row whose file is not there is left out."""

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""LoCoMo's kinds of questions; it has no gold for the fifth."""

PARAGRAPHS = 70
"""Of CMRC in one session."""


class Said(NamedTuple):
    """A message of a conversation; `content` is what the app sends, date and name in front."""

    id: str
    speaker: str
    text: str
    content: str


class Question(NamedTuple):
    """A question, its kind, and the ids of the messages that its answer needs."""

    text: str
    kind: str
    gold: list[str]


class Session(NamedTuple):
    """A conversation and what is asked about it."""

    messages: list[Said]
    questions: list[Question]


def found(folder: Path, name: str) -> Path | None:
    """The file of a set in the folder."""
    return next(iter(sorted(folder.glob(f"{name}*.json"))), None)


def locomo(path: Path) -> list[Session]:
    return [_conversation(each) for each in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(plain: dict[str, Any]) -> Session:
    body, said = plain["conversation"], []
    numbers = sorted(int(key.split("_")[1]) for key in body if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        day = body.get(f"session_{number}_date_time", "").split(" on ")[-1].replace(",", "")
        for turn in body[f"session_{number}"]:
            caption = turn.get("blip_caption")
            photo = f" [shares a photo: {caption}]" if caption else ""
            content = f"[{day}] {turn['speaker']}: {turn['text']}{photo}"
            said.append(Said(turn["dia_id"], turn["speaker"], turn["text"], content))
    there = {each.id for each in said}
    questions = []
    for asked in plain["qa"]:
        cited = [m for cell in asked["evidence"] for m in re.findall(r"D:?(\d+):0*(\d+)", cell)]
        gold = [i for i in dict.fromkeys(f"D{int(a)}:{int(b)}" for a, b in cited) if i in there]
        if gold and asked["category"] in CATEGORIES:
            questions.append(Question(asked["question"], CATEGORIES[asked["category"]], gold))
    return Session(said, questions)


def one(sessions: list[Session]) -> Session:
    """All conversations as one, their ids told apart."""
    made = Session([], [])
    for n, session in enumerate(sessions):
        made.messages.extend(m._replace(id=f"{n}/{m.id}") for m in session.messages)
        for asked in session.questions:
            made.questions.append(asked._replace(gold=[f"{n}/{i}" for i in asked.gold]))
    return made


def cmrc(path: Path) -> list[Session]:
    """One sentence a message; the gold is the sentence with the answer."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(plain, dict):
        plain = [paragraph for each in plain["data"] for paragraph in each["paragraphs"]]
    starts = range(0, len(plain), PARAGRAPHS)
    return [_paragraphs(plain[start : start + PARAGRAPHS]) for start in starts]


def _paragraphs(paragraphs: list[dict[str, Any]]) -> Session:
    made = Session([], [])
    for p, paragraph in enumerate(paragraphs):
        text = paragraph["context"]
        cuts = [0, *(m.end() for m in re.finditer(r"[。！？；]+", text)), len(text)]
        spans = [(a, b) for a, b in pairwise(cuts) if text[a:b].strip()]
        for a, b in spans:
            made.messages.append(Said(f"{p}:{a}", "", text[a:b], text[a:b]))
        for asked in paragraph["qas"]:
            answer = asked["answers"][0]["text"]
            at = text.find(answer)
            gold = [f"{p}:{a}" for a, b in spans if 0 <= at < b and a < at + len(answer)]
            if gold:
                made.questions.append(Question(asked["question"], "", gold))
    return made


def runs(path: Path) -> list[list[dict[str, Any]]]:
    """Tool runs, as messages in OpenAI's form."""
    return [each["traj"] for each in json.loads(path.read_text(encoding="utf-8"))]
