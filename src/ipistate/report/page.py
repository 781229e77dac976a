"""Writing the page: one HTML file that asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib

from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup

from ipistate.report import changed, figures
from ipistate.report.chunk import packed
from ipistate.report.settings import setting_rows
from ipistate.report.tally import MEASURES
from ipistate.report.texts import spelled, visible


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ipistate.report.index import Index
    from ipistate.report.runs import Run

SCRIPTS: Final = (
    *("data", "text", "json", "tables", "list", "search", "viewer", "keys"),
)
"""Parts of the page's one script, in their order."""


def page(
    title: str, runs: Sequence[Run], index: Index, chunks: Iterable[str]
) -> Iterator[str]:
    """Write the page in parts.

    Args:
        title: Its title, any text.
        runs: The runs, one at least.
        index: The rollouts of all of them.
        chunks: Their views, as ``chunk.Chunk.data``.
    """
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
    style = _asset("report.css")
    words = {"statuses": figures.STATUSES, "dimensions": figures.TITLES}
    names = [spelled(run.name) for run in runs]
    by_task = [run.tasks for run in runs]
    changes = changed.changes(by_task, index.tasks.values())
    return (
        _templates()
        .get_template("page.html")
        .generate(
            title=title,
            runs=runs,
            rollouts=sum(run.groups.total.rollouts for run in runs),
            breakdowns={one.name: one for one in figures.breakdowns(runs)},
            columns=figures.COLUMNS,
            few=figures.FEW,
            leading=figures.leading(runs),
            settings=[*setting_rows(runs)],
            pairings=[*changed.pairings(by_task)],
            changes=changes[: changed.MOST_TASKS],
            changes_left=max(0, len(changes) - changed.MOST_TASKS),
            matrices=[*figures.matrices(runs)],
            comparisons=[*figures.comparisons(runs)],
            measures=MEASURES,
            names=figures.NAMES,
            statuses=figures.STATUSES,
            style=Markup(style),  # noqa: S704 - a file of this package
            script=Markup(script),  # noqa: S704 - as above
            policy=_policy(style, script),
            index=packed({**index.to_document(), **words, "runs": names}),
            chunks=chunks,
            version=version("ipistate"),
        )
    )


def _templates() -> Templates:
    made = Templates(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("ipistate.report"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "visible": visible,
        "spelled": spelled,
        "quoted": partial(quote, safe=""),
        "percent": _percent,
        "signed": _signed,
        "shares": figures.shares,
        "judged": figures.judged,
        "useful": figures.useful,
    }
    made.filters.update(filters)
    return made


def _percent(value: float | None, digits: int = 1) -> str:
    return "\u2013" if value is None else f"{100 * value:.{digits}f}"


def _signed(value: float) -> str:
    text = f"{100 * value:+.1f}"
    return "±0.0" if float(text) == 0 else text.replace("-", "\u2212")


def _asset(name: str) -> str:
    return files("ipistate.report").joinpath("assets", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    rules: dict[str, Any] = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
