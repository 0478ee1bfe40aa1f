"""What this host can measure, source by source, and why not."""
