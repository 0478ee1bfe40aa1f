"""What people read: tables, and the documents that programs read."""
