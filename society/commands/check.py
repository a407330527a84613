"""`society check`: everything about scenarios that can be known without running them."""

from __future__ import annotations

from typing import Any

from society.commands.options import Json, OnScreen, Settings, settings
from society.exit_codes import DONE, WRONG, Verdict
from society.lines import counted


def check(*scenarios: str, set_: Settings = (), json: Json = False, screen: OnScreen) -> Verdict:
    """Check scenarios without running them.

    Args:
        scenarios: Scenario files, or names of scenarios that ship with the project.
    """
    from society.errors import ScenarioError

    if not scenarios:
        raise ScenarioError("check: name at least one scenario.")
    found = [examined(name, settings(set_)) for name in scenarios]
    faulty = sum(bool(one["faults"]) for one in found)
    if json:
        import msgspec

        screen.document(msgspec.json.encode(found) + b"\n")
    else:
        for one in found:
            for fault in one["faults"]:
                screen.tell(fault)
            if not one["faults"]:
                screen.tell(f"{one['scenario']}: {one['name']} is sound: {one['says']}")
    if faulty:
        count = sum(len(one["faults"]) for one in found)
        return Verdict(WRONG, f"{counted(count, 'fault')} in {faulty} of {counted(len(found), 'scenario')}")
    return Verdict(DONE, "nothing is wrong")


def examined(given: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to say of one scenario: its `faults`, or its `name` and what it is made of."""
    from society.errors import ScenarioError, ScenarioFaults
    from society.load import load_scenario
    from society.shelf import scenario_path

    try:
        loaded = load_scenario(scenario_path(given), set=settings)
        # What only a society can tell, such as a sensor that no host has.
        loaded.society()
    except ScenarioFaults as faults:
        return {"scenario": given, "faults": [str(fault) for fault in faults.faults]}
    except ScenarioError as error:
        return {"scenario": given, "faults": [str(error)]}
    says = (
        f"{counted(len(loaded.agents), 'agent')}, {counted(len(loaded.shared), 'key')} in SHARED, {loaded.activation}, "
        f"at most {counted(loaded.max_ticks, 'round')}, seed {loaded.seed}, meaning {loaded.fingerprint}"
    )
    return {"scenario": given, "faults": [], "name": loaded.name, "says": says, "fingerprint": loaded.fingerprint}
