"""Ask the agents of a cluster through kubectl, which knows how to log in and how to reach the API server."""
