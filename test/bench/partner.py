"""A peer that stays loaded between its measurements, so that it alternates with others without starting anew."""
import json
import os
import select
import subprocess
import tempfile
import time


class Partner:
    """A program that answers each line with one JSON object."""

    def __init__(self, folder, *command, env=None):
        self.errors = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=dict(os.environ, **(env or {})), cwd=folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.errors.close()

    def ask(self, line, timeout=None):
        """Raises with the end of what it said on stderr when it ends instead; after `timeout` seconds it is ended."""
        time.sleep(0.02)  # threads of the others' teams spin for a while
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says so
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.process.kill()
            raise RuntimeError(f"{line}: no answer in {timeout} s")
        answer = self.process.stdout.readline()
        if not answer:
            self.errors.seek(0)
            raise RuntimeError(f"{line}: {self.errors.read().strip()[-600:]}")
        return json.loads(answer)

    def seconds(self, name):
        return self.ask(name)["seconds"]

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
