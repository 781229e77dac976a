"""Sphinx configuration: MyST pages, the API from docstrings, warnings are errors."""

from __future__ import annotations

import re

from importlib.metadata import version as installed
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ipistate"
author = "The ipistate developers"
project_copyright = "2026, The ipistate developers"
release = version = installed("ipistate")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"ipistate {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
maximum_signature_line_length = 80

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
napoleon_use_rtype = False

nitpicky = True
# Types of Python and of other packages: their manuals are not read, so that a build
# needs no network.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(_?asyncio|collections|typing|types|starlette|pathlib|hypothesis|aiohttp)\..*",
    ),
    (
        "py:.*",
        r"(Any|Self|T|V|S|Mapping|Iterable|Iterator|Callable|Collection|SearchStrategy)",
    ),
    (
        "py:.*",
        r"(Path|PurePath|R_co|Secret|Adopt|Row|Finding|Function|MappingProxyType|Severity|CallCheck|CallTool|Temper|AbstractAsyncContextManager)",
    ),
    (
        "py:.*",
        r"(Worker|OnBroken|Run|ReportLine|Complete|Resolver|Starlette|ASGIApp|HttpClient|RunBudget|ipistate\.clients\.http\.HttpClient)",
    ),
    (
        "py:.*",
        r"(CutOff|Rollout|Aggregate|WorldMachine|ipistate\.sessions\.state\.S|ipistate\.protocol\.records\.R_co|ipistate\.kernel\.places\.J)",
    ),
]


def readable_defaults(*arguments: object) -> tuple[str, str | None] | None:
    """Show the default of an attrs field as ``...``, not as attrs looks it up."""
    signature, returns = arguments[-2:]
    if not isinstance(signature, str):
        return None
    shown = re.sub(r"attr_dict\['\w+'\]\.default", "...", signature)
    return shown, returns if isinstance(returns, str) else None


def setup(app: Sphinx) -> None:
    """Register what this configuration adds to Sphinx."""
    app.connect("autodoc-process-signature", readable_defaults)
