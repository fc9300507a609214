"""What the server answers at all: no fetching of addresses for a client, no way to leave things on it, careful headers.

Gradio can fetch a file from any address that a request names, pass other servers' files on, and keep a session on disk behind
a link. This page needs none of it, and what is brought to it must not leave the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable

#: Largest body of a request that is no upload; the page's own are far below.
MAX_BODY_BYTES = 4_000_000
#: Routes that fetch from elsewhere or write to the disk what nobody removes.
CLOSED = re.compile(
    r"/(proxy=|deep_link|run-history|runs(/|$)|dev/|monitoring|process_recording|file[=/]\s*[a-z][a-z0-9+.-]*:)", re.IGNORECASE
)
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]+:", re.IGNORECASE)
#: Gradio's page runs inline scripts and makes functions of text; nothing may be asked for or sent anywhere else.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; media-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'"
)
#: Seconds: how often files that were brought or made are looked through, and how old they may be.
CLEANED_EVERY_S, KEPT_S = 1_800, 3_600
#: Clients whose last view Gradio remembers, one trace each; beyond, the longest unseen is forgotten.
MOST_CLIENTS = 100
KEPT_NOTE = (
    f"<p class='fx-note'>Pictures and traces that you bring, and files made from them, are removed from this machine after at "
    f"most {(CLEANED_EVERY_S + KEPT_S) // 60} minutes. Nothing is sent anywhere else.</p>"
)
_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))


class Guard:
    """An ASGI layer in front of Gradio's own application."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def careful(message: dict) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
                if any(n.lower() == b"content-type" and v.startswith(b"text/html") for n, v in message["headers"]):
                    message["headers"].append((b"content-security-policy", POLICY.encode("ascii")))
            await send(message)

        if CLOSED.search(scope["path"]):
            await _refuse(careful, 404, "There is nothing here.")
            return
        if scope["method"] == "POST" and not _is_upload(scope):
            body = await _read(receive)
            trouble = (413, "This request is too large.") if body is None else _trouble(body)
            if trouble:
                await _refuse(careful, *trouble)
                return
            receive = _again(body, receive)
        await self.app(scope, receive, careful)


def _is_upload(scope: dict) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return scope["path"].endswith("/upload") and any(kind.lower().startswith(b"multipart/form-data") for kind in kinds)


async def _read(receive: Callable[[], Awaitable[dict]]) -> bytes | None:
    """The whole body; None where it is larger than MAX_BODY_BYTES."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            return None
    return b"".join(parts)


def _again(body: bytes, receive: Callable[[], Awaitable[dict]]) -> Callable[[], Awaitable[dict]]:
    """A ``receive`` that hands out ``body`` once and then goes on with what the client does."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> dict:
        return left.pop() if left else await receive()

    return receive_again


def _trouble(body: bytes) -> tuple[int, str] | None:
    """Status and sentence where a JSON body must not reach Gradio."""
    try:
        value = json.loads(body)
    except RecursionError:
        return 400, "This request is nested too deeply."
    except ValueError:
        return None  # no JSON: Gradio says so itself
    return (400, "Files are uploaded here, not fetched from an address.") if _names_an_address(value) else None


def _names_an_address(value) -> bool:
    """Whether a file of this request lies at an address; Gradio would fetch it."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            path = item.get("path")
            if isinstance(path, str) and _ADDRESS.match(path):
                return True
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


async def _refuse(send: Callable[[dict], Awaitable[None]], code: int, sentence: str) -> None:
    body = json.dumps({"error": sentence, "detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
