"""`afterturn`: every command, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

import afterturn as sdk
from afterturn_core.errors import AfterturnError, RequestError, SchemaError, SettingsError
from afterturn_core.settings import load_settings

from .commands import (
    adapters,
    agents,
    backup,
    demo,
    erasure,
    evaluation,
    feedback,
    install,
    keys,
    rounds,
    turns,
)
from .connection import advice
from .output import FAILED, USAGE, say_error

app = typer.Typer(
    name="afterturn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="An online learning server for personal agents.",
)
install.add_to(app)
for command in (demo.demo, backup.backup, backup.restore, erasure.erase):
    app.command()(command)
for name, group in (
    ("agents", agents.app),
    ("keys", keys.app),
    ("turns", turns.app),
    ("rounds", rounds.app),
    ("adapters", adapters.app),
    ("feedback", feedback.app),
    ("eval", evaluation.app),
):
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default the process's own; exits with 0 done, 1 failed, 2 wrong usage."""
    try:
        app(args=arguments)
    except (SettingsError, RequestError, SchemaError) as error:
        _end(error.message, USAGE)
    except AfterturnError as error:
        _end(error.message, FAILED)
    except sdk.ConnectionFailed as error:
        _end(f"{error}. Is it running? Start it with `afterturn up`, or set AFTERTURN_BASE_URL.", FAILED)
    except sdk.MissingKey as error:
        _end(f"{error}. {advice(load_settings())}", USAGE)
    except (sdk.Unauthorized, sdk.Forbidden) as error:
        _end(f"{error}. {advice(load_settings())}", FAILED)
    except (sdk.ConfigurationError, ValueError) as error:
        _end(str(error), USAGE)
    except sdk.AfterturnError as error:
        _end(str(error), FAILED)
    sys.exit(0)


def _end(message: str, code: int) -> NoReturn:
    say_error(message)
    sys.exit(code)
