"""Put ES modules into one script: a browser loads no module from a file on disk.

Every module becomes a function that returns its exports, in an order in which what is imported
comes first, so that the code stays as it was written and can be read in the page:

    const js_tinylm = (() => { const { pick } = js_random; ...; return { encode, forward }; })();

Only what is needed for that is understood: imports of names from files of the same folder tree,
`export` before a function, a class or a const. Anything else is refused.
"""

import re
from pathlib import Path
from typing import NamedTuple

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.[^"]*)";[^\S\n]*\n', re.M)
EXPORT = re.compile(r"^export\s+((?:async\s+)?function\*?|class|const)\s+(\w+)", re.M)
LIST = re.compile(r"^export\s*\{([^}]*)\};[^\S\n]*\n?", re.M)
NAME = re.compile(r"(\w+)(?:\s+as\s+(\w+))?")


class Module(NamedTuple):
    """A file: the code without imports and exports, the files it imports from, what it exports."""

    body: str
    imports: list  # (path, "name: other, name")
    exports: str


def renamed(names):
    """Return "a as b, c" as "a: b, c", the form of a destructured object."""
    pairs = NAME.findall(names)
    return ", ".join(f"{name}: {other}" if other else name for name, other in pairs)


def read(path):
    """Return the Module in a file.

    Raises:
        ValueError: it has an import or an export in another form; names file and line.
    """
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    imports = [((path.parent / place).resolve(), renamed(names))
               for names, place in IMPORT.findall(text)]
    exported = [name for _, name in EXPORT.findall(text)]
    listed = [renamed(" ".join(f"{other or name} as {name}" if other else name
                               for name, other in NAME.findall(names)))
              for names in LIST.findall(text)]
    body = LIST.sub("", EXPORT.sub(r"\1 \2", IMPORT.sub("", text)))
    if odd := re.search(r"^(?:import|export)\b.*|\bimport\s*\(.*", body, re.M):
        raise ValueError(f"{path}: this form cannot be bundled: {odd[0][:80]}")
    return Module(body, imports, ", ".join(exported + listed))


def in_order(entry):
    """Return dict from path to Module, an imported one before those that import it.

    Raises:
        ValueError: two modules import each other, or a file is missing.
    """
    done, waiting = {}, []

    def visit(path, asked_by):
        if path in done:
            return
        if path in waiting:
            raise ValueError(f"{path} and {asked_by} import each other")
        if not path.is_file():
            raise ValueError(f"{asked_by} imports {path}, which is not there")
        waiting.append(path)
        module = read(path)
        for other, _ in module.imports:
            visit(other, path)
        done[path] = module
        waiting.pop()

    visit(Path(entry).resolve(), "the build")
    return done


def bundle(entry, folder):
    """Return one script with the module `entry` and all that it imports.

    Args:
        entry: the file that runs last.
        folder: modules are named by their place below it.
    """
    modules = in_order(entry)
    names = {path: re.sub(r"\W", "_", path.relative_to(Path(folder).resolve()).with_suffix("")
                          .as_posix()) for path in modules}
    parts = []
    for path, module in modules.items():
        known = {name for _, listed in module.imports for name in re.findall(r"\w+", listed)}
        if lacking := [n for n in re.findall(r"\w+", module.exports) if n in known]:
            raise ValueError(f"{path} exports {lacking[0]}, which it imports")
        taken = "".join(f"const {{ {listed} }} = {names[other]};\n"
                        for other, listed in module.imports)
        parts.append(f"const {names[path]} = (() => {{\n{taken}{module.body.strip()}\n\n"
                     f"return {{ {module.exports} }};\n}})();\n")
    console = ", ".join(names[path] for path in list(modules)[:-1])
    console = f"globalThis.explore = {{ {console} }}; // to try things in the browser's console\n"
    return '"use strict";\n\n' + "\n".join(parts[:-1]) + "\n" + console + "\n" + parts[-1]
