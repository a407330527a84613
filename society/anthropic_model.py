"""A real model: any server that speaks the Messages API, through the `anthropic` SDK.

The SDK's own retries are off. Here is the one place that tries again: on 429, 5xx, overload and lost connections, never
before the service's `retry-after`, with waits that grow up to a cap and are spread by the run's seed, at most
`max_attempts` times in all. When the service says that it is crowded, the width of `max_concurrent_llm` shrinks for
everyone who shares it. A call that a service asks to make much later is given up at once: the model is silent.

An attempt that breaks off is paid for by the service's rules, and what it used is not told: it is not in the usage.

Knows: the SDK, its errors, and which of them pass.
Does not know: what a reply means (`loop.py`), or who else calls (`width.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import trio

from society.budget import Price, load_prices, price_of
from society.errors import MalformedReply, ModelSilent, ScenarioError
from society.models import Request, Spoke, Waits
from society.values import FrozenDict
from society.wire import Assembly, DataLines, StreamError, body_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

SERVICE: Final = "https://api.anthropic.com"
PATH: Final = "/v1/messages"
FIRST_WAIT: Final = 0.5
"""Seconds before the second attempt, where the service names no time; doubled each time."""
LONGEST_BACKOFF: Final = 16.0
PASSING: Final = frozenset({408, 409, 429})
"""Statuses below 500 that may pass; those from 500 on all may."""
PASSING_ERRORS: Final = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
"""Types of errors in mid-stream that may pass."""
CROWDED: Final = frozenset({429, 503, 529})


@attrs.frozen(kw_only=True)
class TurnedAway:
    """An attempt that gave no reply. A value: an exception would carry the request, and with it the key."""

    why: str
    passing: bool
    crowded: bool = False
    retry_after: float | None = None
    """Seconds, as the service asks."""


class AnthropicModel:
    """A model behind a server that speaks the Messages API.

    Args:
        name: The model's, as the server knows it.
        base_url: Of the server; the vendor's where None. Given explicitly to the SDK: no environment variable changes
        it. api_key: The key. Where None, the SDK looks for one in the environment, but never for a server of your
        own:
            a key must not go there by accident.
        extra_body: Further fields of each request: `{"temperature": 0, "seed": 7}`.
        stream: Whether replies are streamed.
        timeout: Seconds for one reply, all attempts and waits included.
        max_attempts: For one reply, the first one included.
        longest_wait: Seconds. A service that asks for a longer wait is taken as silent.
        cache: Whether the stable beginning of a request is marked to be cached. `None`: for the vendor's service only.
        structured: Whether it takes a JSON schema for its answer; a forced call stands in where not. `None`: as `cache`.
        price: Of its tokens; from the price table where None.
        http_client: An `httpx2.AsyncClient` of your own; you close it.

    It opens its connections when first asked, and closes them when the loop ends or with `aclose`.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        stream: bool = True,
        timeout: float | None = 600.0,
        max_attempts: int = 8,
        longest_wait: float = 60.0,
        cache: bool | None = None,
        structured: bool | None = None,
        price: Price | None = None,
        http_client: Any = None,
    ) -> None:
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
            raise ScenarioError(f"model {name!r}: max_attempts: {max_attempts!r} is not a whole number of at least 1.")
        self.name = name
        self.base_url = base_url
        self.stream = stream
        self.structured = base_url is None if structured is None else structured
        self.price = price if price is not None else price_of(name, load_prices())
        self.attempts = 0
        """Requests that were sent, for `stats`."""
        self._api_key = api_key if api_key is not None or base_url is None else "none"
        self._extra_body = dict(extra_body or {})
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._longest_wait = longest_wait
        self._cache = base_url is None if cache is None else cache
        self._http_client = http_client
        self._open: tuple[trio.lowlevel.TrioToken, AsyncAnthropic] | None = None

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r})"

    async def reply(self, request: Request) -> dict[str, Any]:
        """Return the raw reply to a request.

        Raises:
            ModelSilent: The time or the attempts are used up, or the service refuses for good.
            MalformedReply: What came is no reply.
        """
        with trio.move_on_after(math.inf if self._timeout is None else self._timeout) as scope:
            raw = await self._persistently(request)
            if not scope.cancel_called:
                return raw
        raise ModelSilent(f"no answer within {self._timeout:g} seconds")

    async def _persistently(self, request: Request) -> dict[str, Any]:
        body = self._body(request)
        why = ""
        for attempt in range(1, self._max_attempts + 1):
            self.attempts += 1
            answer = await self._attempt(body, request)
            if not isinstance(answer, TurnedAway):
                if request.width is not None:
                    request.width.eased()
                return answer
            why = answer.why
            if answer.crowded and request.width is not None:
                request.width.crowded()
            if not answer.passing:
                raise ModelSilent(why)
            if answer.retry_after is not None and answer.retry_after > self._longest_wait:
                raise ModelSilent(f"{why}; it asks to wait {answer.retry_after:g} seconds")
            if attempt < self._max_attempts:
                seconds = wait_before(request, attempt, answer.retry_after)
                request.tell(Waits(attempt, seconds, why))
                await trio.sleep(seconds)
        raise ModelSilent(f"{why}; {self._max_attempts} attempts were made")

    def _body(self, request: Request) -> bytes:
        # Written here and not by the SDK, which walks a long history twice before it writes it.
        body = {"model": self.name, **(_marked(request.body) if self._cache else request.body)}
        if self.stream:
            body["stream"] = True
        return msgspec.json.encode(body | self._extra_body)

    async def _attempt(self, body: bytes, request: Request) -> dict[str, Any] | TurnedAway:
        import anthropic
        import httpx2

        client = self._client()
        try:
            if self.stream:
                return await self._streamed(client, body, request)
            response = await client.post(PATH, cast_to=httpx2.Response, content=body)
            return self._read(response.content)
        except anthropic.APIStatusError as error:
            return self._status(error)
        except StreamError as error:
            crowded = error.kind in ("overloaded_error", "rate_limit_error")
            why = self._without_key(f"in mid-stream: {error}")
            return TurnedAway(why=why, passing=error.kind in PASSING_ERRORS, crowded=crowded)
        except (anthropic.APIConnectionError, httpx2.HTTPError, OSError) as error:
            # In a stream a lost connection comes as the transport's own error.
            cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) and error.__cause__ else error
            said = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            return TurnedAway(why=self._without_key(f"connection lost: {said}"), passing=True)
        except MalformedReply as error:
            error.found = self._without_key(error.found)
            raise
        except anthropic.AnthropicError as error:
            return TurnedAway(why=self._without_key(f"{type(error).__name__}: {error}"), passing=False)

    async def _streamed(self, client: AsyncAnthropic, body: bytes, request: Request) -> dict[str, Any]:
        import httpx2
        from anthropic import AsyncStream

        stream = await client.post(PATH, cast_to=object, content=body, stream=True, stream_cls=AsyncStream[object])
        response = stream.response
        try:
            if response.headers.get("content-type", "").startswith("application/json"):
                return self._read(await response.aread())  # a server that does not stream
            lines, assembly = DataLines(), Assembly()
            failure: Exception | None = None
            try:
                async for chunk in response.aiter_bytes():
                    try:
                        for data in lines.feed(chunk) if failure is None else ():
                            if piece := assembly.take(data):
                                request.tell(Spoke(piece))
                    except (StreamError, MalformedReply) as error:
                        # The transport's nested generators end by themselves only when reading goes on and fails.
                        failure = error
                        await response.aclose()
            except (httpx2.HTTPError, httpx2.StreamError):
                if failure is None:
                    raise
            if failure is not None:
                raise failure
            return assembly.reply()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await stream.close()

    def _read(self, data: bytes) -> dict[str, Any]:
        raw = body_of(data)
        if not isinstance(raw, dict):
            raise MalformedReply("reply", f"{type(raw).__name__}, not an object")
        return raw

    def _status(self, error: Any) -> TurnedAway:
        status: int = error.status_code
        asked = error.response.headers.get("x-should-retry")
        passing = status in PASSING or status >= 500 if asked not in ("true", "false") else asked == "true"
        said = error.api_message or error.message
        return TurnedAway(
            why=self._without_key(f"{status} {error.type or type(error).__name__}: {said}"[:600]),
            passing=passing,
            crowded=status in CROWDED,
            retry_after=_seconds(error.response.headers),
        )

    def _without_key(self, text: str) -> str:
        # A server may echo what it was sent. Nothing that is raised, traced or journaled may hold the key.
        known = [self._api_key, self._open[1].api_key if self._open else None]
        for key in known:
            if key and len(key) > 4:
                text = text.replace(key, "[key]")
        return text

    def _client(self) -> AsyncAnthropic:
        """Return the client of this loop; connections belong to the loop that opened them."""
        token = trio.lowlevel.current_trio_token()
        if self._open is not None and self._open[0] is token and not self._open[1].is_closed():
            return self._open[1]
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(
            api_key=self._api_key,
            base_url=self.base_url or SERVICE,
            max_retries=0,
            timeout=self._timeout,
            http_client=self._http_client,
            open_telemetry=False,
        )
        self._open = (token, client)
        if self._http_client is None:
            trio.lowlevel.spawn_system_task(_close_at_the_end, client)
        return client

    async def aclose(self) -> None:
        """Close the connections now."""
        if self._open is not None and self._http_client is None:
            await self._open[1].close()
        self._open = None

    async def __aenter__(self) -> AnthropicModel:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def wait_before(request: Request, attempt: int, retry_after: float | None) -> float:
    """Return the seconds to wait after a failed attempt: never less than the service asks, and spread by the seed.

    The spread grows with each attempt, so that callers who were turned away together come back one by one.
    """
    backoff: float = min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_BACKOFF)
    key = f"{request.seed}/{request.agent}/{request.round}/{request.ordinal}/{attempt}"
    drawn = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    if retry_after is not None:
        return retry_after + backoff * (0.1 + drawn)
    return backoff * (0.5 + drawn)


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Return what `retry-after` asks for, in seconds; a date is read too."""
    import email.utils
    import time

    said = headers.get("retry-after")
    if said is None:
        return None
    with contextlib.suppress(ValueError):
        seconds = float(said)
        return seconds if 0 <= seconds < math.inf else None
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    return None


def _marked(request: FrozenDict) -> dict[str, Any]:
    """Return it with the ends of what stays the same marked: tools and system together, and the conversation so far."""
    body = dict(request)
    mark = {"cache_control": {"type": "ephemeral"}}
    if isinstance(body.get("system"), str):
        body["system"] = [{"type": "text", "text": body["system"], **mark}]
    elif body.get("tools"):
        body["tools"] = [*body["tools"][:-1], body["tools"][-1] | mark]
    last = body["messages"][-1] if body["messages"] else {}
    content = last.get("content")
    if last.get("role") == "user" and content:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        body["messages"] = [*body["messages"][:-1], last | {"content": [*blocks[:-1], blocks[-1] | mark]}]
    return body


async def _close_at_the_end(client: AsyncAnthropic) -> None:
    try:
        await trio.sleep_forever()
    finally:
        # The loop is ending. A connection that cannot be closed in order goes away with the process.
        with trio.CancelScope(shield=True), trio.move_on_after(1), contextlib.suppress(Exception):
            await client.close()
