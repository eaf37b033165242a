"""What the tests of zero-run's command line have in common: a folder with a tiny plan and its data. Usage of each of them:
cli.py ZERO_RUN WRITE_PLAN"""
import json, os, pathlib, re, subprocess, sys, tempfile, time, unittest

ZERO_RUN, WRITE_PLAN = (os.path.abspath(tool) for tool in sys.argv[1:3])
# Seconds within which a process has ended that did not wait for what takes it 600: no measure of how fast it ended.
BY_ITSELF = 300
# Of a watchdog: where other work holds a step for longer than the first, that is found instead of what is looked for.
PATIENCE = (1, 15)


def run(*args, cwd=None, env=None, **more):
    """Exit code, stdout, stderr; whatever happens no signal and no time-out."""
    done = subprocess.run([ZERO_RUN, *map(str, args)], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                          capture_output=True, timeout=600, **more)
    return done.returncode, done.stdout, done.stderr


class ZeroRunTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # processes are ended after it
        self.dir = pathlib.Path(self.temp.name)
        self.write_plan()

    def tearDown(self):
        self.temp.cleanup()

    def write_plan(self, world=2, accumulation=1, placement=1):
        subprocess.run([WRITE_PLAN, str(self.dir), str(world), str(accumulation), str(placement)], check=True)

    def train(self, *more, steps=4, out="out", **how):
        return run(self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", steps, "--out",
                   self.dir / out, *more, **how)

    def start(self, *more, steps=100000000, out="out", fault=""):
        """Runs on beside the test."""
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", str(steps), "--out",
                                    self.dir / out, "--quiet", *map(str, more)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "ZERO_FAULT": fault})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition):
        deadline = time.time() + 300
        while not condition():
            self.assertLess(time.time(), deadline, "it never came so far")
            time.sleep(0.02)

    def watched(self, says, *more, fault, env={}, **how):
        """Something is stuck for 600 s: the watchdog ends the job, and tells."""
        for seconds in PATIENCE:
            began, result = time.time(), self.train("--quiet", "--watchdog", seconds, *more, env={"ZERO_FAULT": fault, **env}, **{"out": "out", **how})
            if re.search(says, result[2]):
                break
        self.expect(11, f"nothing has moved for {seconds} s: ({says})", result)
        self.assertLess(time.time() - began, BY_ITSELF)

    def is_slow_and_not_stuck(self, fault, *more, env={}, **how):
        """Rank 1 takes long to write, each piece by itself for less than the watchdog allows: the run ends as any other. Stderr."""
        for seconds in PATIENCE:
            code, _, err = self.train("--quiet", "--watchdog", seconds, *more, "--overwrite", env={
                "ZERO_FAULT": f"file.write@rank=1:delay={600 * seconds}ms{fault}", **env}, **how)
            if code == 0:
                break
        self.assertEqual(code, 0, err)
        return err

    def has_steps(self, count, out="out"):
        metrics = self.dir / out / "metrics.jsonl"
        return lambda: metrics.exists() and metrics.read_text().count("\n") >= count

    def expect(self, code, says, result):
        self.assertEqual(result[0], code, result)
        self.assertRegex(result[2], says)
        self.assertRegex(result[2], r"error\[Z\d{4}\]: ")
        self.assertEqual(result[1], "")

    def succeeds(self, result):
        self.assertEqual(result[0], 0, result[2])

    def lines(self, out="out"):
        return [json.loads(line) for line in (self.dir / out / "metrics.jsonl").read_text().splitlines()]


def main():
    """Runs the tests of the script; the last line is what run_tests.py counts."""
    done = unittest.main(argv=[sys.argv[0]], exit=False).result
    failed, skipped = len(done.failures) + len(done.errors), len(done.skipped)
    sys.stderr.flush()
    for test, why in done.skipped:
        print(f"skip {test.id().rpartition('.')[2]}: {why}")
    print(f"{done.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(failed > 0)
