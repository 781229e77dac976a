"""Sphinx configuration: MyST pages, the API from docstrings, warnings are errors."""

from __future__ import annotations

from importlib.metadata import version as installed


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

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_rtype = False

nitpicky = True
# Types of Python and of other packages: their manuals are not read, so that a build
# needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(collections|typing|types|starlette|pathlib|re|enum)\..*"),
    ("py:.*", r"(Any|Self|T|V|S|Mapping|Iterable|Iterator|Callable|Collection)"),
    ("py:.*", r"(Path|Secret|Freeze|Row|Finding|Function|MappingProxyType|Severity)"),
]
