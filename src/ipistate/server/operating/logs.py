"""Log records as lines on standard error, as text or as one JSON object each.

Loggers are named ``ipistate.server.*``. No line shows a secret or what a world holds, so
exceptions are logged with their type and place, but without their message.
"""

from __future__ import annotations

import json
import logging
import sys

from datetime import UTC, datetime
from enum import StrEnum
from traceback import format_tb
from types import TracebackType
from typing import Any, Final, TypeAlias


_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
)

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogForm(StrEnum):
    """How a record becomes a line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TextFormatter(logging.Formatter):
    """Lines for people."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        return trace(ei[1])


class JsonFormatter(logging.Formatter):
    """Lines for machines: the usual members, then what was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {n: v for n, v in vars(record).items() if n not in _PLAIN}
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extra,
        }
        if record.exc_info and record.exc_info[1] is not None:
            document["exception"] = type(record.exc_info[1]).__qualname__
            document["trace"] = trace(record.exc_info[1])
        return json.dumps(document, default=str, separators=(",", ":"))


def trace(error: BaseException | None) -> str:
    """Write an exception and its causes without their messages, which may hold data."""
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        parts.insert(0, "".join(format_tb(error.__traceback__)) + name)
        error = error.__cause__ or error.__context__
    return "\nled to\n".join(parts)


def configure(form: LogForm, level: LogLevel) -> None:
    """Write this process's log records to standard error.

    Other packages' records are written from warnings on.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("ipistate").setLevel(level.upper())


def ready_line(form: LogForm, address: str, **engine: str) -> str:
    """Return the line that says that connections are accepted, at any level.

    Args:
        form: With JSON the line names the engine, too.
        address: Where the server can be reached.
        engine: The event loop and the HTTP parser that serve.
    """
    message = f"serving on {address}"
    if form is LogForm.TEXT:
        return f"ipistate: {message}"
    members = {"name": "ipistate.server", "levelname": "INFO", "msg": message}
    record = logging.makeLogRecord({**members, "address": address, **engine})
    return _formatter(form).format(record)


def _formatter(form: LogForm) -> logging.Formatter:
    return JsonFormatter() if form is LogForm.JSON else TextFormatter()
