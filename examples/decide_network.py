"""Runs a command that may reach one domain, and decides about every other host it wants."""

import outfitter
from outfitter import Sandbox
from outfitter.client.answers import NetworkTarget


def decide(wanted: NetworkTarget) -> bool:  # a program would ask a person here
    return wanted.host.endswith(".example.com")


with outfitter.sync.local() as client:
    process = client.start(
        ["curl", "-s", "http://files.example.org/"],
        sandbox=Sandbox.read_only(domains=["pypi.org"]),
        decide=decide,
        on_network=lambda told: print(told.decision, told.host, told.port, "by", told.source),
    )
    print("exit code:", process.wait())
