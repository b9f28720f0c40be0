#!/usr/bin/env python3
"""put_back.py [NAME...] - puts known defects back, one by one, and looks whether their test fails.

Each file of tests/hostile/defects is one defect: its first line says what it is, the second the test
that must fail and what of its output shows that it failed for this reason (a case of test_hostile, a
test of a cmocka program, a sentence of a shell test); then come the places, as the text that stands in
the tree and the text that stood there:

    item 1: a refusal is cut in the middle of a character
    test test_names: texts_are_cut_between_characters
    <<<<
    the text now, wherever in the tree it is
    ====
    the text of before
    >>>>

White space does not matter, and no folder is named, so that code and tests may be moved.  A text that is
found nowhere or twice does not apply, and that is an outcome of its own: the file follows the code.

All happens in a work tree of HEAD of its own (the environment's PUT_BACK, else a temporary one).
"""
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
CODE = ("*.c", "*.h", "*.cpp", "*.hpp", "*.sql")
LIMIT_S = 300


class DoesNotApply(Exception):
    pass


class Defect:
    def __init__(self, path):
        self.name, lines = path.stem, path.read_text().split("\n")
        self.what = lines[0]
        self.test, _, self.shows = lines[1].removeprefix("test ").partition(": ")
        blocks = "\n".join(lines[2:])
        self.places = re.findall(r"^<<<<\n(.*?)^====\n(.*?)^>>>>$", blocks, re.M | re.S)
        if not self.places or not self.shows:
            sys.exit(f"{path}: not a defect; see the head of put_back.py")

    def program(self, scratch):
        """What runs it, from the top of the tree, and what make has to build."""
        found = [p for p in scratch.glob(f"tests/*/{self.test}.*") if p.suffix in (".sh", ".c")]
        if len(found) > 1:
            found = [p for p in found if self.shows in p.read_text()]
        if len(found) != 1:
            raise DoesNotApply(f"{len(found)} tests are {self.test}")
        built = f"build/tests/{found[0].parent.name}/{self.test}"
        return (str(found[0].relative_to(scratch)), []) if found[0].suffix == ".sh" else (built, [built])

    def put_back(self, scratch, files):
        for today, before in self.places:
            words = re.compile(r"\s+".join(map(re.escape, today.split())))
            found = [(path, m) for path, text in files.items() for m in words.finditer(text)]
            if len(found) != 1:
                raise DoesNotApply(f"found {len(found)} times: {' '.join(today.split())[:60]}")
            path, match = found[0]
            files[path] = files[path][: match.start()] + before.strip() + files[path][match.end() :]
            (scratch / path).write_text(files[path])


def run(scratch, words, **more):
    return subprocess.run(words, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, **more)


def sources(scratch):
    listed = run(scratch, ["git", "ls-files", *CODE]).stdout.split("\n")
    return {name: (scratch / name).read_text() for name in listed if name and not name.startswith("tests/")}


def build(scratch, targets):
    programs = ["build/kiln", "build/kiln-scheduler", "build/kiln-worker"]
    made = run(scratch, ["make", f"-j{os.cpu_count()}", "BUILD=build", *programs, *targets])
    return None if made.returncode == 0 else made.stdout


def outcome(scratch, defect):
    try:
        program, targets = defect.program(scratch)
        defect.put_back(scratch, sources(scratch))
    except DoesNotApply as why:
        return f"does not apply: {why}"
    trouble = build(scratch, targets)
    if trouble:  # a test may be one of the compiler's
        return "fails" if f'"{defect.shows}"' in trouble else "does not build:\n" + trouble[-2000:]
    return outcome_of_test(scratch, program, defect)


def mark_of(defect, program):
    """The output by which the test failed for this reason."""
    if program.endswith(".sh"):
        return re.escape(defect.shows)
    if defect.test == "test_hostile":
        return rf"{re.escape(defect.shows)} +BROKEN"
    return rf"\[  FAILED  \] {re.escape(defect.shows)}\b"


def outcome_of_test(scratch, program, defect):
    """Runs it, and a C program no longer than until it has failed."""
    mark, script = re.compile(mark_of(defect, program)), program.endswith(".sh")
    environment = dict(os.environ, BUILD="build", KILN_SOURCE=str(scratch))
    environment.pop("MAKEFLAGS", None)
    if defect.test == "test_hostile":
        environment["HOSTILE_CASE"] = defect.shows
    with tempfile.TemporaryDirectory(prefix="kiln-put-back.", ignore_cleanup_errors=True) as folder:
        environment["TMPDIR"] = folder
        said, seen = "", False
        with subprocess.Popen(["timeout", "-k", "10", str(LIMIT_S), scratch / program], cwd=folder,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as test:
            for line in test.stdout:
                said += line
                seen = seen or mark.search(line) is not None
                if seen and not script:
                    test.terminate()
                    break
        if seen and (test.returncode != 0 or not script):
            return "fails"
        return "NOT NOTICED" if test.returncode == 0 else "fails otherwise:\n" + said[-2000:]


def main():
    wanted = sys.argv[1:] or ["*"]
    defects = [Defect(path) for path in sorted((HERE / "defects").glob("*.txt"))]
    defects = [d for d in defects if any(fnmatch.fnmatch(d.name, f"{w}*") for w in wanted)]
    kept = os.environ.get("PUT_BACK")
    scratch = pathlib.Path(kept or tempfile.mkdtemp(prefix="kiln-put-back."))
    if not (scratch / ".git").exists():
        subprocess.run(["git", "worktree", "add", "-q", "--force", "--detach", scratch], cwd=TREE, check=True)
    run(scratch, ["git", "checkout", "-qf", "--detach", run(TREE, ["git", "rev-parse", "HEAD"]).stdout.strip()])
    if (TREE / "config.mak").exists():
        shutil.copy(TREE / "config.mak", scratch)
    not_noticed = 0
    try:
        for defect in defects:
            began = time.monotonic()
            result = outcome(scratch, defect)
            run(scratch, ["git", "checkout", "-q", "--", "."])
            not_noticed += result != "fails"
            first, _, rest = result.partition("\n")
            print(f"{defect.name:44} {defect.test}, {defect.shows}: {first}  {time.monotonic() - began:.0f} s",
                  flush=True)
            print(rest, end="" if not rest or rest.endswith("\n") else "\n", flush=True)
    finally:
        if not kept:
            subprocess.run(["git", "worktree", "remove", "--force", scratch], cwd=TREE, check=False)
    print(f"{len(defects) - not_noticed} of {len(defects)} defects are noticed")
    return 1 if not_noticed else 0


if __name__ == "__main__":
    sys.exit(main())
