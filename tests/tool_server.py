"""A tool server for tests, a process of its own that speaks the protocol over its standard input and output by hand.

It starts in a few milliseconds, and misbehaves as it is told by the JSON in its first argument:

    tools         names, or whole tools as they stand on the wire
    page          so many tools a page
    cursor        "repeat": the same cursor for ever
    noise         print stray lines before the first message, and messages joined and in pieces
    mute          answer nothing
    hears         a file to which what comes is appended
    stays         do not end when the input is closed, nor when asked to terminate
    child         start a process that holds the standard output open
    log           a file to which each call is appended
    newer         speak the protocol of 2026, where changes are told on a stream that is asked for; true, or how it goes
                  wrong: "refuses" the stream, "mute" never acknowledges it, "drops" it whenever the catalog changes, "ends" it so
    fail          write to standard error and exit before the first answer

Tools that do something of their own: `die` exits after its effect, without an answer; `slow` takes `seconds`; `big` returns
`bytes` characters; `quota`, `nothing` and `unknown` fail, each in another way; `parts` returns two texts and an image; `grow`
offers a further tool from then on, and says so; `asks` wants to know more before it does anything; `sees` returns its
environment; `garbage` answers what no protocol knows. All others return their arguments.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

HOW: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
NEWER = HOW.get("newer")
NEW = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if NEWER else {}
STREAMS: list[Any] = []
"""Ids of the requests whose answers are streams of changes."""
TOOLS = [tool if isinstance(tool, dict) else {"name": tool} for tool in HOW.get("tools", ["echo"])]
lock = threading.Lock()


def main() -> None:
    if HOW.get("fail"):
        print("no license found", file=sys.stderr, flush=True)
        sys.exit(3)
    if HOW.get("stays"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if HOW.get("child"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    if HOW.get("noise"):
        raw("Server started\n\n🖥 mode\n".encode())
    for line in sys.stdin.buffer:
        if "hears" in HOW:
            with open(HOW["hears"], "ab") as heard:
                heard.write(line)
        if HOW.get("mute"):
            continue
        message = json.loads(line)
        if message["method"] == "test/drop":
            for stream in STREAMS:
                write({"id": stream, "error": {"code": -32603, "message": "too many streams"}})
            STREAMS.clear()
        if "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
    while HOW.get("stays"):
        time.sleep(1)


def answer(message: dict[str, Any]) -> None:
    match message["method"]:
        case "server/discover" if NEWER:
            capabilities = {"tools": {"listChanged": True}}
            say(message, {"result": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **NEW}})
        case "subscriptions/listen" if NEWER and NEWER != "refuses":
            if NEWER != "mute":
                STREAMS.append(message["id"])
                told = {"notifications": {"toolsListChanged": True}}
                tell(message["id"], "notifications/subscriptions/acknowledged", told)
        case "initialize":
            told = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "test", "version": "1"},
            }
            say(message, {"result": told})
        case "tools/list":
            say(message, {"result": listed((message.get("params") or {}).get("cursor"))})
        case "tools/call":
            called(message, message["params"]["name"], message["params"].get("arguments") or {})
        case _:
            say(message, {"error": {"code": -32601, "message": "Method not found"}})


def listed(cursor: str | None) -> dict[str, Any]:
    first, size = int(cursor or 0), HOW.get("page", 1000)
    tools = [{"description": f"It does {tool['name']}.", "inputSchema": {"type": "object"}, **tool} for tool in TOOLS]
    page: dict[str, Any] = {"tools": tools[first : first + size], **NEW}
    if HOW.get("cursor") == "repeat":
        page["nextCursor"] = "0"
    elif first + size < len(tools):
        page["nextCursor"] = str(first + size)
    return page


def called(message: dict[str, Any], tool: str, arguments: dict[str, Any]) -> None:
    if "log" in HOW:
        with open(HOW["log"], "a", encoding="utf-8") as log:
            log.write(json.dumps([tool, arguments, message["params"].get("_meta")]) + "\n")
    match tool:
        case "die":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(9)
        case "slow":
            time.sleep(arguments["seconds"])
        case "big":
            say(message, {"result": {"content": [text("x" * arguments["bytes"])]}})
            return
        case "quota":
            say(message, {"result": {"content": [text("quota exceeded")], "isError": True}})
            return
        case "nothing":
            say(message, {"result": {"content": [], "isError": True}})
            return
        case "unknown":
            say(message, {"error": {"code": -32602, "message": "Unknown tool: unknown"}})
            return
        case "parts":
            image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
            say(message, {"result": {"content": [text("one"), text("two"), image], "isError": False}})
            return
        case "grow":
            grow()
        case "asks":
            say(message, {"result": {"resultType": "input_required", "inputRequests": {}, "requestState": "half"}})
            return
        case "sees":
            say(message, {"result": {"content": [], "structuredContent": {"environ": dict(os.environ)}}})
            return
        case "garbage":
            say(message, {"result": {"content": "what?"}})
            return
    say(message, {"result": {"content": [text(json.dumps(arguments))], "structuredContent": arguments}})


def grow() -> None:
    for stream in STREAMS:
        if NEWER == "drops":
            write({"id": stream, "error": {"code": -32603, "message": "too many streams"}})
        if NEWER == "ends":
            write({"id": stream, "result": NEW})
    TOOLS.append({"name": "further"})
    if not NEWER:
        write({"method": "notifications/tools/list_changed"})
    for stream in STREAMS if NEWER is True else ():
        tell(stream, "notifications/tools/list_changed", {})


def tell(stream: Any, method: str, params: dict[str, Any]) -> None:
    write({"method": method, "params": {**params, "_meta": {"io.modelcontextprotocol/subscriptionId": stream}}})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def say(message: dict[str, Any], what: dict[str, Any]) -> None:
    if "result" in what:
        what["result"] = {**NEW, **what["result"]}
    write({"id": message["id"], **what})


def write(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
    if HOW.get("noise"):
        # In one write with a message before it, and in three writes with pauses inside a character of several bytes.
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "東京"}}
        joined = json.dumps(note, ensure_ascii=False).encode() + b"\n" + line
        at = joined.index("東".encode()) + 1
        with lock:
            for piece in (joined[:at], joined[at : at + 4], joined[at + 4 :]):
                raw(piece)
                time.sleep(0.02)
        return
    with lock:
        raw(line)


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
