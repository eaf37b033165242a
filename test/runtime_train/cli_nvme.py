#!/usr/bin/env python3
"""zero-run on a plan over device, host and NVMe: faults of the disk (docs/safety.md F18-F25, F50), and what remains of them.
Usage: cli_nvme.py ZERO_RUN WRITE_PLAN"""
import json, os, pathlib, re, resource, signal, subprocess, tempfile, time, unittest

from zero_run import BY_ITSELF, PATIENCE, WRITE_PLAN, ZERO_RUN, main

KIB = 1024


class Nvme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.base = pathlib.Path(cls.temp.name)
        subprocess.run([WRITE_PLAN, str(cls.base), "2", "2", "2"], check=True)
        cls.runs = 0
        code, out, err = cls.train()
        assert code == 0, err
        cls.expected = cls.outcome(out)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    @classmethod
    def command(cls, *more, nvme=None, steps=4, out=None):
        cls.runs += 1
        return [ZERO_RUN, str(cls.base / "tiny.plan"), "--data", str(cls.base / "data.safetensors"), "--steps", str(steps),
                "--out", str(out or cls.base / f"out{cls.runs}"), "--nvme-dir", str(nvme or cls.base), *map(str, more)]

    @classmethod
    def train(cls, *more, fault="", nvme=None, out=None, env=None, **how):
        done = subprocess.run(cls.command(*more, nvme=nvme, out=out), text=True, capture_output=True, timeout=600,
                              env={**os.environ, "ZERO_FAULT": fault, **(env or {})}, **how)
        return done.returncode, done.stdout, done.stderr

    @staticmethod
    def outcome(out):
        """The last loss, and the weights' bytes."""
        final = json.loads(out.splitlines()[-1])
        return final["loss"], (pathlib.Path(final["final"]) / "weights.safetensors").read_bytes()

    def same(self, result):
        code, out, err = result
        self.assertEqual(code, 0, err)
        self.assertEqual(self.outcome(out), self.expected)
        return err

    def fails(self, code, says, result):
        self.assertEqual(result[0], code, result)
        self.assertRegex(result[2], says)

    def test_counts_bytes_and_arenas(self):
        code, out, err = self.train()
        self.assertEqual(code, 0, err)
        final = json.loads(out)
        # Per step and rank: 2 x 64 weights of 4 bytes to the device, as many gradients back; weights twice and two
        # moments read, all three written.
        traffic = final["traffic"]
        self.assertEqual([traffic[link] for link in ("h2d", "d2h", "nvme_read", "nvme_write")],
                         [4 * 2 * 256, 4 * 2 * 256, 4 * 4 * 256, 4 * 3 * 256])
        self.assertEqual(final["peak_bytes"]["nvme"], {"planned": 3 * 4096, "measured": 3 * 4096})
        self.assertEqual(final["steady_allocations"], 0)
        self.assertEqual(final["planned_memory"],
                         2 * (final["peak_bytes"]["device"]["planned"] + final["peak_bytes"]["host"]["planned"]))
        if "ASAN_OPTIONS" not in os.environ:  # whose shadow is memory too
            self.assertLessEqual(final["resident_memory"], final["planned_memory"] + 100e6)
        self.assertNotIn("bytes of memory", err)

    def test_sync_and_no_checksums_give_the_same(self):
        self.same(self.train("--device", "sync"))
        self.same(self.train("--no-spill-checksum"))

    def test_folder(self):
        out = self.base / "never"
        code, _, err = self.train(out=out, nvme=self.base / "absent")
        self.fails(6, "absent", (code, "", err))
        self.assertFalse(out.exists(), "refused before anything is made")
        self.fails(6, "not a directory", self.train(nvme=self.base / "tiny.plan"))
        done = subprocess.run([ZERO_RUN, str(self.base / "tiny.plan"), "--data", str(self.base / "data.safetensors")],
                              text=True, capture_output=True)
        self.fails(2, "--nvme-dir", (done.returncode, "", done.stderr))
        open_to_all = self.base / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        self.fails(6, "not sticky", self.train(nvme=open_to_all))
        self.fails(6, "permission denied", self.train(fault="spill.open:EACCES"))

    def test_tmpfs_is_a_warning(self):
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no tmpfs")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            self.assertIn("tmpfs", self.same(self.train(nvme=folder)))

    def test_f18_no_space_at_the_start(self):
        self.fails(6, r"needs 12288 bytes in .*no space left(.|\n)*\d+ bytes are free",
                   self.train(fault="spill.fallocate:ENOSPC"))

    def test_a_signal_while_space_is_taken(self):
        self.same(self.train(fault="spill.fallocate@n=1:EINTR"))

    def test_f18_file_size_limit(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8 * KIB, 8 * KIB))
        self.fails(6, "needs 12288 bytes in .*file too large", self.train(preexec_fn=limit))

    def test_f19_no_space_in_the_middle(self):
        for errnum in ("ENOSPC", "EDQUOT"):
            self.fails(6, r"nvme tier: cannot write \d+ bytes at byte \d+ of its file in \"" + str(self.base),
                       self.train(fault=f"spill.write@rank=1,step=3:{errnum}"))

    def test_f20_a_failed_read_is_tried_once_more(self):
        self.same(self.train(fault="spill.read@rank=0,step=2,n=1:EIO"))
        self.fails(6, "cannot read", self.train(fault="spill.read@rank=0,step=2:EIO"))
        self.fails(6, "cannot write", self.train(fault="spill.write@rank=0,step=2,n=1:EIO"))

    def test_f21_short_transfers_are_resumed(self):
        for site in ("spill.read", "spill.write"):
            for n in (1, 2, 5):
                self.same(self.train(fault=f"{site}@step=2,n={n}:short"))

    def test_f22_a_flipped_bit_is_found(self):
        result = self.train(fault="spill.read@rank=1,step=3,n=3:flip")
        self.fails(9, "is not what was written there", result)
        code, out, _ = self.train("--no-spill-checksum", fault="spill.read@rank=1,step=3,n=3:flip")
        self.assertEqual(code, 0)
        self.assertNotEqual(self.outcome(out), self.expected, "nobody looked")

    def test_f23_the_file_is_cut(self):
        """Through /proc, as nobody has its name."""
        process = subprocess.Popen(self.command("--quiet", steps=1000000), stderr=subprocess.PIPE,
                                   env={**os.environ, "ZERO_LINK": "nvme_read=100KB/s"}, text=True)
        self.addCleanup(process.kill)
        fds = pathlib.Path(f"/proc/{process.pid}/fd")

        def target(fd):
            try:
                return os.readlink(fd)
            except FileNotFoundError:  # closed since the folder was listed
                return ""

        mine, deadline = [], time.time() + 300
        while len(mine) < 2 and process.poll() is None and time.time() < deadline:
            time.sleep(0.02)
            mine = [fd for fd in fds.iterdir() if str(self.base) in target(fd) and "(deleted)" in target(fd)]
        self.assertEqual(len(mine), 2)
        for fd in mine:
            self.assertEqual(os.stat(fd).st_mode & 0o777, 0o600)
        # Between the last read and the first write of a step nothing would be lost: all is written again. So more than once.
        deadline = time.time() + 300
        while process.poll() is None and time.time() < deadline:
            try:
                os.truncate(mine[0], 4096)
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                pass
            time.sleep(0.07)
        _, err = process.communicate(timeout=600)
        # Unless the job's own next write made the file longer again: then its blocks are zeros and not what was written.
        self.assertIn(process.returncode, (6, 9), err)
        self.assertRegex(err, "the file ends inside a block|is not what was written there")

    def test_f24_io_uring_refused(self):
        for errnum in ("EPERM", "ENOSYS"):
            err = self.same(self.train(fault=f"spill.uring:{errnum}"))
            self.assertEqual(err.count("io_uring is refused"), 1)

    def test_f25_interruptions(self):
        for errnum in ("EINTR", "EAGAIN"):
            for n in range(1, 6):
                self.same(self.train(fault=f"spill.read@n={n}:{errnum}; spill.write@n={n + 1}:{errnum}"))
        self.fails(6, "again and again", self.train(fault="spill.write:EAGAIN"))

    def test_a_disk_that_never_answers(self):
        for fault, says in (("spill.engine@rank=1,step=2", 'rank 1 has been waiting for the disk of the nvme tier in ".*" for .*, in step 2'),
                            ("spill.fallocate", "has been taking space for the nvme tier in")):
            for seconds in PATIENCE:
                began, result = time.time(), self.train("--watchdog", seconds, fault=fault + ":delay=600s")
                if re.search(says, result[2]):
                    break
            self.fails(11, says, result)
            self.assertLess(time.time() - began, BY_ITSELF)

    def test_f50_memory_cannot_be_pinned(self):
        err = self.same(self.train(fault="spill.pin:ENOMEM"))
        self.assertEqual(err.count("cannot be pinned"), 1)

    def test_f17_f26_f28_a_checkpoint_that_fails_is_none(self):
        """The disk fills, or fsync fails, or the server forgets the file, in the second checkpoint: the first stays."""
        # Ranks write their own files and rank 0 the weights; at step 4 something fails.
        for site, errnum in (("file.write", "ENOSPC"), ("file.write", "EDQUOT"), ("file.fsync", "EIO"), ("file.write", "ESTALE"),
                             ("file.fsync", "ESTALE")):
            out = self.base / f"saved-{site}-{errnum}"
            result = self.train("--save-every", 2, out=out, fault=f"{site}@rank=0,step=4:{errnum}")
            self.fails(6, "cannot (write|bring to disk)", result)
            self.assertEqual(sorted(p.name for p in out.iterdir() if p.name.startswith("step-") and p.suffix != ".tmp"), ["step-2"])
            self.assertTrue((out / "step-2" / "manifest.json").exists())
            self.same(self.train("--resume", "auto", out=out))

    def test_f17_the_run_goes_on_where_it_may(self):
        for site in ("file.write", "file.fsync", "ckpt.write", "ckpt.manifest", "ckpt.rename"):
            for rank in (0, 1) if site in ("file.write", "ckpt.write") else (0,):
                out = self.base / f"outlived-{site}-{rank}"
                result = self.train("--save-every", 1, "--ckpt-on-error", "warn", out=out, fault=f"{site}@rank={rank},step=2:ENOSPC")
                err = self.same(result)
                self.assertRegex(err, r"step-2 is not saved: cannot ")
                self.assertEqual(sorted(p.name for p in out.iterdir() if p.name.startswith("step-")), ["step-1", "step-3", "step-4"])
        # The weights of the end are what the run is for.
        result = self.train("--ckpt-on-error", "warn", fault="file.write@rank=0,step=4:ENOSPC")
        self.fails(6, "cannot write", result)

    def test_f27_an_output_folder_that_cannot_be_written(self):
        blocked = self.base / "blocked"
        blocked.write_text("a file")
        code, _, err = self.train(out=blocked / "out")
        self.assertEqual(code, 6, err)
        self.assertNotIn("step 1/", err)

    def test_nothing_remains_after_a_kill(self):
        folder = self.base / "spill"
        folder.mkdir()
        process = subprocess.Popen(self.command("--quiet", steps=1000000, nvme=folder))
        self.addCleanup(process.kill)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(list(folder.iterdir()), [])

    def test_bench_io_writes_a_machine_file(self):
        machine = self.base / "machine.json"
        done = subprocess.run([ZERO_RUN, "bench-io", str(self.base), "--size", "8MB", "-o", str(machine)], text=True, capture_output=True,
                              timeout=600)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        figures = json.loads(machine.read_text())
        self.assertEqual(set(figures), {"flops_per_second", "half_flops_per_second", "memory_bandwidth", "comm_bandwidth", "h2d_bandwidth",
                                        "d2h_bandwidth", "nvme_read_bandwidth", "nvme_write_bandwidth", "step_overhead"})
        for name, value in figures.items():
            low, high = (1e-9, 10) if name == "step_overhead" else (1e3, 1e15)
            self.assertTrue(low < value < high, (name, value))
        done = subprocess.run([ZERO_RUN, "bench-io", str(self.base), "--size", "8XB"], text=True, capture_output=True)
        self.fails(2, "--size", (done.returncode, done.stdout, done.stderr))
        done = subprocess.run([ZERO_RUN, "bench-io", str(self.base / "absent")], text=True, capture_output=True)
        self.fails(6, "absent", (done.returncode, done.stdout, done.stderr))

    def test_links_are_slowed_down(self):
        # 4 steps x 2 micro-steps x 256 bytes.
        code, out, err = self.train(env={"ZERO_LINK": "h2d=4KB/s"})
        self.assertEqual(code, 0, err)
        self.assertGreater(json.loads(out)["seconds"], 0.9 * 4 * 2 * 256 / 4000)
        self.assertEqual(self.outcome(out), self.expected)
        self.fails(2, "ZERO_LINK", self.train(env={"ZERO_LINK": "h2d=4KB"}))
        self.fails(2, "ZERO_LINK", self.train(env={"ZERO_LINK": "tape=4KB/s"}))


if __name__ == "__main__":
    main()
