"""The agent's HTTP side: a bounded server, its pages, and who may see them."""
