"""Runs commands from a script without asyncio: plain calls and plain loops."""

import outfitter

with outfitter.sync.local() as client:
    done = client.run(["sh", "-c", "echo made it; exit 3"], timeout=10)
    print("exit code:", done.exit_code)
    print("stdout:", done.stdout)

    client.run(["seq", "1", "3"], on_output=lambda event: print(event.data.decode(), end=""))

    process = client.start(["sort"], stdin=True)
    process.write(b"pear\napple\n")
    process.close_stdin()
    for event in process:
        match event:
            case outfitter.Output(stream=stream, data=data):
                print(f"{stream}: {data!r}")
            case outfitter.Exited(code=code):
                print(f"exited: {code}")
