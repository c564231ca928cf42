"""Asks which variables a command would get, which it would lose, and why. Values are never told."""

import asyncio

import outfitter

# What commands inherit from; without it, this process's own environment.
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
        for variable in await client.explain(policy=POLICY, env={"CI": "1"}):
            fate = "kept" if variable["kept"] else "lost"
            print(f"{fate}  {variable['name']:<13} {variable['origin']['detail']}: {variable['rule']}")
        done = await client.run(["env"], policy=POLICY, env={"CI": "1"})
        print("the command sees:", *sorted(done.stdout.decode().split()))


asyncio.run(main())
