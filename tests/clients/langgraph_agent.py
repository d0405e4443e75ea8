"""LangGraph's agent with langchain-openai: tools side by side, nodes side by side, streamed and not, a cancelled stream."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import errand
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition


def model(*, streaming: bool) -> ChatOpenAI:
    """Return the chat model, which reads OPENAI_BASE_URL."""
    return ChatOpenAI(
        model=errand.MODEL,
        api_key=errand.KEY,
        streaming=streaming,
        default_headers=errand.HEADERS,
        default_query=errand.QUERY,
    )


TOOLS = [tool(weather) for weather in errand.TOOLS.values()]


class State(TypedDict):
    """The messages of one agent."""

    messages: Annotated[list[AnyMessage], add_messages]


def agent(*, streaming: bool) -> Any:
    """Return a graph of a model and its tools."""
    thinking = model(streaming=streaming).bind_tools(TOOLS)

    def think(state: State) -> dict[str, Any]:
        return {"messages": [thinking.invoke(state["messages"])]}

    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


class Sides(TypedDict):
    """What two nodes that run at the same time have found."""

    found: Annotated[list[str], lambda a, b: [*a, *b]]


def side_by_side() -> Any:
    """Return a graph with a node for each side question; each runs an agent of its own."""
    graph = StateGraph(Sides)
    for number, question in enumerate(errand.SIDE_QUESTIONS):

        def ask(_: Sides, question: str = question) -> dict[str, list[str]]:
            done = agent(streaming=True).invoke({"messages": start(question)})
            return {"found": [done["messages"][-1].content]}

        graph.add_node(f"side{number}", ask)
        graph.add_edge(START, f"side{number}")
        graph.add_edge(f"side{number}", END)
    return graph.compile()


def start(question: str) -> list[AnyMessage]:
    return [SystemMessage(errand.SYSTEM), HumanMessage(question)]


def main() -> None:
    one = agent(streaming=False)
    done = one.invoke({"messages": start(errand.QUESTION)})
    again = agent(streaming=True)
    again.invoke({"messages": [*done["messages"], HumanMessage("And what of tomorrow?")]})
    side_by_side().invoke({"found": []})
    model(streaming=False).invoke(errand.REFUSED_QUESTION)
    stream = model(streaming=True).stream(errand.LONG_QUESTION)
    for _ in range(5):
        next(stream)
    stream.close()


main()
