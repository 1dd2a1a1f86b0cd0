"""`ce constraints`: what every chat call of a user in a project must be told (D-06)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar
from unicodedata import category

import typer
from rich.console import Console

from ce_engine.apps.cli.options import Account, AsJson, StoreUrl
from ce_engine.apps.cli.reading import engine_over
from ce_engine.apps.present.output import console, print_json, printable
from ce_engine.create import ContextEngine
from ce_engine.errors import ConfigError, SchemaValidationError
from ce_engine.schema.enums import Priority
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import CONSTRAINTS, Constraint, Standing
from ce_engine.sessions.owner.constraints import shown_digest


T = TypeVar("T")
User = Annotated[
    str, typer.Option("--user", metavar="ID", help="Whose.", show_default="the unnamed one")
]
Project = Annotated[
    str,
    typer.Option("--project", metavar="ID", help="In which.", show_default="the unnamed one"),
]
Text = Annotated[str, typer.Argument(help="What must be, in words; it is stored redacted.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="As `ce constraints list` names it.")]
Urgency = Annotated[
    Priority | None,
    typer.Option(
        "--priority",
        help="must or high; of a derived one, medium or low.",
        show_default=False,
    ),
]
Derived = Annotated[
    bool, typer.Option("--derived", help="Found by a program: it goes first when room is short.")
]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="WORD", help="What it is about: style, plot, ..."),
]

_ACCEPT = "ce constraints accept ID... --yes"
_UNSEEN = ("Cf", "Cn", "Co", "Cs")
"""Categories of characters that few terminals show: formats, tags, what is in no script."""
_MARKS: dict[Standing | None, list[str]] = {
    Standing.UNVERIFIED: ["not verified"],
    Standing.FORGED: ["forged"],
}

constraints = typer.Typer(
    help="List, add, update and delete constraints: they go out with every chat call.",
    no_args_is_help=True,
    add_completion=False,
)


@constraints.command("list")
def list_(
    *,
    kind: Kind = None,
    forged: Annotated[
        bool,
        typer.Option("--all", help="Also such as are not what was set, and go out in no call."),
    ] = False,
    store: StoreUrl = None,
    account: Account = "",
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """List the constraints, or those of a kind, in the order in which they go out."""
    scope = _scope(account, user, project)
    items, standing, digest = _run(store, lambda engine: _listed(engine, scope, forged=forged))
    if kind is not None:  # not all that there is to look at
        items, digest = [constraint for constraint in items if constraint.kind == kind], ""
    _print(items, standing, digest, as_json=as_json)
    if as_json:
        return
    if not items:
        console().print(
            "no constraints of this user in this project: `ce constraints add TEXT` adds one"
        )
    if digest:
        console().print(f"to accept of these what is right: `{_ACCEPT} --digest {digest}`")


@constraints.command()
def add(  # noqa: PLR0913 - one parameter an option
    text: Text,
    *,
    priority: Urgency = None,
    derived: Derived = False,
    kind: Kind = None,
    store: StoreUrl = None,
    account: Account = "",
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Add a constraint; a running app tells its model with its next call."""
    scope = _scope(account, user, project)

    def work(engine: ContextEngine) -> Awaitable[Constraint]:
        return engine.constraints.create(
            scope, text, derived=derived, priority=priority, kind=kind or ""
        )

    _print([_run(store, work)], as_json=as_json)


@constraints.command()
def update(  # noqa: PLR0913 - one parameter an option
    constraint_id: Id,
    text: Annotated[str | None, typer.Argument(help="The new words.", show_default=False)] = None,
    *,
    priority: Urgency = None,
    kind: Kind = None,
    store: StoreUrl = None,
    account: Account = "",
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Change a constraint's words, priority or kind."""
    scope = _scope(account, user, project)

    def work(engine: ContextEngine) -> Awaitable[Constraint]:
        return engine.constraints.update(
            scope, constraint_id, text=text, priority=priority, kind=kind
        )

    _print([_run(store, work)], as_json=as_json)


@constraints.command()
def delete(
    constraint_id: Id,
    *,
    store: StoreUrl = None,
    account: Account = "",
    user: User = "",
    project: Project = "",
) -> None:
    """Delete a constraint."""
    scope = _scope(account, user, project)
    _run(store, lambda engine: engine.constraints.delete(scope, constraint_id))
    console().print("deleted 1 constraint")


@constraints.command()
def accept(  # noqa: PLR0913 - one parameter an option
    constraint_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="As `ce constraints list --all` names them."),
    ] = None,
    *,
    none: Annotated[bool, typer.Option("--none", help="None of them is right.")] = False,
    digest: Annotated[
        str,
        typer.Option(
            metavar="DIGEST", help="Of what was looked at: `ce constraints list --all` prints it."
        ),
    ] = "",
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Show nothing, and do not ask: --digest says of what."),
    ] = False,
    store: StoreUrl = None,
    account: Account = "",
    user: User = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Have these hold as set from now on, and delete the others, where `ce verify` finds them forged or not verified.

    Shows what is there, and asks. Where something else is there by the time you answer, nothing is changed. A
    script gives --yes, and the digest that `ce constraints list --all` printed when somebody looked.
    """
    if bool(constraint_ids) == none:
        raise ConfigError("name the constraints that are right, or give --none if none of them is")
    if yes and not digest:
        raise ConfigError(
            "with --yes nobody looks: give the --digest of what was looked at, as `ce constraints list "
            "--all` prints it"
        )
    scope, ids = _scope(account, user, project), constraint_ids or []
    if not yes:
        items, standing, now = _run(store, lambda engine: _listed(engine, scope, forged=True))
        _ask(items, standing, ids)
        digest = digest or now
    _print(
        _run(store, lambda engine: engine.constraints.accept(scope, ids, shown=digest)),
        as_json=as_json,
    )


async def _listed(
    engine: ContextEngine, scope: Scope, *, forged: bool
) -> tuple[Sequence[Constraint], Standing, str]:
    """The constraints, how they stand, and where somebody is to accept them, the digest of what is shown."""
    setting = await engine.loop.share(engine.store.get_setting(scope, CONSTRAINTS))
    standing = setting.standing if setting is not None else Standing.INTACT
    items: Sequence[Constraint] = []
    try:
        items = await engine.constraints.list(scope, forged=forged)
    except SchemaValidationError:
        if not forged:
            raise
        console(err=True).print("what is stored as constraints can be read by nobody")
    is_open = standing is not Standing.INTACT
    return items, standing, shown_digest(engine.store.secret, scope, items) if is_open else ""


def _ask(items: Sequence[Constraint], standing: Standing, ids: Sequence[str]) -> None:
    for constraint in items:
        fate = "keep  " if constraint.constraint_id in ids else "delete"
        _print_line(console(err=True), f"{fate}  {_line(constraint, standing)}")
    hits = sum(constraint.constraint_id in ids for constraint in items)
    typer.confirm(f"Have {hits} hold as set, and delete {len(items) - hits}?", abort=True, err=True)


def _scope(account: str, user: str, project: str) -> Scope:
    return Scope(session_id="ce", account_id=account, user_id=user, project_id=project)


def _run(url: str | None, work: Callable[[ContextEngine], Awaitable[T]]) -> T:
    async def main() -> T:
        async with engine_over(url) as engine:
            return await work(engine)

    return asyncio.run(main())


def _print(
    items: Sequence[Constraint],
    standing: Standing | None = None,
    digest: str = "",
    *,
    as_json: bool,
) -> None:
    if as_json:
        more: dict[str, str] = {} if standing is None else {"standing": standing}
        more |= {"digest": digest} if digest else {}
        print_json([{**constraint.model_dump(mode="json"), **more} for constraint in items])
        return
    for constraint in items:
        _print_line(console(), _line(constraint, standing))


def _line(constraint: Constraint, standing: Standing | None) -> str:
    marks = [*([constraint.kind] if constraint.kind else []), str(constraint.priority)]
    marks += ["derived"] if constraint.derived else []
    marks += [f"{constraint.redacted} redacted"] if constraint.redacted else []
    marks += _MARKS.get(standing, [])
    return f"{constraint.constraint_id}  {' '.join(constraint.text.split())}  ({', '.join(marks)})"


def _print_line(screen: Console, line: str) -> None:
    """Print all that a model would read of it, what a terminal shows nothing of too."""
    text = "".join(
        character.encode("unicode_escape").decode() if category(character) in _UNSEEN else character
        for character in printable(line)
    )
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
