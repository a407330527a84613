"""What a scenario file says of models: the prompts that agents are driven by, and the models that they ask.

    [models.fast]
    use = "claude-haiku-…"                       a model of the service, or of the server at `base_url`
    [models.rehearsal]
    use = "scripted"                             replies from a file, by agent and number of its calls
    replies = "townhall.replies.toml"
    [models.recorded]
    use = "replay"                               answers that `society run --record` kept
    replies = "townhall.replies.json"
    [models.own]
    use = "qwen-large"
    base_url = "http://127.0.0.1:1234"
    prices = "prices.toml"                       what its tokens cost, for budgets in dollars

Knows: how these tables become behaviors and models, and what of them is meaning.
Does not know: keys of services. A table refers to one, and only the model itself holds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from society.briefing import Template
from society.budget import Budget, Price, load_prices, price_of
from society.codefile import unknown
from society.errors import ScenarioError
from society.files import Files
from society.locate import Path as KeyPath
from society.model_agent import CONTEXT, MAX_TOKENS, MAX_TURNS, Driven, driven
from society.models import ReplayModel, ScriptedModel, load_replies
from society.report import Report
from society.tables import AgentTable, BudgetTable, ModelTable, PromptTable

if TYPE_CHECKING:
    from society.populate import Ground

SCRIPTED: Final = "scripted"
REPLAY: Final = "replay"


def driven_by(entry: AgentTable, path: KeyPath, ground: Ground) -> Driven | None:
    """Return the behavior of an entry with a prompt; `None` if something of it is wrong, which is then reported."""
    assert entry.prompt is not None and entry.name is not None
    prompt = _prompt(entry.prompt, entry, (*path, "prompt"), ground)
    fallback = None
    if entry.fallback is not None:
        fallback = ground.code.function(entry.fallback) if ground.code else None
        if fallback is None:
            message, near = unknown(entry.fallback, ground.code, "fallback")
            ground.report.add((*path, "fallback"), message, near=near)
    if prompt is None:
        return None
    try:
        return driven(
            entry.name,
            prompt,
            tools=entry.tools or (),
            wake=entry.wake or "always",
            memory=entry.memory or "thread",
            context=entry.context or CONTEXT,
            max_turns=entry.max_turns or MAX_TURNS,
            max_tokens=entry.max_tokens or MAX_TOKENS,
            model=entry.model,
            fallback=fallback,
        )
    except ScenarioError as error:
        ground.report.add(path, str(error).rstrip("."))
        return None


def _prompt(given: PromptTable, entry: AgentTable, path: KeyPath, ground: Ground) -> str | Template | None:
    if given.template is not None:
        return _template(given.template, entry, (*path, "template"), ground)
    if given.file is None:
        return given.text
    content = ground.files.read(given.file, (*path, "file"), ground.report)
    if content is None:
        return None
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        ground.report.add(
            (*path, "file"), f"{given.file} is not UTF-8: byte {content[error.start]:#04x} at {error.start}"
        )
        return None
    if not text:
        ground.report.add((*path, "file"), f"{given.file} is empty")
    return text or None


def _template(text: str, entry: AgentTable, path: KeyPath, ground: Ground) -> Template | None:
    try:
        template = Template(text)
    except ScenarioError as error:
        ground.report.add(path, str(error).removeprefix("template: ").rstrip("."))
        return None
    known = [*ground.parameters, *entry.state, "agent", "group", "index"]
    for name in template.names if entry.rows is None else ():  # columns of a table are state, too
        if name not in known:
            ground.report.unknown(path, "neither a parameter nor a key of the state", name, known)
            return None
    return template


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@attrs.frozen(kw_only=True)
class Cast:
    """A model as a scenario file declares it."""

    name: str
    table: ModelTable
    script: Any = None
    """The replies of a scripted one, the answers of a replayed one."""
    digest: str | None = None
    """The sha256 of the file with them."""
    price: Price | None = None
    """From a file of the scenario's own."""

    def model(self) -> Any:
        """Return the model, which opens nothing before it is asked."""
        table = self.table
        if table.use == SCRIPTED:
            return ScriptedModel(self.script)
        if table.use == REPLAY:
            return ReplayModel(self.script)
        if table.api_key == "":
            return Keyless(self.name)
        from society.anthropic_model import AnthropicModel

        return AnthropicModel(
            table.use,
            base_url=table.base_url,
            api_key=table.api_key,
            extra_body=dict(table.extra_body),
            price=self.price,
        )


@attrs.frozen
class Keyless:
    """Stands for a model whose key is not there; nobody may ask it."""

    name: str
    price = None

    async def reply(self, request: Any) -> Any:
        raise ScenarioError(f"models.{self.name}.api_key: the environment variable that it refers to is not set.")


def models_of(tables: Mapping[str, ModelTable], files: Files, report: Report) -> dict[str, Cast]:
    """Return the models of a scenario by name."""
    found: dict[str, Cast] = {}
    for name, table in tables.items():
        path: KeyPath = ("models", name)
        script, digest = None, None
        if table.use in (SCRIPTED, REPLAY):
            if table.replies is None:
                report.add(
                    path, f'`replies` is missing: a model with use = "{table.use}" reads its answers from a file'
                )
                continue
            content = files.read(table.replies, (*path, "replies"), report)
            if content is None:
                continue
            digest = hashlib.sha256(content).hexdigest()
            script = _script(table, files, (*path, "replies"), report)
        elif table.replies is not None:
            report.add((*path, "replies"), f'goes with use = "{SCRIPTED}" or "{REPLAY}"')
        price = None if table.prices is None else _price(table, files, (*path, "prices"), report)
        found[name] = Cast(name=name, table=table, script=script, digest=digest, price=price)
    return found


def _price(table: ModelTable, files: Files, path: KeyPath, report: Report) -> Price | None:
    assert table.prices is not None
    if table.use in (SCRIPTED, REPLAY):
        report.add(path, f'a model with use = "{table.use}" costs nothing')
        return None
    if files.read(table.prices, path, report) is None:
        return None
    where = files.named(table.prices)
    try:
        prices = load_prices(where)
    except ScenarioError as error:
        report.add(path, str(error).replace(str(where), table.prices).rstrip("."))
        return None
    price = price_of(table.use, prices)
    if price is None:
        report.unknown(path, f"{table.prices} has no price for", table.use, prices)
    return price


def _script(table: ModelTable, files: Files, path: KeyPath, report: Report) -> Any:
    assert table.replies is not None
    where = files.named(table.replies)
    try:
        return load_replies(where) if table.use == SCRIPTED else ReplayModel(where).answers
    except ScenarioError as error:
        report.add(path, str(error).replace(str(where), table.replies).rstrip("."))
        return {}


def check_names(
    model: str | None, agents: tuple[AgentTable, ...], models: Mapping[str, ModelTable], report: Report
) -> None:
    """Report models that are named and not declared."""
    if model is not None and model not in models:
        report.unknown(("model",), "unknown model", model, models)
    for entry in agents:
        path: KeyPath = ("agents", entry.index)
        if entry.model is not None and entry.model not in models:
            report.unknown((*path, "model"), "unknown model", entry.model, models)
        if entry.prompt is not None and entry.model is None and model is None and len(models) != 1:
            which = f"one of {', '.join(models)}" if models else "and [models.NAME] declares it"
            report.add(path, f"`model` is missing: an agent with a prompt names the model that it asks, {which}")


def budget_of(table: BudgetTable | None) -> Budget | None:
    return None if table is None else Budget(usd=table.usd, tokens=table.tokens)


def meaning_of_models(models: Mapping[str, Cast], written: Mapping[str, ModelTable]) -> dict[str, Any]:
    """Return what of the models may not change on resume, by key path. `written` has references where secrets were."""
    meaning: dict[str, Any] = {}
    for name, table in written.items():
        told = {"use": table.use, "base_url": table.base_url, "extra_body": dict(table.extra_body) or None}
        told["replies"] = models[name].digest if name in models else None
        told["price"] = attrs.asdict(price) if name in models and (price := models[name].price) is not None else None
        meaning |= {f"models.{name}.{key}": value for key, value in told.items() if value is not None}
    return meaning
