"""A page in the reader's language and colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ce_engine.apps.present.glossary import meaning_words, term_words
from ce_engine.apps.present.language import Language, Say, choose_language, languages
from ce_engine.apps.present.report_lines import code_words
from ce_engine.apps.present.vocabulary import (
    attachment_words,
    estimator_words,
    fate_words,
    problem_words,
    speaker,
    word,
)
from ce_engine.apps.web.filters import FILTERS, finalize
from ce_engine.apps.web.index import SessionIndex
from ce_engine.apps.web.links import LINKS
from ce_engine.apps.web.reading import Reader


HERE = Path(__file__).parent
STATIC = HERE / "static"
LANGUAGE_COOKIE, THEME_COOKIE = "ce_language", "ce_theme"
THEMES = ("light", "dark")
"""Beside none, which is the system's own."""


@dataclass(frozen=True, slots=True)
class Taste:
    """How somebody wants pages."""

    language: Language
    theme: str


def taste_of(request: Request) -> Taste:
    """By the switches of the page, else by what the browser says."""
    theme = request.cookies.get(THEME_COOKIE, "")
    code = request.cookies.get(LANGUAGE_COOKIE, "")
    language = choose_language(code, request.headers.get("accept-language", ""))
    return Taste(language, theme if theme in THEMES else "")


def reader_of(request: Request) -> Reader:
    """What this server's pages read."""
    return cast("Reader", request.app.state.reader)


def index_of(request: Request) -> SessionIndex:
    """What is known of all sessions."""
    return cast("SessionIndex", request.app.state.index)


@cache
def environment() -> Environment:
    """The templates: everything escaped, everything visible, nothing undefined."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(FILTERS)
    templates.globals.update(LINKS)
    templates.globals["static"] = static_url
    return templates


@cache
def static_url(name: str) -> str:
    """The address of a file of the page; another version of it has another address."""
    stamp = f"{(STATIC / name).stat().st_mtime_ns:x}"
    return f"/static/{name}?v={stamp}"


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of a template.

    It has beside `values`: `t` (says a text in the reader's language), `word` and its like (values of
    vocabularies), `taste`, `languages`, `here`
    (its own address), `part` (whether htmx asked, for a part of the page).
    """
    return HTMLResponse(rendered(request, template, **values), status)


def sayers(say: Say) -> Mapping[str, Any]:
    """What templates say things with."""
    words = (
        word,
        speaker,
        code_words,
        estimator_words,
        problem_words,
        attachment_words,
        fate_words,
        term_words,
        meaning_words,
    )
    return {"t": say, **{function.__name__: partial(function, say=say) for function in words}}


def rendered(request: Request, template: str, **values: Any) -> str:
    """The HTML of a template."""
    taste = taste_of(request)
    query = f"?{request.url.query}" if request.url.query else ""
    context: Mapping[str, Any] = {
        **sayers(taste.language),
        "taste": taste,
        "languages": languages(),
        "here": f"{request.url.path}{query}",
        "part": request.headers.get("hx-request") == "true",
        **values,
    }
    return environment().get_template(template).render(context)
