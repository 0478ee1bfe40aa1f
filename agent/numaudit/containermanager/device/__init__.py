"""The Device Manager's hints and allocation."""
