"""A user's three messages through an agent library. Runs in the environment of the libraries, not in ours.

python sdk_talk.py KIND BASE_URL KEY MODEL MESSAGE MESSAGE MESSAGE
"""

import asyncio
import subprocess
import sys

KIND, BASE_URL, KEY, MODEL, *SAID = sys.argv[1:]


def shell(command: str) -> str:
    """Run a shell command.

    Args:
        command: the command
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def openai_agents(responses: bool) -> None:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        SQLiteSession,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    openai = AsyncOpenAI(base_url=BASE_URL, api_key=KEY)
    kind = OpenAIResponsesModel if responses else OpenAIChatCompletionsModel
    model = kind(model=MODEL, openai_client=openai)
    agent = Agent(name="a", instructions="You are helpful.", tools=[function_tool(shell)], model=model)
    session = SQLiteSession("s1")
    for number, said in enumerate(SAID):
        if number == len(SAID) - 1:
            streamed = Runner.run_streamed(agent, said, session=session)
            async for _ in streamed.stream_events():
                pass
            print(streamed.final_output)
        else:
            print((await Runner.run(agent, said, session=session)).final_output)


def langchain(responses: bool) -> None:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    model = ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=KEY, use_responses_api=responses or None)
    agent = create_agent(model, tools=[shell], system_prompt="You are helpful.", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    for number, said in enumerate(SAID):
        asked = {"messages": [("user", said)]}
        if number == len(SAID) - 1:
            for chunk, _ in agent.stream(asked, config, stream_mode="messages"):
                print(chunk.text, end="")
        else:
            print(agent.invoke(asked, config)["messages"][-1].text)


def smolagents(code: bool) -> None:
    from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool

    model = OpenAIServerModel(model_id=MODEL, api_base=BASE_URL, api_key=KEY)
    agent = (CodeAgent if code else ToolCallingAgent)(tools=[tool(shell)], model=model, max_steps=3)
    for number, said in enumerate(SAID):
        print(agent.run(said, reset=number == 0))


if KIND.startswith("openai-agents"):
    asyncio.run(openai_agents(KIND.endswith("responses")))
elif KIND.startswith("langchain"):
    langchain(KIND.endswith("responses"))
else:
    smolagents(KIND.endswith("code"))
