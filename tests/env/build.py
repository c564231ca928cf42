"""A model's case as what the code under test takes."""

from __future__ import annotations

from outfitter.env.layer import Layer, Operation
from outfitter.env.origin import Origin
from outfitter.env.policy import Policy
from outfitter.env.resolve import Resolved, Rules, Stack

from .model import Case, Overlay

ORIGIN = Origin("test", "from a test")


def layer(overlay: Overlay) -> Layer:
    return Layer(
        overlay.level,
        overlay.id,
        ORIGIN,
        overlay.values,
        unset=overlay.unset,
        operations=[Operation(variable, op, tuple(entries)) for variable, op, entries in overlay.operations],
        root=overlay.root,
        author=overlay.author,
        state=overlay.state,
        where_unset=overlay.where_unset,
    )


def stack(case: Case) -> Stack:
    rules = Rules(
        allow_from=frozenset(case.allow_from),
        allow_code_loading={name: frozenset(names) for name, names in case.allow_code_loading.items()},
        list_names=frozenset(case.lists),
        tidy=case.tidy,
    )
    return Stack([layer(one) for one in case.overlays], [Policy(**policy) for policy in case.policies], rules)


def resolved(case: Case) -> Resolved:
    request = None if case.request is None else layer(case.request)
    return stack(case).resolve(request, [layer(one) for one in case.runtime])
