"""The settings of the agent."""

CONFIG_VARIABLE = "NUMAUDIT_CONFIG"
"""The environment variable that names the file of settings."""
