"""Text to files of tokens: documents read, words counted once, their numbers written."""
