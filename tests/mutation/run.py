"""Break the package in one place after the other, and see which tests notice; see docs/development.md.

python tests/mutation/run.py [file ...] [--wide] [--redo] [--table]
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from equivalents import EQUIVALENTS
from mutants import cuda_mutants, python_mutants
from plan import COMPILED, NEAREST, SKIPPED

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


class Results:
    """Outcomes on disk, a line of JSON each, so that a run that was interrupted goes on."""

    def __init__(self, path):
        self.path, self.found = path, {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.found[entry["name"]] = entry

    def add(self, name, answer):
        self.found[name] = {"name": name, **answer}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(self.found[name]) + "\n")


def mutants_of(path):
    """Return all mutants of a file of the package."""
    source = (ROOT / "sklearn_attn" / path).read_text()
    return (cuda_mutants if path.endswith(".cu") else python_mutants)(path, source)


def why_equivalent(mutant):
    """Return the reason why no test should notice a mutant, or None."""
    for path, where, change, reason in EQUIVALENTS:
        place, what = f"{mutant.function} | {mutant.line}", f"{mutant.change} | {mutant.number}"
        if re.fullmatch(path, mutant.path) and re.search(where, place) and re.search(change, what):
            return reason
    return None


class Worker:
    """A process that has collected some tests, and runs them for mutants."""

    def __init__(self, folder, tests, log, is_compiled):
        environment = dict(os.environ, SCIPY_ARRAY_API="1", MPLBACKEND="Agg", OPENBLAS_NUM_THREADS="1")
        if not is_compiled:
            environment |= {"NUMBA_DISABLE_JIT": "1", "NUMBA_CPU_FEATURES": ""}
        environment.pop("PYTHONPATH", None)
        names = " and ".join(f"not {name}" for name in SKIPPED)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), str(log), *tests, "-k", names],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the worker ended; see its log")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def copy_of_the_package(folder):
    """Copy what tests need, so that the checkout is left alone."""
    for name in ("sklearn_attn", "tests", "pyproject.toml"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    return folder


def run_file(path, folder, results, redo, budget):
    """Run the nearest tests for every mutant of a file that has no outcome yet."""
    todo = [m for m in mutants_of(path) if why_equivalent(m) is None]
    todo = [m for m in todo if redo(results.found.get(m.name))]
    if not todo:
        return
    worker = Worker(folder, NEAREST[path], folder / "log", path in COMPILED)
    baseline = worker.ask(timeout=600, budget=budget)
    print(path, len(todo), "to run; without a fault:", baseline, flush=True)
    if baseline["outcome"] != "survived":
        sys.exit((folder / "log").read_text()[-3000:])
    timeout = max(
        3.0 * budget, 60.0 if path in COMPILED else 15.0
    )  # the compiler's work is not in the budget
    target = folder / "sklearn_attn" / path
    original = target.read_text()
    for mutant in todo:
        if path.endswith(".cu"):
            target.write_text(mutant.source)
            answer = worker.ask(timeout=timeout + 10.0)
            target.write_text(original)
        else:
            module = "sklearn_attn." + path[:-3].replace("/", ".")
            answer = worker.ask(
                module=module, function=mutant.function, source=mutant.source, timeout=timeout
            )
        results.add(mutant.name, answer)
        if answer["outcome"] not in ("killed",):
            print(" ", answer["outcome"], "|", mutant.name, answer["by"], flush=True)
    worker.close()


def run_compiled(path, folder, results):
    """Run all nearest tests, compiled anew, for what survived as plain Python."""
    target = folder / "sklearn_attn" / path
    original = target.read_text()
    environment = dict(os.environ, PYTHONPATH=str(folder))
    for mutant in mutants_of(path):
        entry = results.found.get(mutant.name)
        if why_equivalent(mutant) is not None or not entry or entry["outcome"] != "survived":
            continue
        target.write_text(mutant.source)
        for cached in folder.rglob("*.nb?"):
            cached.unlink()
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *NEAREST[path]]
        start = time.monotonic()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        outcome = "survived" if done.returncode == 0 else "killed"
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        answer = {"by": " ".join(failed) + " (compiled)", "seconds": round(time.monotonic() - start, 2)}
        results.add(mutant.name, {"outcome": outcome, **answer})
        print(" ", outcome, "|", mutant.name, answer["by"], flush=True)
    target.write_text(original)


def table(results, paths):
    """Return a Markdown table of counts."""
    rows = [
        "| file | mutants | killed | timed out | equivalent | survived | not run |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in paths:
        counts = collections.Counter()
        for mutant in mutants_of(path):
            entry = results.found.get(mutant.name)
            outcome = "equivalent" if why_equivalent(mutant) else entry["outcome"] if entry else "not run"
            counts[outcome] += 1
        columns = [counts[x] for x in ("killed", "timeout", "equivalent", "survived", "not run")]
        if counts["broken"]:
            columns[-1] += counts["broken"]
        rows.append(f"| {path} | {counts.total()} | " + " | ".join(map(str, columns)) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(NEAREST))
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutation.jsonl")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests for a mutant, in all")
    parser.add_argument("--redo", action="store_true", help="run survivors once more")
    parser.add_argument(
        "--compiled", action="store_true", help="run survivors with the compiler; minutes each"
    )
    parser.add_argument("--table", action="store_true", help="print counts, and run nothing")
    parser.add_argument("--survivors", action="store_true", help="list what survived, and run nothing")
    options = parser.parse_args()
    results = Results(options.results)
    files = options.files or list(NEAREST)
    if options.survivors:
        for path in files:
            for mutant in mutants_of(path):
                entry = results.found.get(mutant.name)
                if entry and entry["outcome"] != "killed" and why_equivalent(mutant) is None:
                    print(entry["outcome"], "|", mutant.name)
        return

    def redo(entry):
        return entry is None or (options.redo and entry["outcome"] == "survived")

    if not options.table:
        with tempfile.TemporaryDirectory() as folder:
            copy_of_the_package(Path(folder))
            for path in files:
                if options.compiled:
                    run_compiled(path, Path(folder), results)
                else:
                    run_file(path, Path(folder), results, redo, options.budget)
    print(table(results, files))


if __name__ == "__main__":
    main()
