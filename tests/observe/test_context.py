"""The trace context that goes with a client's requests."""

from __future__ import annotations

import subprocess
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from outfitter.observe.context import current


def test_context_is_that_of_the_span_that_is_recording() -> None:
    assert current() is None
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    with trace.use_span(tracer.start_span("one")) as span:
        context = span.get_span_context()
        ids = f"{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert current() == {"traceparent": f"00-{ids}"}
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("tests")
    with trace.use_span(unsampled.start_span("two")):
        assert current() is None


def test_client_imports_nothing_of_opentelemetry() -> None:
    code = (
        "import asyncio, sys, outfitter\n"
        "async def main():\n"
        "    async with outfitter.local() as client:\n"
        "        assert (await client.run(['true'])).exit_code == 0\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus'))],\n"
        "      sorted(name for name in sys.modules if name.startswith('outfitter.observe.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['outfitter.observe.context']"
