"""Works with the files of an executor: small ones, a large one in blocks, a tree."""

import asyncio
import tempfile

import outfitter


async def main(folder: str) -> None:
    async with outfitter.local() as client:
        files = client.files
        await files.make_directory(f"{folder}/project/docs")
        await files.write(f"{folder}/project/docs/notes.txt", b"three words here\n")
        await files.write(f"{folder}/project/data.bin", bytes(10_000_000))  # goes in blocks by itself

        print(await files.read(f"{folder}/project/docs/notes.txt"))
        print((await files.stat(f"{folder}/project/data.bin")).size, "bytes")

        async with await files.open(f"{folder}/project/data.bin") as data:
            print(sum([len(block) async for block in data]), "bytes in blocks")

        walked = await files.walk(f"{folder}/project")
        for path, kind in walked.entries:
            print(f"{kind:9} {path.removeprefix(folder)}")

        await files.remove(f"{folder}/project", recursive=True)
        print("still there:", await files.exists(f"{folder}/project"))


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
