"""Files that commands write: whole, with the rights that a new file has, and never in the place of what is no file."""
import os
import pathlib

from .errors import USAGE, ZeroError


def check(path, inputs=()):
    """Before anything that takes time. Errors: a folder or a device has that name, or it is one of `inputs` (usage)."""
    if pathlib.Path(path).exists() and not pathlib.Path(path).is_file():
        raise ZeroError(USAGE, "the output is there and no regular file", where=str(path))
    for each in inputs:
        if os.path.exists(path) and os.path.exists(each) and os.path.samefile(path, each):
            raise ZeroError(USAGE, "the output is a file that is read", where=str(path))


def check_folder(path):
    """The same of a folder that a command fills. Errors: it holds something, or is none (usage)."""
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise ZeroError(USAGE, "the output is there and no folder", where=str(path))
    if path.exists() and any(path.iterdir()):
        raise ZeroError(USAGE, "the folder is not empty", where=str(path))


def put(file, target):
    """`file`, complete and on the same file system, becomes `target`."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(file, 0o666 & ~mask)
    os.replace(file, target)


def put_folder(folder, target):
    """`folder`, complete and on the same file system, becomes `target`. Where that is there, empty, it stays, since it may be mounted or the
    working directory, and gets the files: configurations last, without which nobody takes it for a model."""
    if not target.exists():
        folder.replace(target)
        return
    for path in sorted(folder.iterdir(), key=lambda path: path.name.endswith("config.json")):
        path.replace(target / path.name)
