"""The part of the report about the processes of a container."""
