"""A crew of two, who write a text one after the other.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys

from crewai import LLM, Agent, Crew, Task


def main(topic: str) -> None:
    llm = LLM(model="openai/gpt-4o-mini")
    writer = Agent(role="writer", goal="Write plainly.", backstory="You write haiku.", llm=llm)
    critic = Agent(role="critic", goal="Be kind.", backstory="You improve texts.", llm=llm)

    draft = Task(
        name="draft",
        description="Write a haiku about {topic}",
        expected_output="Three lines.",
        agent=writer,
    )
    polish = Task(
        name="polish",
        description="Make it better.",
        expected_output="Three lines.",
        agent=critic,
    )
    crew = Crew(agents=[writer, critic], tasks=[draft, polish])

    print(crew.kickoff(inputs={"topic": topic, "session_id": "texts"}))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "a bridge")
