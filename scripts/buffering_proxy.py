"""A proxy that hands on whole buffers only, as many in front of real servers do.

    uv run python scripts/buffering_proxy.py PORT BYTES

Prints its own port. What comes from the server on PORT of this machine is kept until BYTES have come, or the
answer has ended; what goes to it is handed on at once.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

END = b"0\r\n\r\n"
"""Of a chunked answer."""


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
    kept = bytearray()
    passing = not size
    while data := await reader.read(65536):
        kept += data
        if size and kept.startswith(b"HTTP/"):
            # An answer that is not chunked, such as the list of models, has nothing to wait for.
            passing = b"chunked" not in kept.partition(b"\r\n\r\n")[0]
        whole = len(kept) if passing or kept.endswith(END) else len(kept) // size * size
        if whole:
            writer.write(bytes(kept[:whole]))
            await writer.drain()
            del kept[:whole]
    writer.write(bytes(kept))
    writer.close()


async def serve(port: int, size: int) -> None:
    """Serves until it is ended."""

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _pour(reader, to_server, 0), _pour(from_server, writer, size), return_exceptions=True
        )

    server = await asyncio.start_server(between, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def proxied(port: int, size: int) -> Generator[int]:
    """A proxy in a process of its own, in front of a port; yields its port."""
    command = [sys.executable, "-m", "scripts.buffering_proxy", str(port), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
