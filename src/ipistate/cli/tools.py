"""``ipistate tools``: what can be called, by domain or as function definitions."""

from __future__ import annotations

from typing import Final

import click

from ipistate.cli.exits import LEGEND
from ipistate.cli.terminal import emit, stdout_console, table
from ipistate.tools import RECORDS, TOOLS, Tool, function_definition


DOMAINS: Final = tuple(RECORDS)


@click.command("tools", epilog=LEGEND)
@click.option("--domain", type=click.Choice(DOMAINS), help="Only this domain's tools.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write OpenAI function definitions."
)
def command(*, domain: str | None, as_json: bool) -> None:
    """List the tools by domain, with what they read and write.

    With --json the output is the list "tools" of a request to the OpenAI Responses API.

    \b
      ipistate tools --domain hr
      ipistate tools --domain hr --json > tools.json
    """
    domains = DOMAINS if domain is None else (domain,)
    if as_json:
        chosen = [one for one in TOOLS.values() if set(one.domains) & set(domains)]
        emit([function_definition(one) for one in chosen])
        return
    lines = [
        [name, one.name, _signature(one), ", ".join(one.reads), ", ".join(one.writes)]
        for name in domains
        for one in TOOLS.values()
        if name in one.domains
    ]
    heads = ["domain", "tool", "arguments (* required)", "reads", "writes"]
    stdout_console().print(table(heads, lines))


def _signature(one: Tool) -> str:
    return ", ".join(f"{n}*" if n in one.required else n for n in one.names)
