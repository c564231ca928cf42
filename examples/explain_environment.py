"""Asks which variables a command would get, which it would lose, and why. Shows no values."""

import asyncio

import outfitter

# The environment that commands inherit from. Without it they inherit this process's own.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/dev", "EDITOR": "vi", "DEPLOY_TOKEN": "not-a-secret"}

POLICY = outfitter.EnvPolicy(
    inherit="all",
    ignore_default_excludes=False,  # withhold *KEY*, *SECRET* and *TOKEN*
    exclude=("EDITOR",),
    set=(("HOME", "/srv/project"),),
    include_only=(),
)


async def main() -> None:
    async with outfitter.local(environment=ENVIRONMENT) as client:
        # In / there is no project, which would have a say, too.
        told = await client.explain(cwd="/", policy=POLICY, env={"CI": "1"})
        print(told["summary"])
        for name, variable in told["variables"].items():
            if "removed" in variable:
                print(f"lost  {name:<13} {variable['removed']['why']}")
            else:
                print(
                    f"kept  {name:<13} {variable['layer']} {variable['id']}: {variable['origin']['detail']}"
                )
        for number, segment in enumerate(told["variables"]["PATH"]["segments"], 1):
            print(f"PATH {number}: {segment['value']} from {segment['layer']} {segment['id']}")
        done = await client.run(["env"], cwd="/", policy=POLICY, env={"CI": "1"})
        print("the command sees:", *sorted(done.stdout.decode().split()))


asyncio.run(main())
