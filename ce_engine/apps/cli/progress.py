"""How far a command is, on a terminal's stderr; nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(label: str, total: int, *, hidden: bool = False) -> Iterator[Callable[[], None]]:
    """A bar of `total` steps; the function makes one."""
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    screen = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=screen, transient=True, disable=hidden or not screen.is_terminal
    ) as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def spinner(label: str, *, hidden: bool = False) -> Iterator[Callable[[str], None]]:
    """That a command is at work on what nobody knows the length of; the function says what it does now."""
    from rich.console import Console  # noqa: PLC0415 - slow to import

    screen = Console(stderr=True)
    if hidden or not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(label) as status:
        yield status.update
