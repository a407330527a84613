"""What a model is told of a function, and how its arguments are judged."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest

from society.errors import ScenarioError
from society.results import unfit
from society.toolschema import distinct, schema_of, wire_names


@attrs.frozen
class Place:
    city: str
    floor: int = 0


def restart(service: str, mode: Literal["soft", "hard"] = "soft", tries: int = 1) -> dict[str, Any]:
    """Restart a service.

    It takes a while.

    Args:
        service: Its name, as `status`
            lists it.
        tries (int): How often.

    Returns:
        What happened.
    """
    return {"service": service, "mode": mode, "tries": tries}


def test_hints_and_docstring_become_a_schema() -> None:
    assert schema_of(restart).wire() == {
        "name": "restart",
        "description": "Restart a service.\n\nIt takes a while.",
        "input_schema": {
            "type": "object",
            "properties": {
                "service": {"type": "string", "description": "Its name, as `status` lists it."},
                "mode": {"enum": ["hard", "soft"], "default": "soft"},
                "tries": {"type": "integer", "description": "How often.", "default": 1},
            },
            "required": ["service"],
            "additionalProperties": False,
        },
    }


def test_async_functions_methods_partials_and_callables_are_described_alike() -> None:
    class Shop:
        async def buy(self, thing: str, /, *, eur: int) -> None: ...

        def sell(self, thing: str) -> None:
            """Sell it."""

        def __call__(self, thing: str) -> None:
            """Call it."""

    assert list(schema_of(Shop().sell).input_schema["properties"]) == ["thing"]
    assert schema_of(Shop(), name="shop").description == "Call it."
    left = schema_of(functools.partial(restart, tries=3))
    assert list(left.input_schema["properties"]) == ["service", "mode"]
    with pytest.raises(ScenarioError, match="'thing' has no name in a call"):
        schema_of(Shop().buy)


def test_injected_parameters_stay_out_of_the_schema() -> None:
    def charge(ctx, eur: int) -> None:  # type: ignore[no-untyped-def]
        pass

    schema = schema_of(charge, injected=["ctx"])
    assert list(schema.input_schema["properties"]) == ["eur"]
    assert schema.faults({"ctx": 1, "eur": 2}) == ["'ctx' is not a parameter (there is eur)"]


def test_annotations_give_descriptions_and_bounds() -> None:
    assert schema_of(wait_for).input_schema["properties"]["seconds"] == {
        "type": "integer",
        "description": "how long",
        "minimum": 1,
    }
    assert schema_of(wait_for).faults({"seconds": 0}) == ["seconds: expected `int` >= 1"]


def wait_for(seconds: Annotated[int, "how long", msgspec.Meta(ge=1)]) -> None: ...


def go(to: Place, via: list[Place] | None = None, tag: Any = None) -> Place:
    return to


def test_arguments_become_the_classes_that_the_hints_name() -> None:
    schema = schema_of(go)
    assert schema.faults({"to": {"city": "Oslo"}, "via": [{"city": "Rom", "floor": 2}], "tag": {"x": 1}}) == []
    bound = schema.bound({"to": {"city": "Oslo"}, "via": [{"city": "Rom", "floor": 2}]})
    assert bound == {"to": Place("Oslo"), "via": [Place("Rom", 2)]}


def test_what_does_not_fit_is_told_with_its_path_and_the_nearest_name() -> None:
    schema = schema_of(go)
    assert schema.faults({"to": {"city": "Oslo", "floor": "2"}}) == ["to.floor: expected `int`, got `str`"]
    assert schema.faults({"too": 1}) == [
        "'to' is missing",
        "'too' is not a parameter (there is to, via, tag; did you mean 'to'?)",
    ]
    told = unfit("go", schema.faults({}))
    assert told.is_error
    assert told.content == (
        "The arguments of go do not fit: 'to' is missing. This call was not run. Call it again with arguments that do."
    )


def test_arguments_are_judged_strictly() -> None:
    assert schema_of(restart).faults({"service": "web", "tries": "2"}) == ["tries: expected `int`, got `str`"]
    assert schema_of(restart).faults({"service": "web", "tries": 2.5}) == ["tries: expected `int`, got `float`"]
    assert schema_of(restart).faults({"service": "web", "mode": "fast"}) == ["mode: invalid enum value 'fast'"]


def test_further_arguments_pass_where_the_function_takes_them() -> None:
    def log(text: str, **more: Any) -> None: ...

    schema = schema_of(log)
    assert schema.input_schema["additionalProperties"] is True
    assert schema.bound({"text": "x", "level": [1]}) == {"text": "x", "level": [1]}


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "x" * 129])
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(ScenarioError, match="cannot be the name of a tool"):
        schema_of(restart, name=name)


def test_a_name_that_is_offered_twice_is_refused_with_all_its_sources() -> None:  # P17
    offered = [schema_of(restart, name="search", source=source) for source in ("alpha", "beta", "local")]
    with pytest.raises(ScenarioError, match="'search' is offered 3 times: by alpha, beta, local"):
        distinct(offered)


def test_names_can_be_mapped_to_legal_ones_and_never_two_to_one() -> None:
    assert wire_names(["disk.free", "ping"]) == {"disk.free": "disk_free", "ping": "ping"}
    with pytest.raises(ScenarioError, match="would both be 'a_b'"):
        wire_names(["a.b", "a_b"])


def test_types_that_no_model_can_fill_are_refused_where_they_are_declared() -> None:
    def odd(thing: complex) -> None: ...

    with pytest.raises(ScenarioError, match="tool 'odd'"):
        schema_of(odd)

    class Local: ...

    def local(thing: Local) -> None: ...

    with pytest.raises(ScenarioError, match="'Local' in its hints is not known"):
        schema_of(local)
