"""What the probes cost, and what keeps them within their budget."""
