"""Relevance: the one message that a question needs is found among hundreds, in several languages."""

from __future__ import annotations

import random
import sys
import tracemalloc
import unicodedata

import pytest

from ce_engine.text.relevance.quoted_phrases import quotes
from ce_engine.text.relevance.relevance import LexicalIndex
from ce_engine.text.relevance.terms import matter, terms, tokens


def test_digits_of_every_script_are_one_word() -> None:
    """A run of them is taken at once, wherever it ends: a text of nothing else took the square of its length."""
    zeros = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.decimal(c, None) == 0]
    assert len(zeros) > 60
    for zero in zeros:
        five = chr(ord(zero) + 5)
        longest = max(tokens(f"about {five * 40} there"), key=len)
        assert len(longest) == 40, ascii(zero)


SMALL_TALK = {
    language: lines.split("|")
    for language, lines in {
        "en": (
            "the train was late again this morning|we tried a new place for lunch|my back hurts from "
            "sitting|I finished the second chapter|nothing beats a quiet evening at home|the printer is "
            "out of paper|she sends her regards|let us talk about the budget next|that film was far too "
            "long|I could use a holiday|the neighbours are painting their fence|sounds good to me|the "
            "coffee machine broke down|have a look at the draft when you can"
        ),
        "zh": (
            "今天早上的地铁又晚点了|我们中午去了一家新餐馆|最近坐得太久腰有点疼|第二章我已经看完了|晚上在家休息最舒服|"
            "打印机没有纸了|她让我向你问好|接下来讨论一下预算吧|那部电影实在太长|真想放个长假|邻居在刷他们的篱笆|"
            "听起来不错|咖啡机又坏了|有空的话看看草稿"
        ),
        "ja": (
            "今朝も電車が遅れました|昼は新しい店に行きました|座りすぎて腰が痛い|第二章を読み終えました|家でゆっくりする夜が"
            "一番です|プリンターの紙がありません|彼女がよろしくと言っていました|次は予算の話をしましょう|映画が長すぎました"
        ),
        "ko": (
            "오늘 아침에도 기차가 늦었어요|점심은 새로운 식당에서 먹었어요|오래 앉아서 허리가 아파요|두 번째 장을 다 읽었어요|"
            "집에서 쉬는 저녁이 최고예요|프린터에 종이가 없어요|다음에는 예산 이야기를 해요|영화가 너무 길었어요"
        ),
    }.items()
}


def talk(language: str, needle: str = "", count: int = 400, at: int = 137) -> LexicalIndex:
    """An index of `count` pieces of small talk, with the needle in place of one."""
    rng = random.Random(7)
    lines = SMALL_TALK[language]
    index = LexicalIndex()
    for n in range(count):
        index.add(n, needle if needle and n == at else ", ".join(rng.sample(lines, 2)))
    return index


def found(index: LexicalIndex, query: str, limit: int = 10) -> list[int]:
    return [hit.n for hit in index.search(query, limit=limit)]


@pytest.mark.parametrize(
    ("language", "needle", "question"),
    [
        ("en", "My sister Olga keeps bees on her roof.", "Where does your sister keep the bees?"),
        ("en", "We adopted two greyhounds.", "How did the adoption of the greyhound go?"),
        ("en", "He bought a sailing boat in Turku.", "What did he buy in Turku?"),
        ("en", "Your order 48213 leaves on Monday.", "Where is order 48,213?"),
        ("en", "The café in Århus closes at six.", "When does the cafe in Arhus close?"),
        ("zh", "我姐姐在屋顶上养了三箱蜜蜂。", "姐姐的蜜蜂养在哪里？"),
        ("zh", "合同编号是４８２１３，下周签字。", "48213号合同什么时候签字？"),
        ("zh", "周五之前把 Kubernetes 集群升到 1.29。", "Kubernetes 集群要升级到哪个版本？"),
        ("en", "周五之前把 Kubernetes 集群升到 1.29。", "Which version of Kubernetes?"),
        (
            "ja",
            "妹は東京タワーの近くで蜂蜜を売っています。",
            "東京タワーの近くで何を売っていますか",
        ),
        ("ko", "여동생은 부산에서 꿀벌을 키워요.", "꿀벌은 어디에서 키우나요?"),
    ],
)
def test_the_one_message_is_found_among_hundreds(language: str, needle: str, question: str) -> None:
    assert found(talk(language, needle), question)[0] == 137


@pytest.mark.parametrize("query", ["", "   ", "?!…", "what is it?", "是什么呢？", "xylophone"])
def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    assert found(talk("en"), query) == []


def test_what_is_around_a_hit_comes_before_the_rest() -> None:
    index = talk("en", "Did Olga ever tell you about her beehives?")
    hits = found(index, "Olga's beehives", limit=5)
    assert [set(hits[:1]), set(hits[1:3]), set(hits[3:])] == [{137}, {136, 138}, {135, 139}]


@pytest.mark.parametrize(
    ("language", "needle", "question"),
    [
        ("en", "My husband took these photos.", "Is she married?"),
        ("en", "We spent July in Spain.", "Which European countries has she been to?"),
        ("en", "I bought a violin.", "What instruments does he play?"),
        ("en", "The physician was kind.", "What did the doctors say?"),
        ("zh", "这些照片是我丈夫拍的。", "她结婚了吗？"),
        ("zh", "我最近迷上了篮球。", "他喜欢什么运动？"),
    ],
)
def test_an_answer_may_call_it_by_another_name(language: str, needle: str, question: str) -> None:
    assert found(talk(language, needle), question, limit=3)[0] == 137


def test_another_name_comes_after_the_very_word() -> None:
    index = talk("en", "The wedding was lovely.")
    index.add(400, "My husband took these photos.")
    assert found(index, "the wedding", limit=1) == [137]


def test_words_that_mean_the_like_of_everything_find_nothing() -> None:
    index = LexicalIndex()
    for n in range(40):
        index.add(n, "My husband took these photos.")
    assert found(index, "married?") == []


def test_every_word_of_the_question_counts() -> None:
    index = LexicalIndex()
    for n in range(90):
        index.add(n, {10: "red roses", 30: "red bees", 50: "roses, bees"}.get(n, "small talk"))
    assert found(index, "roses or bees")[0] == 50
    assert found(index, "red bees")[0] == 30


def test_the_talk_around_a_hit_comes_before_other_days() -> None:
    index = LexicalIndex()
    for n in range(200):
        text = "The beehives arrived." if n == 83 else SMALL_TALK["en"][n % 14]
        index.add(n, text, at=f"2024-03-{1 + n // 10:02d}T09:00:00Z")
    assert set(found(index, "beehives", limit=10)) == set(range(80, 90))


@pytest.mark.parametrize(
    ("asks", "answer", "says", "reply", "question"),
    [
        ("And the fence?", "Green, please.", "An old fence.", "So it is.", "fence"),
        ("篱笆要什么颜色？", "绿色好看。", "那是旧篱笆。", "真的很旧。", "篱笆"),
        ("篱笆要什么颜色?", "绿色好看。", "那是旧篱笆。", "真的很旧。", "篱笆"),
    ],
)
def test_what_follows_a_question_comes_before_what_follows_a_statement(
    asks: str, answer: str, says: str, reply: str, question: str
) -> None:
    for texts in ((asks, answer, says, reply), (says, reply, asks, answer)):
        index = LexicalIndex()
        for n, text in enumerate(texts):
            index.add(n * 30, text)
            for k in range(1, 30):
                if n % 2:
                    index.add(n * 30 + k, "small talk")
        order = found(index, question)
        assert order.index(30 * texts.index(answer)) < order.index(30 * texts.index(reply))


@pytest.mark.parametrize(
    ("dated", "plain", "question"),
    [
        ("I painted the barn yesterday.", "I painted the barn slowly.", "painting the barn"),
        ("昨天我画了谷仓。", "我慢慢画了谷仓。", "画谷仓"),
    ],
)
def test_of_two_alike_what_says_when_it_happened_comes_first(
    dated: str, plain: str, question: str
) -> None:
    for texts in ((dated, plain), (plain, dated)):
        index = LexicalIndex()
        for n, text in enumerate(texts):
            index.add(n, text)
        assert found(index, question)[0] == texts.index(dated)


def test_a_document_lends_nothing_to_its_neighbours() -> None:
    page = " ".join(f"section{n} beehives paragraph{n}" for n in range(60))
    assert found(talk("en", page), "beehives paragraph7") == [137]


def test_a_message_comes_before_a_document_with_the_same_words() -> None:
    index = talk("en", " ".join(f"beehives paragraph{n}" for n in range(90)))
    index.add(400, "The beehives arrived.")
    hits = found(index, "beehives")
    assert hits[0] == 400
    assert 137 in hits


@pytest.mark.parametrize("kind", ["rag_doc", "tool_result"])
def test_evidence_lends_nothing_to_its_neighbours(kind: str) -> None:
    index = LexicalIndex()
    for n in range(9):
        index.add(n, f"price list {n}" if n == 4 else "small talk", kind=kind)
    assert found(index, "price list") == [4]


class TestWhoSaidIt:
    def test_a_named_speaker_comes_first(self) -> None:
        index = LexicalIndex()
        for n in range(60):
            index.add(n, SMALL_TALK["en"][n % 14], speaker=("Ann", "Bob")[n % 2])
        index.add(60, "I would love to grow roses.", speaker="Ann")
        index.add(61, "I would love to grow roses.", speaker="Bob")
        assert found(index, "What would Bob love to grow?", 2) == [61, 60]
        assert found(index, "What would Ann love to grow?", 2) == [60, 61]
        assert found(index, "What would Bob love to grow with Ann?", 2) == [61, 60]

    @pytest.mark.parametrize(
        ("lines", "question"),
        [
            (("Ann: roses are nice", "Bob: roses are nice"), "Does Bob like roses?"),
            (("[8 May 2023] Ann: roses", "[8 May 2023] Bob: roses"), "Does Bob like roses?"),
            (("小红：我喜欢玫瑰", "小明：我喜欢玫瑰"), "小明喜欢玫瑰吗？"),
        ],
    )
    def test_names_in_front_of_the_text_are_understood(
        self, lines: tuple[str, str], question: str
    ) -> None:
        index = LexicalIndex()
        for n, line in enumerate(lines):
            index.add(n, line)
        assert found(index, question)[0] == 1

    def test_a_name_is_a_whole_word(self) -> None:
        index = LexicalIndex()
        index.add(0, "roses", speaker="Anna")
        index.add(1, "roses", speaker="Ann")
        assert found(index, "Any annual roses of Ann?")[0] == 1
        assert found(index, "Any annual roses?")[0] == 0

    @pytest.mark.parametrize(
        ("question", "first"),
        [
            ("Which roses did I mention?", 0),
            ("Which roses did you suggest?", 1),
            ("我说过喜欢哪种 roses？", 0),
            ("给我打电话问 roses 的是谁？", 0),
        ],
    )
    def test_i_is_the_user_and_you_the_assistant(self, question: str, first: int) -> None:
        index = LexicalIndex()
        index.add(0, "white roses", speaker="user")
        index.add(1, "white roses", speaker="assistant")
        assert found(index, question)[0] == first

    @pytest.mark.parametrize(
        "question",
        [
            "Tell me what the roses cost.",
            "Could you please show me the roses?",
            "能给我介绍一下什么是 roses 么？",
            "请你告诉我 roses 多少钱？",
        ],
    )
    def test_whom_to_tell_is_not_whose_words_are_meant(self, question: str) -> None:
        index = LexicalIndex()
        index.add(0, "The roses cost nine euros.", speaker="Ann")
        for n, speaker in enumerate(["user", "assistant"] * 9, 1):
            index.add(n, f"{speaker} {n}", speaker=speaker)
        assert "speaker" not in index.explain(question, 1) | index.explain(question, 2)
        assert found(index, question)[0] == 0


class TestWhen:
    @pytest.mark.parametrize(
        "question",
        ["on 8 May 2023", "on May 8th", "May 8, 2023", "2023-05-08", "2023年5月8日", "5月8日"],
    )
    @pytest.mark.parametrize("form", ["[8 May 2023] Ann: {}", "2023-05-08 Ann: {}", "at"])
    def test_a_named_day_comes_first(self, question: str, form: str) -> None:
        index = LexicalIndex()
        for n in range(300):
            day = 1 + n // 10
            text = SMALL_TALK["en"][n % 14]
            if form == "at":
                index.add(n, text, at=f"2023-05-{day:02d}T10:00:00Z")
            else:
                index.add(n, form.replace("08", f"{day:02d}").replace("8 ", f"{day} ").format(text))
        assert set(found(index, f"What was there {question}?")) == set(range(70, 80))

    def test_the_days_after_a_named_day_follow_it(self) -> None:
        index = LexicalIndex()
        for n, day in enumerate([1, 7, 9, 30]):
            index.add(n, "small talk", at=f"2023-05-{day:02d}")
        assert found(index, "What happened on 7 May 2023?") == [1, 2]

    def test_a_date_in_front_is_no_part_of_the_text(self) -> None:
        index = LexicalIndex()
        for n in range(9):
            index.add(n, f"[8 May 2023] Ann: {'8 apples' if n == 8 else 'small talk'}")
        assert found(index, "the 8 pears")[0] == 8

    @pytest.mark.parametrize(
        "date", ["2023年5月8日", "2023年5月8日，", "2023-05-08", "2023年5月8日 10:30，"]
    )
    def test_a_date_in_front_of_an_unspaced_sentence_leaves_its_words(self, date: str) -> None:
        index = talk("zh", f"{date}奥尔加在屋顶上养了蜜蜂。")
        assert found(index, "谁在养蜜蜂？")[0] == 137
        assert found(index, "2023年5月8日发生了什么？")[0] == 137

    @pytest.mark.parametrize("question", ["in March 2024", "in 2024", "2024年3月"])
    def test_a_named_month_or_year(self, question: str) -> None:
        index = LexicalIndex()
        for n, day in enumerate(["2022-03-05", "2023-07-08", "2024-03-09"]):
            index.add(n, "small talk", at=day)
        assert found(index, f"What was there {question}?") == [2]

    @pytest.mark.parametrize("at", ["yesterday", "2023-13-45", "[]", ""])
    def test_a_time_that_is_none_is_no_time(self, at: str) -> None:
        index = LexicalIndex()
        index.add(0, "the bees arrived", at=at)
        assert found(index, "bees on 1 May 2023") == [0]

    @pytest.mark.parametrize(
        ("question", "better", "worse"),
        [
            ("When did the bees arrive?", "the bees arrived last Tuesday", "the bees arrived safe"),
            ("蜜蜂是什么时候到的？", "蜜蜂昨天到了", "蜜蜂总算到了"),
            ("How many bees came?", "three hundred bees came", "the lovely bees came"),
        ],
    )
    def test_when_wants_a_time_and_how_many_a_number(
        self, question: str, better: str, worse: str
    ) -> None:
        for texts in ((better, worse), (worse, better)):
            index = LexicalIndex()
            for n, text in enumerate(texts):
                index.add(n * 9, text)
                for k in range(1, 9):
                    index.add(n * 9 + k, "small talk")
            assert found(index, question)[0] == 9 * texts.index(better)


class TestSearch:
    def test_limit_and_order(self) -> None:
        hits = talk("en", "A budget of bees.").search("budget", limit=7)
        assert len(hits) == 7
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert talk("en").search("budget", limit=0) == []

    def test_excluded_entries_leave_their_place_to_others(self) -> None:
        index = talk("en")
        best = found(index, "coffee machine", 20)
        hits = index.search("coffee machine", limit=10, exclude=lambda n: n in best[:10])
        assert [hit.n for hit in hits] == best[10:]

    def test_among_a_range(self) -> None:
        index = talk("en")
        hits = index.search("coffee machine", limit=400, among=range(100, 120))
        assert hits
        assert all(100 <= hit.n < 120 for hit in hits)
        assert index.search("coffee machine", limit=5, among=range(900, 950)) == []
        assert index.search("coffee machine", limit=5, among=range(50, 20)) == []

    def test_numbers_may_have_gaps(self) -> None:
        index = LexicalIndex()
        for n in (3, 40, 500):
            index.add(n, "bees" if n == 40 else "small talk")
        assert [hit.n for hit in index.search("bees", limit=9, among=range(4, 500))] == [40]

    def test_an_entry_out_of_order_is_refused(self) -> None:
        index = talk("en")
        with pytest.raises(ValueError, match="entry 399 came after entry 399"):
            index.add(399, "again")

    def test_the_same_entries_give_the_same_hits(self) -> None:
        assert talk("zh").search("咖啡机坏了吗", limit=50) == talk("zh").search(
            "咖啡机坏了吗", limit=50
        )

    def test_a_page_as_a_query_finds_the_page(self) -> None:
        page = " ".join(f"word{n} beehive{n}" for n in range(300))
        assert found(talk("en", page), page)[0] == 137

    @pytest.mark.parametrize("form", ["{question} {page}", "{page} {question}"])
    def test_a_question_around_a_page_is_read(self, form: str) -> None:
        query = form.format(question="Where are the beehives?", page="lorem ipsum " * 2000)
        assert found(talk("en", "The beehives are here."), query)[0] == 137


class TestRemove:
    def test_what_is_removed_is_never_found_again(self) -> None:
        index = talk("en", "My sister Olga keeps bees.")
        index.remove(137)
        assert len(index) == 399
        assert found(index, "Olga's bees") == []
        assert found(index, "coffee machine")

    def test_no_word_of_it_stays(self) -> None:
        secret, silent = LexicalIndex(), LexicalIndex()
        for n in range(40):
            rare = f"nikto{n}" if n < 9 else "barada" * (n < 20)
            secret.add(n, f"Klaatu {rare}", speaker="Gort")
            silent.add(n, "")
        for n in range(40):
            secret.remove(n)
            silent.remove(n)
        assert found(secret, "What did Gort say? Klaatu barada nikto3") == []
        assert secret.bytes == silent.bytes

    def test_a_frequent_word_can_be_removed_everywhere(self) -> None:
        index = LexicalIndex()
        for n in range(80):
            index.add(n, "bees")
        for n in range(0, 80, 2):
            index.remove(n)
        assert sorted(found(index, "bees", 100)) == list(range(1, 80, 2))
        for n in range(1, 80, 2):
            index.remove(n)
        assert found(index, "bees") == []
        assert len(index) == 0

    def test_unknown_numbers_are_let_be(self) -> None:
        index = talk("en", count=10)
        index.remove(99)
        index.remove(-1)
        assert len(index) == 10


def test_bytes_follow_the_memory_taken() -> None:
    rng = random.Random(3)
    texts = [" ".join(f"w{int(rng.paretovariate(0.6))}" for _ in range(25)) for _ in range(1500)]
    tracemalloc.start()
    index = LexicalIndex()
    for n, text in enumerate(texts):
        index.add(n, text)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 2.5 < index.bytes < taken * 2.5
    assert LexicalIndex().bytes < index.bytes / 50


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("competed", "competition"),
        ("running", "ran"),
        ("passing", "passed"),
        ("passing", "pass"),
        ("watches", "watch"),
        ("stories", "story"),
        ("Ann's", "ann"),
        ("1,200", "1200"),
        ("May 8th", "may 08"),
        ("ＡＢＣ１２", "abc12"),
        ("Zürich", "zurich"),
        ("か\u3099", "が"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other) != []


def test_chinese_is_characters_and_pairs() -> None:
    assert terms("养蜜蜂") == ["养", "蜜", "蜂", "养蜜", "蜜蜂"]


@pytest.mark.parametrize(
    ("said", "other", "question"),
    [
        ("医生开了吗啡。", "他每天喝咖啡。", "谁开了吗啡？"),
        ("哪吒的玩偶在柜子里。", "他喜欢孙悟空。", "哪吒在什么地方？"),
        ("任何时候都可以退票。", "这时候火车晚点。", "任何时候都可以退吗？"),
    ],
)
def test_words_that_begin_or_end_like_asking_stay_whole(
    said: str, other: str, question: str
) -> None:
    index = LexicalIndex()
    index.add(0, other)
    index.add(1, said)
    assert found(index, question)[0] == 1
    assert all(word in matter(question) for word in ("吗啡", "哪吒", "任何时候") if word in said)


@pytest.mark.parametrize(
    "question", ["温泉酒店有什么特点？", "温泉酒店是怎么样的？", "请问温泉酒店在哪里呢？"]
)
def test_what_a_question_asks_with_is_no_word_of_it(question: str) -> None:
    index = LexicalIndex()
    index.add(0, "温泉酒店建于山谷，石墙木顶。")
    index.add(1, "九点关门。")
    index.add(2, "什么？怎么样？请问哪里呢？")
    assert found(index, question)[0] == 0
    assert "words" not in index.explain(question, 2)


def test_identifiers_stay_apart() -> None:
    assert terms("HAT0012345 HAT0012346") == ["hat0012345", "hat0012346"]


def test_of_marks_in_one_another_the_inner_text_is_quoted() -> None:
    assert quotes("“the “north wing” of it” and 《《红楼梦》") == ["north wing", "红楼梦"]
