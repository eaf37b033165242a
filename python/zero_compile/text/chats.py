"""Conversations as text, by the template that their tokenizer brings."""
from ..errors import BAD_INPUT, ZeroError, need

KEYS = "role", "content"


def is_chat(value):
    """A list of messages: who says it, and what."""
    return isinstance(value, list) and bool(value) and all(isinstance(message, dict) and all(key in message for key in KEYS) for message in value)


class Template:
    """Of a tokenizer's folder; read once a chat is met."""

    def __init__(self, folder):
        self.folder, self.tokenizer = folder, None

    def text(self, chat, where):
        """What the model is to read of `chat`. Errors: there is no template, or it refuses the chat."""
        self.tokenizer = self.tokenizer or self.open(where)
        try:
            return self.tokenizer.apply_chat_template(chat, tokenize=False)
        except Exception as problem:  # whatever a template raises
            raise ZeroError(BAD_INPUT, f"the chat template of {self.folder} refuses it: {problem}", where=where) from problem

    def open(self, where):
        hf = need("transformers", "the template of a chat")
        try:
            tokenizer = hf.AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)
        except Exception as problem:
            raise ZeroError(BAD_INPUT, f"it is a chat, and transformers opens no tokenizer in {self.folder}: {problem}", where=where) from problem
        if not tokenizer.chat_template:
            raise ZeroError(BAD_INPUT, f"it is a chat, and the tokenizer in {self.folder} has no chat template", where=where,
                            help="take the tokenizer of a model that talks, or write each chat as text")
        return tokenizer
