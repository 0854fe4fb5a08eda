#!/usr/bin/env python3
"""Plays the model for a real coding agent: one scripted answer after another, on loopback, standard library only.

Speaks the four dialects that agents speak (OpenAI responses, OpenAI chat completions, Anthropic messages, Gemini), streamed
or whole. The first part of the path names the scenario:

  submit         one shell command, then a closing text
  hang           one shell command, then no answer ever
  unauthorized   401, every time
  rate_limit     429 with `retry-after`, every time
  usage_limit    429 that says that the plan's limit is used up and when it comes back, every time

The command is read from FOLDER/<scenario>.sh at each request. FOLDER/<scenario>.jsonl gets one line for each answer, with the
token figures that it stated: they grow with each turn, so that a reader that takes only the last or the first is found out.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCENARIOS = ("submit", "hang", "unauthorized", "rate_limit", "usage_limit")
# What agents call the tool that runs a command line.
SHELLS = ("exec_command", "shell_command", "shell", "bash", "Bash", "run_shell_command", "run_command", "execute_command")
# A first answer states these; the n-th n times as much.
TOKENS = {"input": 1200, "cached": 200, "output": 80, "reasoning": 20}
LIMIT_COMES_BACK_IN = 3600
MODEL = "stub-model"
TEXT = "The stub model has nothing more to say."


def smallest(schema):
    """The least that a JSON schema takes."""
    if not isinstance(schema, dict):
        return ""
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return smallest(schema[choice][0])
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: smallest(fields.get(name)) for name in schema.get("required", fields)}
    return {"array": [], "integer": 0, "number": 0, "boolean": False, "null": None}.get(kind, "stub")


def arguments_of(schema, command):
    """A call of a shell tool, by that tool's own schema."""
    fields = schema.get("properties", {})
    key = "cmd" if "cmd" in fields else "command"
    takes_list = fields.get(key, {}).get("type") == "array"
    made = {name: smallest(fields.get(name)) for name in schema.get("required", ())}
    made[key] = ["bash", "-c", command] if takes_list else command
    # Some end a command that they think takes too long before anybody else would.
    made.update({name: 600_000 for name in ("timeout", "timeout_ms", "yield_time_ms") if name in fields})
    return made


def texts(content):
    """All text in a message's content, whichever way it is written."""
    pieces = [content] if isinstance(content, str) else content or ()
    return " ".join(piece if isinstance(piece, str) else str(piece.get("text", "")) for piece in pieces)


class Dialect:
    """How one protocol is read and written."""

    def __init__(self, body, path):
        self.body, self.path = body, path
        self.streams = bool(body.get("stream"))

    def shell(self):
        """The name and the schema of the agent's shell tool."""
        tools = dict(self.tools())
        return next(((name, tools[name]) for name in SHELLS if name in tools), None)


class Responses(Dialect):
    """OpenAI `/responses`."""

    def turn(self):
        items = self.body.get("input")
        return sum(str(item.get("type", "")).endswith("_output") for item in items) if isinstance(items, list) else 0

    def tools(self):
        return [(tool.get("name", tool.get("type")), tool.get("parameters") or {}) for tool in self.body.get("tools") or ()]

    def schema(self):
        return ((self.body.get("text") or {}).get("format") or {}).get("schema")

    def answer(self, call, text, tokens, ident):
        if call:
            item = {"type": "function_call", "id": f"fc_{ident}", "call_id": f"call_{ident}", "status": "completed"}
            item |= {"name": call[0], "arguments": json.dumps(call[1])}
        else:
            item = {"type": "message", "id": f"msg_{ident}", "role": "assistant", "status": "completed"}
            item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
        response = {"id": f"resp_{ident}", "object": "response", "created_at": int(time.time()), "model": MODEL}
        usage = {
            "input_tokens": tokens["input"],
            "input_tokens_details": {"cached_tokens": tokens["cached"]},
            "output_tokens": tokens["output"],
            "output_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
            "total_tokens": tokens["input"] + tokens["output"],
        }
        whole = response | {"status": "completed", "output": [item], "usage": usage}
        events = [
            {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return whole, [(event["type"], event) for event in events]

    def refusal(self, status, kind, message):
        error = {"message": message, "type": kind, "code": kind}
        if kind == "usage_limit_reached":
            back = int(time.time()) + LIMIT_COMES_BACK_IN
            error |= {"plan_type": "plus", "resets_at": back, "resets_in_seconds": LIMIT_COMES_BACK_IN}
        return {"error": error}


class Chat(Dialect):
    """OpenAI `/chat/completions`."""

    def turn(self):
        return sum(message.get("role") == "tool" for message in self.body.get("messages", ()))

    def tools(self):
        functions = [tool.get("function") or {} for tool in self.body.get("tools") or ()]
        return [(function.get("name"), function.get("parameters") or {}) for function in functions]

    def schema(self):
        return ((self.body.get("response_format") or {}).get("json_schema") or {}).get("schema")

    def answer(self, call, text, tokens, ident):
        message = {"role": "assistant", "content": None if call else text}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            message["tool_calls"] = [{"index": 0, "id": f"call_{ident}", "type": "function", "function": function}]
        reason = "tool_calls" if call else "stop"
        usage = {
            "prompt_tokens": tokens["input"],
            "completion_tokens": tokens["output"],
            "total_tokens": tokens["input"] + tokens["output"],
            "prompt_tokens_details": {"cached_tokens": tokens["cached"]},
            "completion_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
        }
        head = {"id": f"chatcmpl-{ident}", "created": int(time.time()), "model": MODEL}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
        part = head | {"object": "chat.completion.chunk"}
        chunks = [
            part | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            part | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            part | {"choices": [], "usage": usage},
        ]
        return whole, [(None, chunk) for chunk in chunks] + [(None, "[DONE]")]

    refusal = Responses.refusal


class Messages(Dialect):
    """Anthropic `/messages`."""

    def turn(self):
        contents = [message.get("content") for message in self.body.get("messages", ())]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        return sum(block.get("type") == "tool_result" for block in blocks)

    def tools(self):
        return [(tool.get("name"), tool.get("input_schema") or {}) for tool in self.body.get("tools") or ()]

    def schema(self):
        return ((self.body.get("output_config") or {}).get("format") or {}).get("schema")

    def answer(self, call, text, tokens, ident):
        # Here the input is told without what was cached, and reasoning is part of the output.
        usage = {"input_tokens": tokens["input"] - tokens["cached"], "cache_read_input_tokens": tokens["cached"]}
        usage |= {"cache_creation_input_tokens": 0, "output_tokens": tokens["output"]}
        reason = "tool_use" if call else "end_turn"
        if call:
            block = {"type": "tool_use", "id": f"toolu_{ident}", "name": call[0], "input": call[1]}
            begin, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            block = {"type": "text", "text": text}
            begin, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        head = {"id": f"msg_{ident}", "type": "message", "role": "assistant", "model": self.body.get("model", MODEL)}
        whole = head | {"content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
        opening = head | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 1}}
        events = [
            {"type": "message_start", "message": opening},
            {"type": "content_block_start", "index": 0, "content_block": begin},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        return whole, [(event["type"], event) for event in events]

    def refusal(self, status, kind, message):
        kind = "authentication_error" if status == 401 else "rate_limit_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class Gemini(Dialect):
    """Google `:generateContent` and `:streamGenerateContent`."""

    def __init__(self, body, path):
        super().__init__(body, path)
        self.streams = ":streamGenerateContent" in path

    def turn(self):
        parts = [part for content in self.body.get("contents", ()) for part in content.get("parts", ())]
        return sum("functionResponse" in part for part in parts)

    def tools(self):
        declared = [each for tool in self.body.get("tools") or () for each in tool.get("functionDeclarations", ())]
        return [(each.get("name"), each.get("parametersJsonSchema") or each.get("parameters") or {}) for each in declared]

    def schema(self):
        wanted = self.body.get("generationConfig") or {}
        return wanted.get("responseJsonSchema") or wanted.get("responseSchema")

    def answer(self, call, text, tokens, ident):
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        usage = {
            "promptTokenCount": tokens["input"],
            "cachedContentTokenCount": tokens["cached"],
            "candidatesTokenCount": tokens["output"] - tokens["reasoning"],
            "thoughtsTokenCount": tokens["reasoning"],
            "totalTokenCount": tokens["input"] + tokens["output"],
        }
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": ident}
        return whole, [(None, whole)]

    def refusal(self, status, kind, message):
        name = "UNAUTHENTICATED" if status == 401 else "RESOURCE_EXHAUSTED"
        return {"error": {"code": status, "message": message, "status": name}}


def dialect(path, body):
    """By the end of the path, without its query."""
    bare = path.split("?", 1)[0]
    for end, kind in (("/responses", Responses), ("/chat/completions", Chat), ("/messages", Messages)):
        if bare.endswith(end):
            return kind(body, path)
    return Gemini(body, path) if "enerateContent" in bare else None


REFUSALS = {
    "unauthorized": (401, "invalid_api_key", "Incorrect API key provided."),
    "rate_limit": (429, "rate_limit_exceeded", "Too many requests, please slow down."),
    "usage_limit": (429, "usage_limit_reached", "You have hit your usage limit."),
}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """The log is a file."""

    def do_HEAD(self):
        self.send_json(200, None)

    def do_GET(self):
        self.send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}], "models": []})

    def do_POST(self):
        scenario = self.path.split("/", 2)[1]
        body = json.loads(self.read_body() or b"{}")
        if "count" in self.path and "okens" in self.path:
            return self.send_json(200, {"input_tokens": TOKENS["input"], "totalTokens": TOKENS["input"]})
        spoken = dialect(self.path, body)
        if scenario not in SCENARIOS or spoken is None:
            return self.send_json(404, {"error": {"message": f"nothing is played at {self.path}"}})
        if scenario in REFUSALS:
            return self.refuse(scenario, spoken)
        self.play(scenario, spoken)

    def refuse(self, scenario, spoken):
        status, kind, message = REFUSALS[scenario]
        wait = {"rate_limit": "1", "usage_limit": str(LIMIT_COMES_BACK_IN)}.get(scenario)
        self.note(scenario, answer=str(status))
        self.send_json(status, spoken.refusal(status, kind, message), {"retry-after": wait} if wait else {})

    def play(self, scenario, spoken):
        shell, turn = spoken.shell(), spoken.turn()
        script = self.server.folder / f"{scenario}.sh"
        call = text = None
        if spoken.schema():
            text = json.dumps(smallest(spoken.schema()))
        elif shell and turn == 0 and script.exists():
            call = (shell[0], arguments_of(shell[1], script.read_text().strip()))
        elif shell and scenario == "hang":
            self.note(scenario, answer="none")
            # Until the agent goes away, or this program.
            self.connection.recv(1)
            self.close_connection = True
            return
        tokens = {name: count * (turn + 1) for name, count in TOKENS.items()}
        self.note(scenario, answer="shell" if call else "text", tokens=tokens, tools=[name for name, _ in spoken.tools()])
        whole, events = spoken.answer(call, text or self.closing_text(), tokens, self.server.next_ident())
        if spoken.streams:
            self.send_events(events)
        else:
            self.send_json(200, whole)

    def closing_text(self):
        """An agent without a shell tool is given what it takes instead."""
        given = self.server.folder / "text"
        return given.read_text() if given.exists() else TEXT

    def read_body(self):
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def send_json(self, status, value, headers=()):
        payload = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(payload)

    def send_events(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, value in events:
            head = f"event: {name}\n" if name else ""
            data = value if isinstance(value, str) else json.dumps(value)
            self.wfile.write(f"{head}data: {data}\n\n".encode())
            self.wfile.flush()

    def note(self, scenario, **what):
        line = json.dumps({"path": self.path.split("?", 1)[0], **what})
        with self.server.lock, (self.server.folder / f"{scenario}.jsonl").open("a") as log:
            log.write(line + "\n")


class Stub(ThreadingHTTPServer):
    """The server, on a port of its own choice."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.lock, self.idents = Path(folder), threading.Lock(), 0

    def handle_error(self, request, client_address):
        """An agent that hangs up is no error of this program's."""

    def next_ident(self):
        with self.lock:
            self.idents += 1
            return f"stub{self.idents:06}"


def stated(folder, scenario):
    """The token figures that a scenario's answers stated, added up, and how many answers there were."""
    path = Path(folder) / f"{scenario}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    total = {name: sum(line.get("tokens", {}).get(name, 0) for line in lines) for name in TOKENS}
    return total, len(lines)


def main():
    parser = argparse.ArgumentParser(description="A stub model on loopback.")
    parser.add_argument("folder", help="holds SCENARIO.sh, and gets SCENARIO.jsonl and `url`")
    folder = Path(parser.parse_args().folder)
    server = Stub(folder)
    (folder / "url.new").write_text(f"http://127.0.0.1:{server.server_address[1]}")
    (folder / "url.new").rename(folder / "url")
    server.serve_forever()


if __name__ == "__main__":
    main()
