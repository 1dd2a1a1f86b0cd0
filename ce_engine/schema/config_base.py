"""The base of configurations: frozen, and a bad value is an error that names the field and the cure."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ce_engine.errors import ConfigError
from ce_engine.schema.frozen import frozen


class FrozenConfig(BaseModel):
    """A part of the configuration.

    Raises:
        ConfigError: a value is not allowed, or there is no such setting.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_explain(type(self), error)) from error
        self.__dict__.update({name: frozen(value) for name, value in self.__dict__.items()})


def _explain(kind: type[BaseModel], error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        place = ".".join(map(str, item["loc"])) or "(all)"
        if item["type"] == "extra_forbidden":
            names = ", ".join(sorted(kind.model_fields))
            lines.append(f"{place} is no setting; known here: {names}")
        else:
            input_text = "" if item["type"] == "missing" else f", found {item['input']!r}"
            lines.append(f"{place}: {item['msg'][0].lower()}{item['msg'][1:]}{input_text}")
    return f"invalid {kind.__name__}: " + "; ".join(lines)
