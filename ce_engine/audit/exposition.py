"""Figures in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Gauge:
    """One metric: a value for each set of labels."""

    name: str
    help: str
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Add to the value of these labels."""
        key = tuple((labels or {}).items())
        self.values[key] = self.values.get(key, 0) + value

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it; nothing where there is no value."""
        if not self.values:
            return
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} gauge"
        for labels, value in sorted(self.values.items()):
            label_text = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield (
                f"{self.name}{{{label_text}}} {_number(value)}"
                if label_text
                else f"{self.name} {_number(value)}"
            )


def _escaped(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no UTF-8
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
