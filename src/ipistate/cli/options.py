"""Options that several verbs have, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click


FILE: Final = click.Path(dir_okay=False, path_type=Path)
"""A file that is named, and not standard input."""

AS_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON document."
)
DIRECTORY: Final = click.argument("directory", type=click.Path(path_type=Path))
