"""Runs a command when the machine is otherwise idle, and says how much CPU others took meanwhile (in cores)."""

import os, subprocess, time

HZ = os.sysconf("SC_CLK_TCK")


def busy():  # user nice system irq softirq steal, seconds over all CPUs
    v = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / HZ


def wait(limit=900):
    t0 = time.time()
    while time.time() - t0 < limit:
        b, t = busy(), time.time()
        time.sleep(0.5)
        if (busy() - b) / (time.time() - t) < 0.15:
            return True
    return False


def run(cmd, env=None, timeout=600, retries=2, cwd=None):
    """-> (stdout lines that are JSON, return code, stderr tail, foreign cores)"""
    for k in range(retries + 1):
        wait()
        b, t, o = busy(), time.time(), os.times()
        try:
            p = subprocess.run(cmd, env=env, capture_output=True, text=True, timeout=timeout, cwd=cwd)
            rc, so, se = p.returncode, p.stdout, p.stderr
        except subprocess.TimeoutExpired as e:
            rc, so, se = 124, (e.stdout or b"").decode(), "timeout"
        n = os.times()
        own = n.children_user + n.children_system - o.children_user - o.children_system
        foreign = max(0.0, (busy() - b - own) / (time.time() - t))
        if foreign < 0.12 or rc:
            break
    return [x for x in so.splitlines() if x.startswith("{")], rc, se[-1500:] + so[-500:], round(foreign, 3)
