"""The LangChain adapter: models, chains and agents, installed with one line."""
