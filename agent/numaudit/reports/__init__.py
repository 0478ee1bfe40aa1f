"""Output for people, and the JSON documents."""
