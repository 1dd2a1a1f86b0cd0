"""A made-up chat for benchmarks: questions and answers of mixed length, in English and Chinese, some with tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


def words(text: str, between: str = " ") -> list[str]:
    return text.split(between)


SUBJECTS = {
    "en": words(
        "Lisbon trip, kitchen, tax return, marathon, reading club, vegetable garden, car, piano, tent, "
        "bicycle, wedding, laptop, cellar, blog, French course, balcony, passport, telescope, dentist, "
        "bakery, aquarium, insulation, roof, chess evening, choir, greenhouse, sofa, parrot, sailing "
        "licence, sauna, archive, drone, ferry, fireplace, guitar, hammock, internship, jacket, kayak, "
        "lawn mower, museum, nursery, orchard, pension, quilt, razor, scooter, theatre, umbrella, vaccine, "
        "wardrobe, xylophone, yoga, zoo, allotment, birthday, camera, dishwasher, elevator, fence, glasses",
        ", ",
    ),
    "zh": words(
        "装修,搬家,年会,读书会,菜园,旧车,钢琴课,夏令营,签证,体检,婚礼,电脑,地下室,法语班,摄影展,露营,"
        "滑雪,茶馆,书法,驾照,洗衣机,空调,阳台,猫粮,毕业照,健身卡,博物馆,望远镜,火车票,租房",
        ",",
    ),
}
ASPECTS = {
    "en": words(
        "price, date, place, colour, weather, insurance, music, food, length, weight, contact, deposit",
        ", ",
    ),
    "zh": words("价格,日期,地点,颜色,天气,保险,音乐,餐饮,长度,重量,联系人,定金", ","),
}
COMMON = {
    "en": words(
        "we it is so to and the of in for with on at but they that this then when would could"
    ),
    "zh": list("我们是的在有就也会都要和可以说这那"),
}
LESS = {
    "en": words(
        "start small see goes before next step while others wait sign most depends people come early "
        "bring along river window corner paper ticket letter shelf morning winter ladder basket engine "
        "signal garden number mirror pocket summer bridge winter market office doctor teacher village "
        "plate coffee cable border branch candle circle copper cotton county dinner drawer factor farmer "
        "finger forest gallery harbour hammer island jacket journey kettle leather lemon lesson library "
        "machine manner meadow medal memory method minute moment needle notice object orange oven owner "
        "parcel pattern pencil pepper permit picture planet powder prize profit purpose quarter rabbit "
        "reason record repair report result ribbon rocket saddle salad sample scale screen season secret "
        "series shadow silver sister sketch socket spring square stable station storm stream street sugar"
    ),
    "zh": list(
        "山水门窗灯桌纸信票桥市场医师村盘咖啡线边枝烛圈铜棉县晚餐抽屉工厂农林画廊港锤岛夹克旅壶皮柠课图书机器"
        "草奖忆法分刻针物橙炉主包样铅胡椒许照星粉利目季兔因录修报果丝箭鞍拉秤屏秘系影银妹草插春方站暴流街糖"
    ),
}
BACK = 0.08
"""Share of questions that ask for something said long ago."""
CHINESE = 0.25
"""Share of topics in Chinese."""
TOOLS = 0.4
"""Share of turns with tool calls, where there are tools."""

Result = tuple[str, str, str]
"""A tool call: the tool's name, its argument, its result."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, the tool calls that it takes, and the answer."""

    question: str
    answer: str
    calls: tuple[Result, ...] = ()


def talk(turns: int, rng: Random, *, tools: bool = False) -> Iterator[Turn]:
    """A chat of topics, each for a few turns, now and then back to an earlier one."""
    known: list[tuple[str, str, str]] = []
    subjects = {lang: rng.sample(names, len(names)) for lang, names in SUBJECTS.items()}
    lang, subject, left = "en", "", 0
    for _ in range(turns):
        if left == 0:
            lang = "zh" if rng.random() < CHINESE else "en"
            subject, left = subjects[lang].pop(), rng.randint(3, 9)
        left -= 1
        back = len(known) > 40 and rng.random() < BACK
        lang_, subject_, aspect = (
            rng.choice(known[:-30]) if back else (lang, subject, rng.choice(ASPECTS[lang]))
        )
        known.append((lang_, subject_, aspect))
        calls = tuple(_results(subject_, rng)) if tools and rng.random() < TOOLS else ()
        yield Turn(
            _question(lang_, subject_, aspect, rng, back=back),
            _answer(lang_, subject_, aspect, rng),
            calls,
        )


def _filler(lang: str, rng: Random, most: int) -> str:
    chosen = [
        rng.choice((COMMON if rng.random() < 0.5 else LESS)[lang])
        for _ in range(rng.randint(4, most))
    ]
    return "".join(chosen) if lang == "zh" else " ".join(chosen)


def _question(lang: str, subject: str, aspect: str, rng: Random, *, back: bool) -> str:
    if lang == "zh":
        return (
            f"之前说过{subject}的{aspect}，是多少？"
            if back
            else f"{subject}的{aspect}呢？"
            + (_filler(lang, rng, 30) + "。" if rng.random() < 0.3 else "")
        )
    if back:
        return f"Earlier we settled the {aspect} of the {subject}. What was it again?"
    more = f" I think {_filler(lang, rng, 40)}." if rng.random() < 0.3 else ""
    return f"What about the {aspect} of the {subject}?{more}"


def _answer(lang: str, subject: str, aspect: str, rng: Random) -> str:
    number = rng.randint(100, 9999)
    if lang == "zh":
        parts = [f"{subject}的{aspect}是 {number}。"]
        parts += [_filler(lang, rng, 40) + "。" for _ in range(rng.choice((0, 0, 1, 1, 2, 4)))]
        return "".join(parts)
    parts = [f"The {aspect} of the {subject} is {number}."]
    parts += [
        _filler(lang, rng, 30).capitalize() + "." for _ in range(rng.choice((0, 0, 1, 1, 2, 4)))
    ]
    return " ".join(parts)


def _results(subject: str, rng: Random) -> Iterator[Result]:
    for _ in range(rng.choice((1, 1, 2))):
        rows = [
            {"id": rng.randint(10**5, 10**6), "of": subject, "note": _filler("en", rng, 12)}
            for _ in range(rng.choice((2, 5, 10, 25)))
        ]
        name = rng.choice(("search", "read"))
        yield name, f"{subject} {rng.randint(1, 99)}", json.dumps(rows, ensure_ascii=False)
