"""The teacher's pages, quiz and slides."""
