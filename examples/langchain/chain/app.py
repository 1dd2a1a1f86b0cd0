"""A chat on the command line: prompt, model, parser, and the history that the app itself keeps.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_openai import ChatOpenAI


def main(questions: list[str]) -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You answer in one sentence."), MessagesPlaceholder("history")]
    )
    chain = prompt | ChatOpenAI(model="gpt-4o-mini") | StrOutputParser()

    history: list[BaseMessage] = []
    for question in questions:
        history.append(HumanMessage(question))
        answer = ""
        for piece in chain.stream({"history": history}):
            print(piece, end="", flush=True)
            answer += piece
        print()
        history.append(AIMessage(answer))


if __name__ == "__main__":
    main(sys.argv[1:] or ["What is a token budget?", "And why does a chat need one?"])
