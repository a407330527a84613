"""What `society check` tells of policies."""

from __future__ import annotations

import itertools
from typing import Any

import attrs

from society.conditions import Names, compiled
from society.judge import Judge
from society.policy import Policy, Rule, allow, approve, deny, never
from society.review import Hints, Line, Remark, Subject, keys_read, review
from society.shared import Shared
from society.values import UNKNOWN

TOOLS = {"pay": Hints(), "restart": Hints(idempotent=True), "look": Hints(reads_only=True)}
SHARED = {"status": Shared("open"), "window": Shared("shut", writers=["operator"])}


def reviewed(*own: Rule, society: Policy | None = None, default: Any = "allow", tools: Any = TOOLS) -> Any:
    policy = compiled(Policy(*own, default=default), Names())
    return review([Subject("ada", tools, policy)], society=society, shared=SHARED)


def standing(*own: Rule, **how: Any) -> dict[str, list[str]]:
    found = reviewed(*own, **how).agents[0]
    return {name: [str(line) for line in getattr(found, name)] for name in ("may", "asks", "never")}


def remarks(*own: Rule, **how: Any) -> list[tuple[str, str]]:
    return [(remark.kind, remark.what) for remark in reviewed(*own, **how).remarks]


def test_without_rules_the_default_decides():
    assert standing() == {"may": ["pay", "restart", "look"], "asks": [], "never": []}
    assert standing(default="deny") == {"may": [], "asks": [], "never": ["pay", "restart", "look"]}


def test_rules_without_conditions_put_a_tool_in_one_list():
    assert standing(never("restart"), approve("pay")) == {"may": ["look"], "asks": ["pay"], "never": ["restart"]}
    assert standing(deny("*")) == {"may": [], "asks": [], "never": ["pay", "restart", "look"]}
    assert standing(allow("look"), default="deny")["may"] == ["look"]


def test_conditions_are_shown_where_they_bear():
    assert standing(never("pay", "round > 3"), approve("pay", "args.n > 9"), tools={"pay": Hints()}) == {
        "may": ["pay unless round > 3, unless args.n > 9"],
        "asks": ["pay if args.n > 9, unless round > 3"],
        "never": ["pay if round > 3"],
    }
    assert standing(allow("pay", "args.n < 5"), allow("p*", "args.n == 7"), tools={"pay": Hints()})["may"] == [
        "pay if args.n < 5 or args.n == 7"
    ]


def test_a_line_has_the_rule_with_its_place_and_the_hints_of_the_tool():
    rule = Rule("never", "restart", place="vault.toml:31")
    found = reviewed(rule).agents[0]
    assert found.never == (Line("restart", "never restart (vault.toml:31)", None, Hints(idempotent=True)),)
    assert found.may[1].hints.reads_only


def test_the_rules_of_society_and_agent_are_reviewed_together():
    found = standing(allow("pay"), society=Policy(never("restart"), default="deny"))
    assert found == {"may": ["pay"], "asks": [], "never": ["restart", "look"]}


def test_a_rule_behind_a_refusal_without_condition_is_shadowed():
    for rule in (deny("pay"), allow("pay"), approve("pay"), never("pay", "round > 1")):
        assert remarks(never("pay"), rule) == [("shadowed", str(rule))]
    assert remarks(deny("pay"), never("pay", "round > 1")) == []
    assert remarks(approve("pay"), never("p*")) == [("shadowed", "approve pay")]


def test_a_rule_behind_another_of_its_kind_is_shadowed():
    assert remarks(approve("p*"), approve("pay", "round > 1")) == [("shadowed", "approve pay when round > 1")]
    assert remarks(approve("pay", "round > 1"), approve("p*")) == []
    assert remarks(allow("pay", "round > 1"), allow("p*")) == [("shadowed", "allow pay when round > 1")]
    assert remarks(deny("pay", "round > 1"), deny("pay", "round > 1")) == [("shadowed", "deny pay when round > 1")]
    assert remarks(deny("pay", "round > 1"), approve("pay", "round > 1")) == [
        ("shadowed", "approve pay when round > 1")
    ]


def test_a_rule_that_is_shadowed_for_one_of_its_tools_only_is_not_shadowed():
    assert remarks(never("pay"), approve("*")) == []


def test_an_approve_that_no_allow_lets_through_is_shadowed():
    (remark,) = (r for r in reviewed(approve("pay"), allow("restart"), allow("look"), default="deny").remarks)
    assert (remark.kind, remark.what) == ("shadowed", "approve pay")
    assert "nobody is asked" in remark.why


def test_globs_and_names_that_match_nothing_are_told():
    found = reviewed(deny("github__*"), deny("restrat")).remarks
    assert [(r.kind, r.why) for r in found] == [
        ("matches nothing", "no tool matches the glob."),
        ("matches nothing", "there is no such tool. Did you mean 'restart'?"),
    ]


def test_a_rule_for_everyone_is_odd_only_if_it_is_odd_for_everyone():
    society = Policy(never("pay"), approve("restart"), deny("nothing_*"))
    ada = Subject("ada", {"pay": Hints()}, Policy())
    bob = Subject("bob", {"restart": Hints()}, Policy())
    eve = Subject("eve", {"restart": Hints()}, Policy(never("restart")))
    assert review([ada, bob, eve], society=society, shared={}).remarks == (
        Remark("matches nothing", (), "deny nothing_*", "no tool matches the glob."),
    )
    found = review([ada, eve], society=society, shared={}).remarks
    assert [remark.what for remark in found] == ["approve restart", "deny nothing_*"]


def test_tools_without_any_rule_under_a_default_of_deny_are_told():
    assert remarks(allow("pay"), never("restart"), default="deny") == [("no rule", "look")]
    assert remarks(allow("pay")) == []


def test_rules_that_read_what_anyone_may_write_are_told():
    (remark,) = reviewed(never("pay", "shared.status == 'open' && shared.window == 'open'")).remarks
    assert remark.kind == "open key"
    assert "shared.status" in remark.why and "writers" in remark.why


def test_the_keys_that_a_function_reads_are_found_in_its_code():
    def careful(facts):
        return any(facts.shared[key] == "open" for key in ["status"])

    assert keys_read(never("pay", careful), SHARED) == ["status"]
    assert keys_read(never("pay", lambda facts: facts.shared["window"] == "open"), SHARED) == ["window"]
    assert keys_read(never("pay", lambda facts: facts.args["status"] == "open"), SHARED) == []
    assert keys_read(never("pay", print), SHARED) == []


def test_agents_that_are_alike_are_warned_of_once():
    crowd = [Subject(f"citizen-{number}", TOOLS, Policy(deny("nope"))) for number in range(1_000)]
    found = review(crowd, shared={})
    assert len(found.agents) == 1_000
    (remark,) = found.remarks
    assert str(remark) == "citizen-0 and 999 more: deny nope: there is no such tool. Known: pay, restart, look."


@attrs.frozen
class Two:
    """Facts of two conditions, each true, false or unknown."""

    args: Any
    observed: Any = attrs.field(factory=dict)


def first(facts: Two) -> Any:
    return facts.args[0]


def second(facts: Two) -> Any:
    return facts.args[1]


OUTCOMES: list[Any] = [Two(outcomes) for outcomes in itertools.product((True, False, UNKNOWN), repeat=2)]


def test_a_rule_that_is_called_shadowed_gives_no_verdict_that_would_not_be_given_without_it():
    rules = [
        Rule(kind, "pay", when) for kind in ("never", "deny", "allow", "approve") for when in (None, first, second)
    ]
    found = 0
    for pair, default in itertools.product(itertools.permutations(rules, 2), ("allow", "deny")):
        odd = reviewed(*pair, default=default, tools={"pay": Hints()}).remarks
        shadowed = {remark.what for remark in odd if remark.kind == "shadowed"}
        given = [Judge(Policy(*pair, default=default)).verdict("pay", facts) for facts in OUTCOMES]
        for index, rule in enumerate(pair):
            if str(rule) in shadowed:
                found += 1
                without = Judge(Policy(pair[1 - index], default=default))
                same = [without.verdict("pay", facts).verdict for facts in OUTCOMES] == [v.verdict for v in given]
                # An `allow` that can never hold still names the tool, so without it the default would decide.
                assert same or (rule.kind == "allow" and all(v.verdict != "allow" for v in given)), pair
    assert found > 20
