"""A drawing of rectangles, lines and words, written as SVG by us, or as PNG by Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from ce_engine.apps.present.new_files import refuse_to_overwrite, write_new
from ce_engine.apps.present.output import printable
from ce_engine.errors import ConfigError, MissingDependencyError


SVG, PNG = ".svg", ".png"
SCALE = 2
"""Pixels of a PNG for each unit of the drawing."""
WORDS = "#1f2328"
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
"""As SVG and as Pillow name where a text is held."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle; `note` is shown where somebody points at it."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: Sequence[tuple[float, float]]
    colour: str
    width: float = 1.0
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Words:
    """A text of one line, held at its baseline."""

    x: float
    y: float
    text: str
    size: int = 12
    anchor: str = "start"
    colour: str = WORDS


@dataclass(slots=True)
class Drawing:
    """What is drawn, the later above the earlier, on white."""

    width: int
    height: int
    title: str
    marks: list[Rectangle | Line | Words] = field(default_factory=list)

    def add(self, *marks: Rectangle | Line | Words) -> None:
        """Draw above what is there."""
        self.marks += marks


def check(path: Path) -> None:
    """See that the file can be drawn, before anything else is done.

    Raises:
        ConfigError: its name ends in another way, it is there already, or its folder is not.
        MissingDependencyError: a PNG needs Pillow.
    """
    if path.suffix.lower() not in (SVG, PNG):
        raise ConfigError(f"{str(path)!r} is neither FILE.svg nor FILE.png: name one of these")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder of {str(path)!r} is not there: make it, or name another one")
    refuse_to_overwrite(path)
    if path.suffix.lower() == PNG:
        _pillow()


def write(path: Path, drawing: Drawing) -> None:
    """Write the drawing in the form that the file's name ends in.

    Raises:
        ConfigError: it is there already, or cannot be written.
        MissingDependencyError: a PNG needs Pillow.
    """
    if path.suffix.lower() == PNG:
        packed = BytesIO()
        _picture(drawing).save(packed, format="PNG")
        write_new(path, packed.getvalue())
    else:
        write_new(path, "\n".join(_svg(drawing)).encode("utf-8", "replace"))


def _svg(drawing: Drawing) -> Iterator[str]:
    """One element a line; nothing in it is loaded, and nothing runs."""
    title = _escaped(drawing.title)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawing.width} {drawing.height}" '
        f'width="{drawing.width}" height="{drawing.height}" role="img" aria-label="{title}" '
        'font-family="system-ui, sans-serif">'
    )
    yield f"<title>{title}</title>"
    yield f'<rect width="{drawing.width}" height="{drawing.height}" fill="#ffffff"/>'
    for mark in drawing.marks:
        yield _element(mark)
    yield "</svg>\n"


def _element(mark: Rectangle | Line | Words) -> str:
    if isinstance(mark, Rectangle):
        place = (
            f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{mark.width:.1f}" height="{mark.height:.1f}"'
        )
        paint = f'fill="{mark.colour}"{_opacity(mark.opacity)}'
        if not mark.note:
            return f"<rect {place} {paint}/>"
        return f"<rect {place} {paint}><title>{_escaped(mark.note)}</title></rect>"
    if isinstance(mark, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        paint = f'stroke="{mark.colour}" stroke-width="{mark.width}"{_opacity(mark.opacity)}'
        return f'<polyline points="{points}" fill="none" {paint}/>'
    place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size}" text-anchor="{mark.anchor}"'
    return f'<text {place} fill="{mark.colour}">{_escaped(mark.text)}</text>'


def _opacity(value: float) -> str:
    return f' opacity="{value}"' if value < 1 else ""


def _escaped(text: str) -> str:
    return escape(printable(text))


def _pillow() -> tuple[Any, Any, Any]:
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingDependencyError(
            "a PNG needs Pillow. Run: pip install 'ce-integrations[plot]'; or name FILE.svg, which "
            "needs nothing"
        ) from error
    return Image, ImageDraw, ImageFont


def _picture(drawing: Drawing) -> Any:
    image, draw, fonts = _pillow()
    canvas = image.new("RGB", (drawing.width * SCALE, drawing.height * SCALE), "#ffffff")
    pen = draw.Draw(canvas, "RGBA")
    for mark in drawing.marks:
        if isinstance(mark, Rectangle):
            if mark.opacity > 0:
                right, bottom = mark.x + mark.width, mark.y + mark.height
                corners = _scaled([(mark.x, mark.y), (right, bottom)])
                pen.rectangle(corners, fill=_rgba(mark.colour, mark.opacity))
        elif isinstance(mark, Line):
            paint = _rgba(mark.colour, mark.opacity)
            pen.line(_scaled(mark.points), fill=paint, width=max(1, round(mark.width * SCALE)))
        else:
            place = (mark.x * SCALE, mark.y * SCALE)
            text, font = printable(mark.text), _font(fonts, mark.text, mark.size * SCALE)
            pen.text(place, text, fill=mark.colour, font=font, anchor=ANCHORS[mark.anchor])
    return canvas


def _scaled(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(round(x * SCALE), round(y * SCALE)) for x, y in points]


def _rgba(colour: str, opacity: float) -> tuple[int, int, int, int]:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return red, green, blue, round(255 * opacity)


WIDE_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "wqy-zenhei.ttc",
    "wqy-microhei.ttc",
    "DroidSansFallbackFull.ttf",
    "PingFang.ttc",
    "msyh.ttc",
)
"""Fonts with Chinese characters, as systems have them; Pillow's own has none."""


def _font(fonts: Any, text: str, size: int) -> Any:
    """Pillow's own font; for what it does not have, the first of the system's that is there."""
    for name in () if text.isascii() else WIDE_FONTS:
        try:
            return fonts.truetype(name, size)
        except OSError:
            continue
    return fonts.load_default(size)
