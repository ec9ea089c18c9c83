"""A stand-in for the providers' servers, on this machine: it says in their protocols what a script says.

With it an agent runs unchanged, its real adapter included, without a key and without a network::

    with ProviderServer([tool_call("get_weather", {"city": "Oslo"}), "It is sunny."]) as server:
        os.environ.update(server.environment)
        ...  # Agent(model="openai/gpt-5"), or `interlock run` in a process of its own
        assert server.open_streams == 0
"""

from __future__ import annotations

from interlock.testing.provider_server.script import RawReply, ReceivedRequest, ServerTurn, end_early, hang_up
from interlock.testing.provider_server.server import ProviderServer

__all__ = ["ProviderServer", "RawReply", "ReceivedRequest", "ServerTurn", "end_early", "hang_up"]
