"""What cases that run beside each other may not do: use a file that another one writes, change the environment or the working directory of all."""
import collections, contextlib, os, re, sys, threading

OUTPUTS = {"-o", "--out", "--output", "--outputs", "--safetensors", "--onnx", "--inputs", "--memory-html", "--emit-trace", "--dump-phases-to"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FOR_ALL = {"os.putenv": "the environment", "os.unsetenv": "the environment", "os.chdir": "the working directory"}
CHANGES = {"os.mkdir": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.remove": 1, "os.rmdir": 1, "os.truncate": 1}  # and how many paths are changed


class Ledger:
    """Who uses what in `folder`, of the cases of one batch; by the name that stands first below it. Python tells what a thread opens, changes and
    starts (sys.addaudithook), so that it matters neither who is first nor whether they meet: what may meet is refused with `error`."""

    hooked = []

    def __init__(self, folder, error):
        self.folder, self.error, self.lock, self.thread = os.path.join(str(folder), ""), error, threading.Lock(), threading.local()
        self.inside = re.compile(re.escape(self.folder) + r"([^/\s,:;'\"]+)")
        self.begin(False)

    def begin(self, watched):
        """A batch, of cases that may run beside each other if they are to be `watched`."""
        self.watched, self.writers, self.readers = watched, {}, collections.defaultdict(set)
        if watched and self not in self.hooked:
            if not self.hooked:
                sys.addaudithook(heard)
            self.hooked.append(self)

    @contextlib.contextmanager
    def case(self, name):
        """This thread's. None: what is made for several, who may read it and not write it."""
        before = getattr(self.thread, "name", False)
        self.thread.name = name
        try:
            yield
        finally:
            self.thread.name = before

    def tell(self, event, arguments):
        name = getattr(self.thread, "name", False)
        if not self.watched or name is False:
            return
        if event == "open":
            path, mode, flags = arguments
            self.names(path, set(mode or "") & set("wax+") or (flags or 0) & WRITES, name)
        elif event == "subprocess.Popen":
            words = arguments[1] if isinstance(arguments[1], (list, tuple)) else [arguments[1]]
            for before, word in zip(["", *words], words):
                # What is not there yet is to be made.
                self.names(word, os.fsdecode(before) in OUTPUTS or not os.path.exists(word), name)
        elif count := CHANGES.get(event):
            for path in arguments[:count]:
                self.names(path, True, name)
        elif name and (what := FOR_ALL.get(event)):
            raise self.error(f"{what} is that of all cases, which run beside each other: give the process its own")

    def names(self, word, writes, name):
        if isinstance(word, int):
            return
        word = os.fsdecode(word)
        found = [word[len(self.folder):].split("/")[0]] if word.startswith(self.folder) else self.inside.findall(word)
        for key in filter(None, found):
            self.use(key, writes, name)

    def use(self, key, writes, name):
        with self.lock:
            nobody = object()
            writer, readers = self.writers.get(key, nobody), self.readers[key] - {name}
            if writes and writer in (nobody, name) and not readers:
                self.writers[key] = name
            elif not writes and writer in (nobody, name, None):
                if name:
                    self.readers[key].add(name)
            else:
                other = next(iter(readers)) if writer in (nobody, name) else writer or "several cases"
                raise self.error(f'"{key}" is written by one and used by the other of "{name}" and "{other}", which may run beside each other: each needs a '
                                 "name of its own, or both what Suite.once makes")


def heard(event, arguments):
    if event in FOR_ALL or event in CHANGES or event in ("open", "subprocess.Popen"):
        for ledger in Ledger.hooked:
            ledger.tell(event, arguments)
