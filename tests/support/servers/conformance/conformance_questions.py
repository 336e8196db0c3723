"""Data of the conformance server: what its tools and prompts ask the client."""

from __future__ import annotations

from support.servers.sdk_servers.input_requests import Dialogue, Json, Questions


def _elicitation(message: str, properties: Json, required: list[str] | None = None) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def _text_wanted(message: str, member: str) -> Json:
    return _elicitation(message, {member: {"type": "string"}}, [member])


def _sampling(prompt: str, max_tokens: int = 100) -> Json:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": max_tokens},
    }


def _asking(*rounds: Questions, stateful: bool = False, optional: bool = False) -> Dialogue:
    return Dialogue(lambda _: list(rounds), stateful, optional)


ROOTS: Json = {"method": "roots/list", "params": {}}
NAME = _text_wanted("What is your name?", "name")
CONFIRM = _elicitation("Please confirm", {"ok": {"type": "boolean"}}, ["ok"])
USER: Json = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
DEFAULTS: Json = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
ENUMS: Json = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}

DIALOGUES: dict[str, Dialogue] = {
    "test_sampling": Dialogue(lambda arguments: [{"completion": _sampling(arguments["prompt"])}]),
    "test_elicitation": Dialogue(
        lambda arguments: [{"user": _elicitation(arguments["message"], USER, ["username", "email"])}]
    ),
    "test_elicitation_sep1034_defaults": _asking({"user": _elicitation("Who are you?", DEFAULTS)}),
    "test_elicitation_sep1330_enums": _asking({"choice": _elicitation("What do you choose?", ENUMS)}),
    "test_streaming_elicitation": _asking({"user_name": NAME}),
    "test_missing_capability": _asking({"completion": _sampling("Hello?")}),
    "test_input_required_result_elicitation": _asking({"user_name": NAME}),
    "test_input_required_result_sampling": _asking(
        {"capital_question": _sampling("What is the capital of France?")}
    ),
    "test_input_required_result_list_roots": _asking({"client_roots": ROOTS}),
    "test_input_required_result_request_state": _asking({"confirm": CONFIRM}, stateful=True),
    "test_input_required_result_tampered_state": _asking({"confirm": CONFIRM}, stateful=True),
    "test_input_required_result_multiple_inputs": _asking(
        {"user_name": NAME, "greeting": _sampling("Generate a greeting", 50), "client_roots": ROOTS},
        stateful=True,
    ),
    "test_input_required_result_multi_round": _asking(
        {"step1": _text_wanted("Step 1: What is your name?", "name")},
        {"step2": _text_wanted("Step 2: What is your favorite color?", "color")},
        stateful=True,
    ),
    "test_input_required_result_capabilities": _asking(
        {"user_name": NAME, "greeting": _sampling("Generate a greeting")}, optional=True
    ),
    "test_input_required_result_prompt": _asking(
        {"user_context": _text_wanted("What context should the prompt use?", "context")}
    ),
}
"""By the name of the tool or prompt."""
