"""The verb serve: runs the manager in the foreground. Every setting is also an option.

It pauses the garbage collector during the start, then freezes what was loaded and lets it collect rarely. A
call makes some dozens of objects and no cycles, which reference counting frees. So the collector need not
scan the program itself, nor run after every 700 objects.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import sys
from contextlib import nullcontext, redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from lm_tools_bridge.terminal.command_line import Failure, json_option, print_line
from lm_tools_bridge.text.printable import printable
from manager import __version__, exit_codes
from manager.cli.output.manager_access import user_paths
from manager.configuration.settings import FIELDS, ConfigurationError, description, load_settings
from manager.startup.systemd import is_service

if TYPE_CHECKING:
    from manager.admin.control.services import StartedBy

SETTLE_AFTER_S: Final = 1.0
"""Delay of the collection after the start, so that the first requests do not wait for it."""
COLLECTOR_THRESHOLDS: Final = (10_000, 20, 50)
"""Thresholds of the three generations, as for `gc.set_threshold`."""


def pause_collector() -> None:
    """Collect nothing during the start, because imported modules stay."""
    gc.disable()


def resume_collector() -> None:
    """Collect what the start left behind, exclude all living objects from now on, and collect rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    gc.enable()


def _option(name: str) -> click.Option:
    """The option of a setting; None where it is not given, so that environment and file can speak."""
    words = name.replace("_", "-")
    text = f"{description(name)} [default: {FIELDS[name].default}]"
    plain = get_args(FIELDS[name].type)[0]
    if plain is bool:
        return click.Option([f"--{words}/--no-{words}"], default=None, help=text)
    choices = get_args(plain)
    kind: Any = click.Choice([str(value) for value in choices]) if choices else plain
    return click.Option([f"--{words}"], type=kind, default=None, help=text)


def _run(banner: bool | None, check: bool, background: bool, as_json: bool, **flags: Any) -> None:
    """Run the manager in the foreground.

    Ctrl-C stops it: calls in flight finish, then its workspace servers end. If another manager of this user
    runs, this one exits. Options override environment variables (LMTB_HTTP_PORT ...), which override
    config.toml. With --json, log lines go to standard output, too, and one line says where it is ready.
    """
    if as_json:
        flags["log_format"] = "json"
    paths = user_paths(starts=True)
    try:
        settings = load_settings(paths.config_file, os.environ, flags)
    except ConfigurationError as error:
        raise Failure(
            f"the configuration cannot be used: {error}",
            "correct it and start again",
            exit_code=exit_codes.HOPELESS,
            reason="configuration",
        ) from error
    pause_collector()
    from manager.daemon import run  # what --help and mistakes need not wait for
    from manager.startup.acquisition import settled

    if check:
        click.echo(__version__)
        return
    shows_banner = not as_json and (sys.stdout.isatty() if banner is None else banner)
    with redirect_stderr(sys.stdout) if as_json else nullcontext():
        ready = partial(_is_ready, greets=shows_banner, as_json=as_json)
        by: StartedBy = "background" if background else "foreground"
        code = run(settings, settled(paths), on_ready=ready, started_by="service" if is_service() else by)
    if code and as_json:
        text = f"the manager ended with exit code {code}"
        raise Failure(text, "the lines before say why", exit_code=code, reason="not_started")
    raise SystemExit(code)


def _is_ready(address: str, *, greets: bool, as_json: bool) -> None:
    import asyncio

    asyncio.get_running_loop().call_later(SETTLE_AFTER_S, resume_collector)
    if as_json:
        print_line({"ok": True, "address": address, "pid": os.getpid(), "version": __version__})
    if greets:
        click.echo(banner_text(address))
    sys.stdout.flush()


def banner_text(address: str) -> str:
    """What a person needs to know once the manager is ready: commands that work in the shell it runs in."""
    lmtb = printable(_typed())
    return "\n".join(
        (
            f"LM Tools Bridge {__version__} is ready at {printable(address)}",
            "",
            f"Connect your agents once, for all projects: {lmtb} client add --all",
            f"Any other client: {lmtb} client show other",
            f"State: {lmtb} status     Stop: Ctrl-C, or {lmtb} stop",
        )
    )


def _typed() -> str:
    """How a person starts this program: by name, or by its path where the name is not its own."""
    own = Path(sys.executable).with_name("lmtb")
    program = shutil.which("lmtb")
    is_same = program is not None and os.path.realpath(program) == os.path.realpath(own)
    return "lmtb" if is_same or not own.exists() else shlex.quote(str(own))


serve = json_option(
    click.Command(
        "serve",
        callback=_run,
        help=_run.__doc__,
        params=[
            click.Option(
                ["--banner/--no-banner"],
                default=None,
                help="Print how to connect once it is ready. [default: on a terminal]",
            ),
            click.Option(
                ["--check"],
                is_flag=True,
                help="Load the configuration and the program, print its version, and exit.",
            ),
            click.Option(["--background"], is_flag=True, hidden=True),
            *(_option(name) for name in FIELDS),
        ],
    )
)
"""Built from the settings, so that no option can be missing or mean something else."""
