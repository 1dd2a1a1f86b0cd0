"""What stands masked in the store: where it went, that the provider got the value, and how it is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from ce_engine import RuntimeConfig, StoreConfig, create_context_engine
from ce_engine.apps.web.links import costs_url
from tests.hosts.cli_host import TALK, url_of
from tests.hosts.ward_host import SCOPE, Ward, small_talk
from tests.unit.apps.web.visiting import plain, visit


PHONE, MAIL = "+44 1632 960186", "ines@example.org"


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """A record with a telephone number, then small talk until it is gone; an answer with a mail address."""
    url = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault here
    engine = create_context_engine(url, config=patient)
    engine.sync.check()
    made = Ward(engine, 400)
    record = f"Captain, a parrot, 3 years. Owner: Ines Oyelaran, {PHONE}."
    made.look_up("Who is Captain?", "patient_record", record, "A parrot.")
    made.ask("And her mail? See [DOC_1].", f"It is {MAIL}; [Figure_3] shows it.")
    small_talk(made, 14)
    engine.sync.flush()
    yield made
    engine.sync.close()


@pytest.fixture(scope="module")
def pages(ward: Ward) -> Iterator[TestClient]:
    with visit(ward.app.engine.store.url) as client:
        yield client


def masks_of(pages: TestClient) -> list[str]:
    html = pages.get(costs_url(SCOPE.user_id, SCOPE.session_id)).text
    part = html.split('class="masks"')[1].split("</details>")[0]
    assert "2 values stand masked in the store" in plain(part)
    assert "The provider got the values themselves, also where they were quoted." in plain(part)
    assert "read back" not in plain(part)
    return [plain(item) for item in re.findall(r"<li>(.*?)</li>", part, re.DOTALL)]


def stretches(ward: Ward, value: str) -> str:
    """The turns whose input had a value, from the wire, as the page writes them."""
    turns = [n for n, text in enumerate(ward.inputs, start=1) if value in text]
    assert turns == list(range(turns[0], turns[-1] + 1))
    return f"{turns[0]} – {turns[-1]}"


def test_each_mask_has_the_turns_in_which_the_provider_got_its_value(
    ward: Ward, pages: TestClient
) -> None:
    assert masks_of(pages) == [
        f"[PHONE_1] went out in turns: {stretches(ward, PHONE)}",
        f"[EMAIL_1] went out in turns: {stretches(ward, MAIL)} · answers have it: 3",
    ]


def test_a_session_says_that_nothing_is_masked_and_that_it_has_no_rules(
    pages: TestClient, talk_pages: TestClient
) -> None:
    none = "no value stands masked in the store"
    page = plain(pages.get(costs_url(SCOPE.user_id, SCOPE.session_id)).text)
    assert none not in page
    assert "rules no rule went out" in page
    talk = {"id": TALK.session_id, "user": TALK.user_id}
    assert f"masked {none}" in plain(talk_pages.get("/session/costs", params=talk).text)


def test_who_looks_for_a_value_is_shown_the_masks(pages: TestClient) -> None:
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    text = plain(pages.get("/session/find", params={**who, "find": PHONE}).text)
    assert "No message" in text
    assert "The masks of this session: [PHONE_1] [EMAIL_1]" in text
    assert "hit" in plain(pages.get("/session/find", params={**who, "find": "[PHONE_1]"}).text)
    assert "masks of this session" not in plain(
        pages.get("/session/find", params={**who, "find": "parrot"}).text
    )
