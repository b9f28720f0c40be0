#!/usr/bin/env python3
"""man.py BIN OUT RELEASE - writes the manual pages into OUT/man1, man5 and man8.

Everything in them is what the programs in BIN print as their help, so a page says what `kiln help`
says: kiln(1), a page for each verb, kiln.conf(5) with the settings, and the two daemons in section 8.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

DAEMONS = {
    "kiln-scheduler": "takes jobs into the ledger and assigns them to workers",
    "kiln-worker": "renders the jobs of a pool on one device",
}
PROGRAMS_BESIDE = {"render": "kiln-worker", "tokenize": "kiln-worker"}  # verbs with a help of their own


def ask(bin_dir, *words):
    """What a program prints, whatever settings this machine has."""
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "COLUMNS": "1000"}  # a line an option
    with tempfile.TemporaryDirectory() as empty:
        got = subprocess.run([os.path.join(bin_dir, words[0]), *words[1:]], env=env, cwd=empty,
                             capture_output=True, encoding="utf-8", timeout=60)
    if got.returncode or not got.stdout:
        sys.exit(f"man.py: {' '.join(words)}: exit {got.returncode}: {got.stderr}")
    return got.stdout


def roff(text):
    """Characters that troff would take for its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def as_is(lines):
    return [".nf", *[roff(line) for line in lines], ".fi"] if lines else []


def prose(lines):
    """Paragraphs are filled; lines that are laid out, such as tables and commands, stay as they are."""
    out, kept = [], []
    for line in lines:
        if line.startswith(" ") or re.search(r"[^.] {2,}", line):
            kept.append(line)
            continue
        out += as_is(kept)
        kept = []
        out.append(roff(line) if line else ".PP")
    return out + as_is(kept)


class Page:
    def __init__(self, name, section, summary, release, date):
        self.name, self.section = name, section
        self.out = [f'.TH {roff(name.upper())} {section} "{date}" "Kiln {release}" "Kiln"', ".SH NAME",
                    f"{roff(name)} \\- {roff(summary)}"]

    def add(self, heading, lines):
        if lines:
            self.out += [f".SH {heading}", *lines]

    def write(self, directory):
        path = os.path.join(directory, f"man{self.section}")
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, f"{self.name}.{self.section}"), "w", encoding="utf-8") as file:
            file.write("\n".join(self.out) + "\n")


def synopsis(text):
    return [".ad l", ".nh", roff(text).replace("|", "|\\:"), ".hy", ".ad b"]  # a line may end behind |


def listed(pairs):
    """A term and what it means, each."""
    out = []
    for term, meaning in pairs:
        out += [".TP", f".B {roff(term)}", roff(meaning)]
    return out


def blocks(text):
    """A help text by its headings: {"": lines before the first, "examples": ..., "options": ...}."""
    found, at = {"": []}, ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(usage|examples|options|also):(?: (.*))?", line)
        if heading:
            at = heading.group(1)
            found[at] = [heading.group(2)] if heading.group(2) else []
        else:
            found[at].append(line)
    return found


def indented(lines):
    """Without the two columns before each line, and without empty lines around them."""
    text = "\n".join(line[2:] if line.startswith("  ") else line for line in lines)
    return text.strip("\n").split("\n") if text.strip() else []


def verb_page(verb, summary, text, release, date):
    page = Page(f"kiln-{verb}", 1, summary, release, date)
    part = blocks(text)
    options, more = [], []
    for line in part.get("options", []):
        option = re.fullmatch(r"  (--[a-z0-9-]+(?: \S+)*?)\s{2,}(.*)", line) if not more else None
        if option:
            options.append(option.groups())
        else:
            more.append(line)
    if "options" not in part and "examples" in part:  # further help follows the examples
        lines = part["examples"]
        split = lines.index("") if "" in lines else len(lines)
        part["examples"], more = lines[:split], lines[split:]
    elif "examples" not in part and "options" not in part:
        more = part["usage"][1:]
    page.add("SYNOPSIS", synopsis(part["usage"][0]))
    page.add("DESCRIPTION", prose(indented(more)))
    page.add("OPTIONS", listed(options))
    page.add("EXAMPLES", as_is(indented(part.get("examples", []))))
    page.add('"SEE ALSO"', [".BR kiln (1),", ".BR kiln.conf (5)"])
    return page


def settings(text):
    """kiln.conf(5): name, meaning, default."""
    found = []
    for line in text.splitlines():
        row = re.fullmatch(r"  (\S+) +(.*)", line)
        if row and not row.group(1).endswith(":"):
            found.append([row.group(1), row.group(2)])
        elif line.strip().startswith("default: "):
            found[-1][1] += f"; {line.strip()}"
    return found


def main():
    bin_dir, out, release = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    overview = ask(bin_dir, "kiln", "help")
    verbs = re.findall(r"^  ([a-z]+) {2,}(\S.*)$", overview, flags=re.M)
    page = Page("kiln", 1, overview.splitlines()[0].split(" - ")[1], release, date)
    page.add("SYNOPSIS", synopsis("kiln VERB [options]"))
    page.add("DESCRIPTION", [".nf", *[roff(line) for line in indented(overview.splitlines()[1:3])], ".fi",
                             ".PP", *[roff(line) for line in overview.rstrip().split("\n\n")[-1].splitlines()]])
    page.add("VERBS", listed((f"kiln {verb}", f"{summary}; see kiln-{verb}(1)") for verb, summary in verbs))
    page.add("FILES", listed([("./.kiln/kiln.conf", "the settings of a private stack"),
                              ("/etc/kiln/kiln.conf", "those of this machine, see kiln.conf(5)")]))
    page.add('"SEE ALSO"', [".BR kiln.conf (5),", ".BR kiln\\-scheduler (8),", ".BR kiln\\-worker (8)"])
    page.write(out)
    for verb, summary in verbs:
        text = ask(bin_dir, "kiln", "help", verb)
        page = verb_page(verb, summary, text, release, date)
        if verb in PROGRAMS_BESIDE:
            page = Page(f"kiln-{verb}", 1, summary, release, date)
            page.add("SYNOPSIS", synopsis(f"kiln {verb} [options]"))
            page.add("DESCRIPTION", as_is(ask(bin_dir, PROGRAMS_BESIDE[verb], verb, "--help").splitlines()))
        page.write(out)
    text = ask(bin_dir, "kiln", "help", "config")
    page = Page("kiln.conf", 5, "the settings of Kiln", release, date)
    page.add("DESCRIPTION", [*[roff(line) for line in text.split("\n\n")[0].splitlines()], ".PP",
                             "Lines are", roff("key = value,"), "and # begins a comment."])
    page.add("SETTINGS", listed(settings(text.split("\n\n", 1)[1])))
    page.add('"SEE ALSO"', [".BR kiln (1)"])
    page.write(out)
    for name, summary in DAEMONS.items():
        page = Page(name, 8, summary, release, date)
        page.add("DESCRIPTION", as_is(ask(bin_dir, name, "--help").splitlines()))
        page.add('"SEE ALSO"', [".BR kiln (1),", ".BR kiln.conf (5)"])
        page.write(out)


main()
