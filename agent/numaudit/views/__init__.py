"""Output for people: tables, the live screen and pages."""
