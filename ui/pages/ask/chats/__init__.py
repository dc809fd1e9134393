"""Chats: their turns, the bar that lists them, and export."""
