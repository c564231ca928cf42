"""AutoSkillit's launch contract, as a worked example: its sets of names, and the contract made of them.

`examples/autoskillit.toml` says the same in TOML. The names are AutoSkillit's, not Outfitter's.
"""

from __future__ import annotations

from ..env.launches import Kind, LaunchContract

_EVERY_HEADLESS = (
    "AUTOSKILLIT_HEADLESS",
    "AUTOSKILLIT_SESSION_TYPE",
    "MAX_MCP_OUTPUT_TOKENS",
    "MCP_CONNECTION_NONBLOCKING",
    "AUTOSKILLIT_AGENT_BACKEND",
)
SKILL_REQUIRED = _EVERY_HEADLESS
ORCHESTRATOR_REQUIRED = _EVERY_HEADLESS
RESUME_REQUIRED = ("MAX_MCP_OUTPUT_TOKENS",)
FOOD_TRUCK_REQUIRED = (*SKILL_REQUIRED, "AUTOSKILLIT_HEADLESS_AUTO_GATE")
# Always set by the builder itself: nobody needs to ask whether they were inherited.
ALWAYS_FRESH = ("AUTOSKILLIT_AGENT_BACKEND", "MCP_CONNECTION_NONBLOCKING")
# A headless parent has them, and its children do not inherit them. A resume sets the first again.
HEADLESS_EXCLUSIVE = (
    "MAX_MCP_OUTPUT_TOKENS",
    "AUTOSKILLIT_HEADLESS",
    "AUTOSKILLIT_HEADLESS_AUTO_GATE",
    "AUTOSKILLIT_SESSION_TYPE",
    *ALWAYS_FRESH,
)

_TOKENS = {"MAX_MCP_OUTPUT_TOKENS": "50000"}
_HEADLESS = {
    "AUTOSKILLIT_HEADLESS": "1",
    "AUTOSKILLIT_SESSION_TYPE": "{kind}",
    **_TOKENS,
    "MCP_CONNECTION_NONBLOCKING": "1",
    "AUTOSKILLIT_AGENT_BACKEND": "{backend}",
}
_GATE = {"AUTOSKILLIT_HEADLESS_AUTO_GATE": "1"}

CONTRACT = LaunchContract(
    "autoskillit",
    (
        Kind("skill", requires=SKILL_REQUIRED, baseline=_HEADLESS),
        Kind("orchestrator", requires=ORCHESTRATOR_REQUIRED, baseline={**_HEADLESS, **_GATE}),
        Kind("headless", requires=ORCHESTRATOR_REQUIRED, baseline=_HEADLESS),
        Kind("resume", requires=RESUME_REQUIRED, baseline=_TOKENS),
        Kind("interactive", forbids=("AUTOSKILLIT_HEADLESS",)),
        # A dispatched worker.
        Kind("food_truck", requires=FOOD_TRUCK_REQUIRED, baseline={**_HEADLESS, **_GATE}),
    ),
    private=("AUTOSKILLIT_PRIVATE_*",),
    exclusive=HEADLESS_EXCLUSIVE,
)
