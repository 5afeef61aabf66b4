"""A model that needs no network: it answers by the words of the prompt. And the functions that the graphs call."""

import json

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf


def answer(messages, info):
    """The scripted reply to the last prompt."""
    parts = [part for message in messages for part in message.parts]
    prompts = [part.content for part in parts if part.part_kind == "user-prompt"]
    returned = [part.content for part in parts if part.part_kind == "tool-return"]
    prompt = prompts[0].strip()
    begin, reply = next((begin, reply) for begin, reply in REPLIES.items() if prompt.startswith(begin))
    made = reply(prompt.removeprefix(begin).strip(), returned, info) if callable(reply) else reply
    if isinstance(made, list):
        return ModelResponse(parts=[ToolCallPart(name, given) for name, given in made])
    if isinstance(made, dict) and info.output_tools:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, made)])
    return ModelResponse(parts=[TextPart(made if isinstance(made, str) else json.dumps(made))])


def judge(rest, returned, info):
    good = "sun" in rest
    return {"score": 0.9 if good else 0.4, "issues": [] if good else ["name the sun"]}


def search(rest, returned, info):
    title = rest.partition("?")[0]
    if not returned:
        return [("find_book", {"title": title}), ("announce", {"text": f"looking for {title}"})]
    return f"{title} is on shelf {json.loads(returned[0])['shelf']}."


def rate(rest, returned, info):
    """The first model gives six stars, which its schema does not allow; the fallback gives four."""
    return {"stars": 4 if (info.model_settings or {}).get("temperature") == 0 else 6}


REPLIES = {
    "Greet ": lambda rest, *_: f"Dear {rest.split()[0]}, welcome.",
    "Write a sentence about ": lambda rest, *_: f"{rest.rstrip('.').capitalize()} grow.",
    "Judge this draft:": judge,
    "Revise this draft: ": lambda rest, *_: f"{rest.splitlines()[0].rstrip('.')} in the sun.",
    "Classify this message: ": lambda rest, *_: {"kind": "question" if "?" in rest else "complaint"},
    "Explain, in reply to: ": lambda rest, *_: f"You asked: {rest}",
    "Apologize, in reply to: ": "We are sorry.",
    "Name three places in ": {"names": ["Porto", "Faro", "Braga"]},
    "Write a postcard from ": lambda rest, *_: f"Greetings from {rest}",
    "Bind these ": lambda rest, *_: "\n".join(line for line in rest.splitlines()[1:] if line),
    "Where is ": search,
    "Ask one question about ": lambda rest, *_: f"What do you think of {rest.rstrip('.')}?",
    "Describe a person who answered ": lambda rest, *_: f"Someone who likes {rest.split()[0]}.",
    "Sum up: ": lambda rest, *_: f"You have {rest}",
    "Extract the facts ": 'Here they are: {"year": 1897, "author": "Stoker"}. Anything else?',
    "Rate the facts: ": rate,
    "Report on ": lambda rest, *_: f"# Report\n\n{rest}",
    "List facts about ": lambda rest, *_: f"Facts about {rest}",
    "List the risks of ": {"risks": ["frost", "wasps"]},
    "Brief: ": lambda rest, *_: rest,
    "A quiz question about ": lambda rest, *_: f"What is a {rest.rstrip('.')}?",
}
"""The reply to a prompt, by the words that the prompt begins with: text, JSON, or a list of tool calls."""


def take_topic(topics: list) -> dict:
    """The next topic, and what is left."""
    return {"topic": topics[0], "topics": topics[1:], "left": len(topics) - 1}


def log_question(question: str) -> dict:
    """Adds a question to the messages."""
    return {"messages": [question]}


def issue_ticket(seat: str, destination: str) -> dict:
    """A ticket with a seat."""
    return {"ticket": {"seat": seat, "to": destination}}


def register(registry):
    """Let the scripted model answer, and register the functions."""
    registry.choose(FunctionModel(answer))
    for function in (take_topic, log_question, issue_ticket):
        agf.tool(function, registry=registry)
