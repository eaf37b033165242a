"""Passes where it is begun as from a terminal, whoever began who began it; what is said behind the count is no count."""
import signal
import sys

hears = signal.getsignal(signal.SIGINT) != signal.SIG_IGN and signal.getsignal(signal.SIGUSR1) != signal.SIG_IGN
print(f"{int(hears)} passed, {int(not hears)} failed")
print(f"noise, and of stdin {sys.stdin.read()!r}")
