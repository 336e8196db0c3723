"""Makes the state of one end of a line in h2, with the limits of this program."""

from __future__ import annotations

from typing import Final

import h2.config
import h2.connection
import h2.settings

STREAM_WINDOW: Final = 1024 * 1024
LINE_WINDOW: Final = 16 * 1024 * 1024
MAX_FRAME: Final = 64 * 1024
MAX_STREAMS: Final = 400
"""Streams at a time; one carries one request at a time."""


def h2_state(*, is_client: bool) -> h2.connection.H2Connection:
    """The state, before the preface is sent."""
    config = h2.config.H2Configuration(client_side=is_client, header_encoding="utf-8")
    made = h2.connection.H2Connection(config)
    made.local_settings = h2.settings.Settings(
        client=is_client,
        initial_values={
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            h2.settings.SettingCodes.MAX_FRAME_SIZE: MAX_FRAME,
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 4096,
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
        },
    )
    made.max_inbound_frame_size = MAX_FRAME  # h2 notes it for later changes of settings alone
    return made
