"""A tool server made with the SDK whose catalog changes while it runs, and says so by the newer protocol.

python growing_server.py                 over its standard input and output
python growing_server.py --http PORT     at http://127.0.0.1:PORT/mcp
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("growing")


@server.tool()
async def echo(n: int) -> int:
    """Give it back."""
    return n


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer a further tool from now on, and say so."""

    async def further() -> None:
        """It is new."""

    server.add_tool(further)
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if "--http" in sys.argv:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
