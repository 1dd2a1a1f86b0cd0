"""`ce demo`, and the types between it and the demos of the adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint, entry_points
from shlex import quote
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ce_engine.apps.cli.options import AsJson, StoreUrl
from ce_engine.apps.present.amounts import PLACES
from ce_engine.apps.present.output import (
    change,
    clipped,
    console,
    number,
    percent,
    print_json,
    print_under,
)
from ce_engine.errors import AdapterError, MissingDependencyError
from ce_engine.stores.urls import DEFAULT, scheme_of
from ce_engine.text.tokens.prices import UNITS


DEMOS_GROUP = "ce_integrations.demos"
"""Entry point group: one object per framework that satisfies `Demo`."""

Progress = Callable[[int, int, str], None]
"""Called with (turns done, turns in all, what is being done now), as often as the demo likes."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the user asked for: a session of `turns` turns in `budget` tokens, stored at `store_url`."""

    turns: int = 120
    budget: int = 2000
    store_url: str = "sqlite:///ce.db"


class DemoQuestion(NamedTuple):
    """One of the fixed questions about an early turn, asked when the session is long."""

    question: str
    expected: str
    answer: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The figures of one demo.

    `asked` and `found` count the fixed questions at the end and those answered as expected;
    `tokens_with` is what went to the model through the engine, `tokens_without` what the same
    inputs of the host would have cost without it, both summed over all turns; `cost_with` and
    `cost_without` are what these inputs cost, cached prefixes apart, with the engine's own calls, of
    the calls of which both can be said, in `cost_unit`, and `cost_apart` what the inputs of the others
    cost, which stand beside nothing and count alike in both; `messages`,
    `evidences` and `tool_calls` are what the session holds afterwards. `model` names the model
    for the reader, `seconds` is how long the run took.
    """

    session_id: str
    store_url: str
    model: str
    turns: int
    asked: int
    found: int
    tokens_with: int
    tokens_without: int
    messages: int
    evidences: int
    tool_calls: int
    seconds: float
    questions: list[DemoQuestion] = field(default_factory=list)
    cost_with: float = 0.0
    cost_without: float = 0.0
    cost_apart: float = 0.0
    cost_unit: str = ""


@runtime_checkable
class Demo(Protocol):
    """The object behind an entry point of the group `ce_integrations.demos`."""

    def run(self, options: DemoOptions, progress: Progress) -> DemoResult:
        """Run an ordinary app of the framework with the engine installed, and say what came out.

        Raises:
            MissingDependencyError: The packages of the demo's extra are not installed.
        """


NOTES = 10
"""Lines about the progress where there is no terminal for a bar."""

ACTIVITY_CELLS = 40
ANSWER_CELLS = 200
INDENT = 13


def demo(
    *,
    framework: Annotated[
        str,
        typer.Option(
            "--framework",
            metavar="NAME",
            help="Whose demo to run; else the first here, by name.",
        ),
    ] = "",
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns of the session.")] = 120,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="The model's window in tokens, reply included.")
    ] = 2000,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run an ordinary app of a framework for many turns in a small budget, and give the figures.

    The app is about the Python distributions that are installed here. Its model is that of
    OPENAI_BASE_URL and OPENAI_API_KEY if they are set, else a small offline one. With --json, an
    object with the figures and the questions.
    """
    options = DemoOptions(turns=turns, budget=budget, store_url=store or DEFAULT)
    scheme_of(options.store_url)
    with _progress() as progress:
        ran, result = _run(framework, options, progress)
    if as_json:
        print_json(_plain(result))
    else:
        _print(ran, result)


def _run(framework: str, options: DemoOptions, progress: Progress) -> tuple[str, DemoResult]:
    """Run the demo of a framework, and say which; without a name the first whose packages are installed.

    Raises:
        AdapterError: there is none, or what is there is no demo.
        MissingDependencyError: packages that it needs are not installed.
    """
    points = {point.name: point for point in entry_points(group=DEMOS_GROUP)}
    *others, last = sorted(points) or [""]
    for name in () if framework else others:
        with suppress(MissingDependencyError):
            return name, _load(name, points).run(options, progress)
    name = framework or last
    return name, _load(name, points).run(options, progress)


def _load(framework: str, points: dict[str, EntryPoint]) -> Demo:
    point = points.get(framework)
    if point is None:
        raise AdapterError(
            f"there is no demo for {framework!r}; there is one for: "
            f"{', '.join(sorted(points)) or 'none'}. Choose with --framework NAME."
        )
    try:
        candidate = point.load()
    except ImportError as error:
        if _top(error.name or "") == _top(point.module):
            raise AdapterError(
                f"the demo of {framework} cannot be loaded ({error}). Install it again."
            ) from error
        raise MissingDependencyError(
            f"the demo of {framework} needs what is not installed ({error}). "
            'Run: pip install "ce-integrations[demo]"'
        ) from error
    if not isinstance(candidate, Demo):
        raise AdapterError(
            f"the entry point {point.value!r} is a {type(candidate).__name__}; expected an object with "
            "run(options, progress), see ce_engine.apps.cli.demo.Demo"
        )
    return candidate


def _top(module: str) -> str:
    return module.partition(".")[0]


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on the terminal; elsewhere a line now and then. Both on stderr: stdout is the result's."""
    screen = console(err=True)
    if not screen.is_terminal:
        yield _notes(screen.print)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, TextColumn("{task.description}", markup=False), console=screen) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int, activity: str) -> None:
            activity = clipped(activity, ACTIVITY_CELLS)
            bar.update(task, completed=done, total=total, description=activity)

        yield tell


def _notes(write: Callable[[str], None]) -> Progress:
    """Progress as lines, at every tenth of the whole."""
    last_step = -1

    def tell(done: int, total: int, activity: str) -> None:  # noqa: ARG001 - for a bar only
        nonlocal last_step
        step = NOTES * done // max(total, 1)
        if step != last_step:
            last_step = step
            write(f"turn {done} of {total}")

    return tell


def _plain(result: DemoResult) -> dict[str, Any]:
    questions = [question._asdict() for question in result.questions]
    return {**asdict(result), "questions": questions}


def _print(framework: str, result: DemoResult) -> None:
    screen = console()
    saved = percent(result.tokens_without - result.tokens_with, result.tokens_without, PLACES)
    figures = {
        "framework": framework,
        "model": result.model,
        "turns": f"{number(result.turns)} in {result.seconds:.1f} s",
        "tokens sent": f"{number(result.tokens_with)}, without us {number(result.tokens_without)} "
        f"({saved} saved)",
        "cost": _cost(result),
        "recorded": f"{number(result.messages)} messages, {number(result.evidences)} evidence, "
        f"{number(result.tool_calls)} tool calls",
        "remembered": f"{result.found} of {result.asked} early facts",
    }
    for name, value in figures.items():
        if value:
            print_under(screen, INDENT, value, before=Text(name, style="bold"))
    for question in result.questions:
        mark = "ok  " if question.ok else "lost"
        print_under(screen, INDENT, f"{mark} {question.question}")
        if not question.ok:
            line = f"expected {question.expected!r}, answered {question.answer!r}"
            print_under(screen, INDENT + 5, clipped(line, ANSWER_CELLS))
    _print_next(screen, result)


def _cost(result: DemoResult) -> str:
    """What the inputs cost, and how much that is less or more; `""` where nobody says."""
    if not result.cost_unit:
        return ""
    places = 0 if result.cost_unit == UNITS else 4
    sums = (result.cost_with + result.cost_apart, result.cost_without + result.cost_apart)
    now, before = (f"{cost:,.{places}f}" for cost in sums)
    effect = change(*sums, PLACES)
    tenth = ", a cached one a tenth" if result.cost_unit == UNITS else ""
    return f"{now}, without us {before} ({effect}), in {result.cost_unit}{tenth}"


def _print_next(screen: Console, result: DemoResult) -> None:
    if scheme_of(result.store_url) == "memory":
        screen.print("\nThe store ended with the demo; with --store sqlite:///ce.db it stays.")
        return
    where = "" if result.store_url == DEFAULT else f" --store {quote(result.store_url)}"
    session = quote(result.session_id)
    screen.print("\nWhere to look next:")
    for command in ("ce sessions", f"ce show {session}", f"ce report {session}"):
        screen.print(f"  {command}{where}", soft_wrap=True)
