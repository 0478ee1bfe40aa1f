"""The settings of the agent."""
