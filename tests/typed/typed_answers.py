"""What the type checker knows about typed answers; checked by mypy, never run."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar, assert_type

import pydantic
from typing_extensions import TypedDict

from interlock import Agent, AgentResult, AgentStream

T = TypeVar("T")


class City(pydantic.BaseModel):
    name: str


class Page(pydantic.BaseModel, Generic[T]):
    entries: list[T]


@dataclasses.dataclass
class Town:
    name: str


class Village(TypedDict):
    name: str


async def generated(agent: Agent) -> None:
    assert_type(await agent.generate("hi", structured_output=City), AgentResult[City | None])
    assert_type((await agent.generate("hi", structured_output=City)).object, City | None)
    assert_type((await agent.generate("hi", structured_output=Town, max_steps=2, run_id="r")).object, Town | None)
    assert_type((await agent.generate("hi", structured_output=Village)).object, Village | None)
    assert_type((await agent.generate("hi", structured_output=Page[City])).object, Page[City] | None)
    assert_type((await agent.generate("hi", structured_output=list[City])).object, list[City] | None)
    assert_type((await agent.generate("hi", structured_output=int)).object, int | None)


async def streamed(agent: Agent) -> None:
    async with agent.stream("hi", structured_output=City) as stream:
        assert_type(stream, AgentStream[City | None])
        assert_type(await stream.object, City | None)
        assert_type((await stream.get_full_output()).object, City | None)
    assert_type(await (await agent.stream("hi", structured_output=City)).object, City | None)


def blocking(agent: Agent) -> None:
    assert_type(agent.generate_sync("hi", structured_output=City).object, City | None)
    with agent.stream_sync("hi", structured_output=City) as stream:
        assert_type(stream.result().object, City | None)


async def without_a_type(agent: Agent) -> None:
    assert_type((await agent.generate("hi")).object, Any)
    assert_type((await agent.generate("hi", structured_output={"type": "object"})).object, Any)
    assert_type((await agent.generate("hi", structured_output={"schema": City})).object, Any)
    assert_type((await agent.generate("hi", structured_output=City | Town)).object, Any)
    result: AgentResult = await agent.generate("hi", structured_output=City)
    assert_type(result.object, Any)
