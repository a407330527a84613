"""Judging policies: K3 and K4 of the contract."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from society.errors import ScenarioError
from society.judge import Judge, Verdict
from society.policy import Policy, Rule, allow, approve, deny, never
from society.values import UNKNOWN

KINDS = ("never", "deny", "allow", "approve")
OUTCOMES = (True, False, UNKNOWN)
STRICTNESS = {"allow": 0, "approve": 1, "deny": 2, "never": 3}


@attrs.frozen
class Facts:
    args: Any = attrs.field(factory=dict)
    shared: Any = attrs.field(factory=dict)
    state: Any = attrs.field(factory=dict)
    observed: Any = attrs.field(factory=dict)
    round: int = 1
    agent: str = "ada"
    in_doubt: Any = ()


def comes_to(outcome: Any) -> Any:
    return lambda facts: outcome


def verdict(*rules: Rule, default: Any = "allow", tool: str = "pay", facts: Facts | None = None) -> Verdict:
    return Judge(Policy(*rules, default=default)).verdict(tool, facts or Facts())


def judged(world: Any, default: str) -> str:
    return verdict(*(Rule(kind, "pay", comes_to(outcome)) for kind, outcome in world), default=default).verdict


def contract(world: Any, default: str) -> str:
    """K3 and K4, written a second time: from what is counted, not from rules in order."""
    counted = {kind: {str(outcome) for k, outcome in world if k == kind} for kind in KINDS}
    if counted["never"] - {"False"}:
        return "never"
    if counted["deny"] - {"False"}:
        return "deny"
    let_pass = "True" in counted["allow"] if counted["allow"] else default == "allow"
    if not let_pass:
        return "deny"
    return "approve" if counted["approve"] - {"False"} else "allow"


def test_every_small_world_is_judged_as_the_contract_says_K3_K4():
    cases = list(itertools.product(KINDS, OUTCOMES))
    judged_worlds = 0
    for size in range(5):
        for world in itertools.combinations_with_replacement(cases, size):
            for default in ("allow", "deny"):
                assert judged(world, default) == contract(world, default), (world, default)
                judged_worlds += 1
    assert judged_worlds == 2 * (1 + 12 + 78 + 364 + 1365)


def test_every_order_of_three_rules_is_judged_as_the_contract_says_K3_K4():
    cases = list(itertools.product(KINDS, OUTCOMES))
    for world in itertools.product(cases, repeat=3):
        assert judged(world, "deny") == contract(world, "deny"), world


worlds = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(OUTCOMES)), max_size=8)
defaults = st.sampled_from(("allow", "deny"))


@given(worlds, defaults, st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_no_verdict(world, default, random):
    shuffled = list(world)
    random.shuffle(shuffled)
    assert judged(world, default) == judged(shuffled, default)


@given(worlds, defaults, st.integers(0, 7))
def test_unknown_is_as_strict_as_the_stricter_of_true_and_false_K4(world, default, at):
    if at >= len(world):
        return
    kind = world[at][0]

    def strictness(outcome: Any) -> int:
        return STRICTNESS[judged([*world[:at], (kind, outcome), *world[at + 1 :]], default)]

    assert strictness(UNKNOWN) == max(strictness(True), strictness(False))


@given(worlds, worlds, defaults)
def test_refusals_and_questions_that_are_added_never_loosen_a_policy(world, more, default):
    added = [(kind, outcome) for kind, outcome in more if kind != "allow"]
    assert STRICTNESS[judged([*world, *added], default)] >= STRICTNESS[judged(world, default)]


def test_a_condition_that_raises_is_unknown_and_the_reason_names_the_error():
    found = verdict(deny("pay", lambda facts: facts.args["amount"] > 10))
    assert found.verdict == "deny"
    assert found.why == "the condition raised KeyError: 'amount'"
    assert verdict(allow("pay", lambda facts: 1 / 0 > 1)).verdict == "deny"


def test_a_condition_that_asks_for_the_truth_of_unknown_is_unknown_and_the_reason_names_the_sensor():
    facts = Facts(observed={"door.state": UNKNOWN, "clock": 3})
    found = verdict(never("pay", lambda f: not f.observed["door.state"]), facts=facts)
    assert (found.verdict, found.why) == ("never", 'observed["door.state"] could not be perceived')


def test_a_condition_that_returns_unknown_names_the_sensors_it_looked_at():
    facts = Facts(observed={"door.state": UNKNOWN, "other": UNKNOWN})
    found = verdict(approve("pay", lambda f: f.observed["door.state"] == "shut"), facts=facts)
    assert (found.verdict, found.why) == ("approve", 'observed["door.state"] could not be perceived')


def test_an_error_that_came_of_an_unknown_reading_names_both():
    found = verdict(deny("pay", lambda f: f.observed["x"] + 1 > 2), facts=Facts(observed={"x": UNKNOWN}))
    assert found.why.startswith("observed.x could not be perceived; the condition raised TypeError:")


@pytest.mark.parametrize("answer", [1, 0, None, "yes", [], 1.0])
def test_only_true_and_false_are_answers(answer):
    found = verdict(never("pay", comes_to(answer)))
    assert found.verdict == "never"
    assert type(answer).__name__ in found.why
    assert verdict(allow("pay", comes_to(answer))).verdict == "deny"


def test_a_coroutine_is_no_answer_and_leaves_no_warning_behind():
    async def later(facts):
        return False

    found = verdict(deny("pay", lambda facts: later(facts)))
    assert (found.verdict, found.why) == ("deny", "the condition returned coroutine, neither True nor False")


def test_an_async_condition_is_refused_where_it_is_declared():
    async def later(facts):
        return False

    with pytest.raises(ScenarioError, match="write `def`"):
        deny("pay", later)


def test_a_kind_of_rule_that_does_not_exist_is_refused():
    with pytest.raises(ScenarioError, match="no kind of rule"):
        Rule("forbid", "pay")  # type: ignore[arg-type]


def test_what_is_no_exception_of_a_condition_goes_through():
    def interrupted(facts):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verdict(deny("pay", interrupted))


def test_never_is_told_before_deny():
    assert verdict(deny("pay"), never("pay")).verdict == "never"


def test_a_verdict_names_the_rule_that_gave_it_with_its_place():
    rule = Rule("approve", "p*", place="vault.toml:31")
    assert verdict(rule) == Verdict("approve", "approve p* (vault.toml:31)", None)


def test_the_default_has_no_rule():
    assert verdict() == Verdict("allow", None, None)
    assert verdict(default="deny") == Verdict("deny", None, "no rule allows it, and the default is deny")


def test_an_allow_that_does_not_count_names_the_rules_and_what_was_unknown():
    found = verdict(
        allow("pay", comes_to(False)), allow("p*", lambda f: f.observed["x"] == 1), facts=Facts(observed={"x": UNKNOWN})
    )
    assert found.verdict == "deny"
    assert found.rule.startswith("allow pay when") and "; allow p* when" in found.rule
    assert found.why == "no rule that allows it holds: observed.x could not be perceived"


def test_globs_are_matched_letter_by_letter():
    policy = Policy(deny("github__*"), deny("p?y"), deny("[ab]x"))
    judge = Judge(policy)
    verdicts = {
        tool: judge.verdict(tool, Facts()).verdict for tool in ("github__push", "GitHub__push", "pay", "ax", "cx")
    }
    assert verdicts == {"github__push": "deny", "GitHub__push": "allow", "pay": "deny", "ax": "deny", "cx": "allow"}


def test_rules_for_other_tools_are_not_asked():
    asked = []
    judge = Judge(Policy(deny("restart", lambda facts: asked.append("restart") or False)))
    judge.verdict("pay", Facts())
    assert asked == []


def test_the_rules_of_society_and_agent_add_up_and_deny_is_the_default_if_either_says_so():
    both = Policy(never("restart"), default="deny") + Policy(allow("p*"))
    judge = Judge(both)
    assert [judge.verdict(tool, Facts()).verdict for tool in ("restart", "pay", "look")] == ["never", "allow", "deny"]


def test_texts_are_compiled_before_they_are_judged():
    with pytest.raises(TypeError, match="not compiled"):
        Judge(Policy(never("pay", "true")))


def test_a_verdict_is_a_value():
    found = verdict(never("pay"))
    assert pickle.loads(pickle.dumps(found)) == found
