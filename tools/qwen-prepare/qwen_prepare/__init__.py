"""Turns chats and plain text into the token files that qwenrun reads."""
