"""Reads the settings that a manager of this user would start with, for verbs that need one of them."""

from __future__ import annotations

import os

from lm_tools_bridge.terminal.command_line import Failure
from manager import exit_codes
from manager.cli.output.manager_access import user_paths
from manager.configuration.settings import ConfigurationError, Settings, load_settings


def user_settings() -> Settings:
    """The settings of `config.toml` and of this environment.

    Raises:
        Failure: the configuration cannot be used.
    """
    try:
        return load_settings(user_paths().config_file, os.environ, {})
    except ConfigurationError as error:
        raise Failure(
            f"the configuration cannot be used: {error}",
            "correct it, then run this again",
            exit_code=exit_codes.HOPELESS,
            reason="configuration",
        ) from error
