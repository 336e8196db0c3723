"""What people read of a connection that fails."""

from __future__ import annotations

import ssl

import pytest

from lm_tools_bridge.team.connection_errors import PlainText, worded


def untrusted(message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_message = message
    return error


@pytest.mark.parametrize(
    ("error", "said", "step"),
    [
        (untrusted("self-signed certificate in certificate chain"), "not trusted: self-signed", "--ca FILE"),
        (untrusted("Hostname mismatch, certificate is not valid for 'x'"), "not valid for", "the address"),
        (ssl.SSLError(1, "tlsv13 alert certificate required"), "TLS fails", "--cert and --key"),
        (Exception("nats: 'Authorization Violation'"), "does not accept the credentials", "administrator"),
        (Exception("nats: 'User Authentication Revoked'"), "does not accept", "administrator"),
        (Exception("nats: 'Authentication Timeout'"), "Authentication Timeout", ""),
        (PlainText(), "nothing was sent", "ask who runs the server"),
        (BrokenPipeError(32, "Broken pipe"), "closed the connection", "may not accept the credentials"),
        (TimeoutError(), "does not answer", ""),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused", ""),
    ],
)
def test_a_problem_is_told_with_its_next_step(error: Exception, said: str, step: str) -> None:
    text = worded(error)
    assert said in text
    assert step in text
    assert len(text) <= 300
