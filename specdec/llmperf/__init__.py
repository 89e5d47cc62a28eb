"""The LLMPerf lane: how the unmodified tool is run, and what its own files say."""
