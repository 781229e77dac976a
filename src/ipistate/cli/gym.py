"""``ipistate gym``: a folder that lets NeMo Gym's launcher start this server."""

from __future__ import annotations

import os
import re
import sys

from pathlib import Path
from string import Template
from typing import Any, Final

import click

from ipistate.cli.exits import LEGEND, MissingExtraError, refusing
from ipistate.cli.groups import VerbGroup
from ipistate.cli.gym_configuration import gym_server
from ipistate.cli.output_files import check_new, output_file
from ipistate.cli.texts import shown


VARIABLE: Final = "IPISTATE_CHECKPOINT_TOKEN"
"""Variable in which the token goes from the deployment's configuration to the server."""

_APP: Final = Template('''\
"""Serve ipistate as a resources server of NeMo Gym; made by `ipistate gym init`."""

import os
import sys

PYTHON = $python  # has ipistate installed
OPTIONS = []  # of `ipistate serve`, such as "--export-scope-only"

# NEMO_GYM_CONFIG_DICT and NEMO_GYM_CONFIG_PATH say host, port, name and token.
os.execv(PYTHON, [PYTHON, "-m", "ipistate", "gym", "serve", *OPTIONS, *sys.argv[1:]])
''')
_CONFIGURATION: Final = Template("""\
# ipistate as a resources server of NeMo Gym, with Gym's simple agent.
${name}_resources_server:
  resources_servers:
    ${name}:
      entrypoint: app.py
      domain: safety
      verified: false
      description: Resistance to indirect prompt injection, served by ipistate
${name}_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: ${name}_resources_server
      model_server:
        type: responses_api_models
        name: policy_model
      max_steps: 20
# For checkpoints of rollouts, which Gym's releases up to 0.7 do not have:
# checkpoint:
#   enabled: true
#   control_auth_token: $${oc.env:CHECKPOINT_TOKEN}
""")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@click.group("gym", cls=VerbGroup, epilog=LEGEND)
def command() -> None:
    """Let NeMo Gym's launcher start this server as one of its own.

    \b
      ipistate gym init resources_servers/ipistate
      gym env start --resources-server ipistate --model-type vllm_model ...
    """


@command.command("init", epilog=LEGEND)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write files that exist anew.")
def init(*, folder: Path, force: bool) -> None:
    """Write a resources server's folder for NeMo Gym: DIR.

    DIR is made if it is not there, and gets app.py, an empty requirements.txt and
    configs/NAME.yaml; NAME is the folder's own. The launcher finds it as
    resources_servers/NAME below the directory in which it is started, or below one
    that is named with --search-dir.

    As resources_servers/indirect_prompt_injection it takes the place of Gym's own
    server, and Gym's own configuration starts it.
    """
    name = folder.resolve().name
    if _NAME.fullmatch(name) is None:
        message = f"a folder's name is letters, digits, - and _, not {name!a}"
        raise click.UsageError(message)
    files = {
        folder / "app.py": _APP.substitute(python=ascii(sys.executable)),
        folder / "requirements.txt": "",
        folder / "configs" / f"{name}.yaml": _CONFIGURATION.substitute(name=name),
    }
    if not force:
        for file in files:
            check_new(str(file))
    with refusing(str(folder)):
        (folder / "configs").mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        with output_file(str(file)) as put:
            put(text.encode())
    for file in files:
        click.echo(shown(str(file)))


@command.command(
    "serve",
    epilog=LEGEND,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.pass_context
def serve(ctx: click.Context) -> Any:
    """Serve what the launcher's environment says; app.py runs this.

    NEMO_GYM_CONFIG_DICT is the configuration of the deployment, NEMO_GYM_CONFIG_PATH
    the name of this server in it. They give --host, --port and --instance-name of
    `ipistate serve`, and the token and lease of its `checkpoint:` block, if that is
    enabled. All other options are those of `ipistate serve`.
    """
    server = gym_server(os.environ)
    try:
        from ipistate.cli.serve import command as serving  # noqa: PLC0415 - an extra's module
    except ModuleNotFoundError as error:
        raise MissingExtraError("gym serve", error.name or "", "server") from error
    options = [*server.options, *ctx.args]
    if server.token is not None:
        os.environ[VARIABLE] = server.token
        options += ["--checkpoint-token-env", VARIABLE]
    with serving.make_context("serve", options, parent=ctx) as inner:
        return serving.invoke(inner)
