"""What holds behind a tool that makes a command's environment itself."""

from __future__ import annotations

from outfitter.env.behind import Behind, behind, put_right
from outfitter.env.layer import BASE, OVERRIDE, PROVIDER, REQUESTED, RUNTIME_LEVEL, SESSION, Layer
from outfitter.env.origin import EXECUTOR
from outfitter.env.policy import Policy
from outfitter.env.resolve import Resolved, Rules, resolve
from outfitter.record import replace

TOOL = Layer(PROVIDER, "direnv", EXECUTOR, prefix=("/bin/tool",), producer="direnv")
BASE_ENV = {"PATH": "/bin", "HOME": "/h", "PLAIN": "1", "EDITOR": "vi"}


def made(*layers: Layer, policies: tuple[Policy, ...] = (), rules: Rules | None = None) -> Resolved:
    request = Layer(REQUESTED, "request", EXECUTOR, {"ASKED": "yes"})
    runtime = [
        Layer(RUNTIME_LEVEL, "runtime", EXECUTOR, {"SHLVL": "1"}, where_unset=True),
        Layer(RUNTIME_LEVEL, "scope", EXECUTOR, {"OUTFITTER_SCOPE": "s"}),
    ]
    base = Layer(BASE, "base", EXECUTOR, BASE_ENV)
    return resolve([base, TOOL, *layers], policies, request, runtime, rules)


def test_the_words_are_rules_and_the_values_are_variables() -> None:
    layers = (
        Layer(SESSION, "hook", EXECUTOR, {"SAID": "by a hook"}),
        Layer(OVERRIDE, "user", EXECUTOR, {"PATH": "/mine:/bin"}, unset=["PLAIN"]),
    )
    policy = Policy("all", True, ("AWS_*",))
    rules = Rules(allow_code_loading={"direnv": frozenset(("PYTHONPATH",))})
    assert behind(made(*layers, policies=(policy,), rules=rules)) == Behind(
        ("deny", "AWS_*", "allow", "PYTHONPATH", "unset", "PLAIN", "--"),
        {
            "__OUTFITTER_KEPT_EDITOR": "vi",
            "__OUTFITTER_KEPT_SAID": "by a hook",
            "__OUTFITTER_KEPT_ASKED": "yes",
            "__OUTFITTER_KEPT_OUTFITTER_SCOPE": "s",
            "__OUTFITTER_NEEDED_HOME": "/h",
            "__OUTFITTER_NEEDED_PATH": "/mine:/bin",
        },
        {
            "PATH": "/mine:/bin",
            "HOME": "/h",
            "EDITOR": "vi",
            "SAID": "by a hook",
            "ASKED": "yes",
            "SHLVL": "1",
            "OUTFITTER_SCOPE": "s",
        },
    )


def test_what_a_shell_was_denied_or_given_holds_behind_the_tool() -> None:
    holds = Behind(("--",), {"__OUTFITTER_KEPT_BASH_ENV": "x"}, {"BASH_ENV": "x", "PATH": "/bin"})
    assert holds.given({"PATH": "/bin", "ENV": "/dev/null"}) == {
        "PATH": "/bin",
        "ENV": "/dev/null",
        "__OUTFITTER_KEPT_ENV": "/dev/null",
    }


def test_the_default_excludes_hold_and_a_person_can_let_a_layer_pass() -> None:
    policy = Policy("all", False, ("A",))
    assert behind(made(policies=(policy,))).words == (
        *("deny", "*KEY*", "deny", "*SECRET*", "deny", "*TOKEN*", "deny", "A", "--"),
    )
    rules = Rules(allow_from=frozenset(("L3",)))
    assert behind(made(policies=(policy,), rules=rules)).words == ("--",)


def test_what_the_tool_brings_back_is_taken_away_and_the_rest_stays() -> None:
    words = ("deny", "*TOKEN*", "allow", "PYTHONPATH", "unset", "CUT", "--", "make", "--", "deny")
    env = {
        "PATH": "/tool:/bin",
        "MY_TOKEN": "x",
        "my_token": "x",
        "LD_PRELOAD": "x",
        "PYTHONPATH": "/p",
        "OPENAI_IDENTITY_TOKEN_FILE": "x",
        "OUTFITTER_SCOPE": "forged",
        "CUT": "x",
        "NEW": "1",
        "ASKED": "forged",
        "BASH_FUNC_x%%": "() { :; }",
        "__OUTFITTER_KEPT_ASKED": "yes",
        "__OUTFITTER_KEPT_EDITOR": "vi",
        "__OUTFITTER_NEEDED_HOME": "/h",
        "__OUTFITTER_NEEDED_PATH": "/bin",
    }
    right, command = put_right(env, words)
    assert command == ["make", "--", "deny"]
    assert right == {
        "PATH": "/tool:/bin",
        "PYTHONPATH": "/p",
        "NEW": "1",
        "ASKED": "yes",
        "EDITOR": "vi",
        "HOME": "/h",
    }


def test_what_a_tool_was_seen_to_make_is_judged_and_not_applied() -> None:
    tool = Layer(
        PROVIDER, "direnv", EXECUTOR, prefix=("/bin/tool",), makes={"LD_PRELOAD": "x", "NEW": "1", "PWD": "/"}
    )
    resolved = resolve([Layer(BASE, "base", EXECUTOR, BASE_ENV), tool], ())
    assert resolved.values == BASE_ENV
    [refusal] = resolved.refused
    assert (refusal.name, refusal.reason) == ("LD_PRELOAD", "code-loading")
    assert refusal.why.endswith("; taken away again behind the tool")


def test_whatever_is_told_as_taken_away_is_taken_away() -> None:
    names = ("CODEX_THREAD_ID", "CLAUDECODE", "OUTFITTER_X", "A.B", "LD_PRELOAD", "MY_TOKEN", "FINE", "PWD")
    policy = Policy("all", True, ("*TOKEN*",))
    tool = replace(TOOL, makes=dict.fromkeys(names, "x"))
    resolved = resolve([Layer(BASE, "base", EXECUTOR, BASE_ENV), tool], (policy,))
    refused = {one.name for one in resolved.refused}
    right, _ = put_right(dict.fromkeys(names, "x"), (*behind(resolved).words, "true"))
    assert right == dict.fromkeys(sorted({*names} - refused), "x") == {"FINE": "x", "PWD": "x"}
