"""`amanda doctor`: checks the installation."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table

__all__ = ["SystemCheck", "run_checks", "command"]

OF_TESTS = ("AMANDA_TEST_", "AMANDA_FUZZ_")  # settings of Amanda's own tests
MODEST_MEMORY = 1 << 30  # below this, real models may not load


@dataclass(frozen=True)
class SystemCheck:
    """The result of a check, and what to do if it failed."""

    name: str
    found: str
    to_do: str = ""

    @property
    def well(self) -> bool:
        return not self.to_do


@verb("doctor", "check this installation")
def command() -> Answer:
    """Check this installation, and suggest repairs.

    Nothing is changed, and no plug-in runs. Exit code 1 means that a check failed.

    Examples:
        amanda doctor
    """
    made = list(run_checks())
    ill = [check for check in made if not check.well]
    rows = [(check.name, "ok" if check.well else "!", check.found) for check in made]
    text: list[str | Table] = [Table(("what", "", "found"), rows), ""]
    text += [f"to do, {check.name}: {check.to_do}" for check in ill]
    text += [] if ill else ["all is well"]
    data = {"checks": [{**asdict(check), "well": check.well} for check in made]}
    return Answer(data, text, exit_code=int(bool(ill)))


def run_checks() -> Iterator[SystemCheck]:
    """Run all checks, in order of dependency."""
    yield _check_python()
    yield from _check_packages()
    yield from _check_plugins()
    yield from _check_settings()
    yield _check_temporary_folder()
    yield _check_memory()


def _check_python() -> SystemCheck:
    found = f"{platform.python_version()}, {platform.platform()}, {sys.executable}"
    return SystemCheck("python", found)  # older versions cannot read this file


def _check_packages() -> Iterator[SystemCheck]:
    """The core and its requirements."""
    from importlib import metadata

    from packaging.requirements import Requirement

    from amanda import __version__

    yield SystemCheck("amanda-core", f"{__version__}, {Path(__file__).parent.parent}")
    try:
        lines = metadata.requires("amanda-core") or []
    except metadata.PackageNotFoundError:
        to_do = "install it: pip install amanda-core"
        yield SystemCheck("amanda-core", "used from its sources, not installed", to_do)
        return
    for requirement in sorted(map(Requirement, lines), key=lambda each: each.name):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        repair = f"pip install '{requirement}'"
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield SystemCheck(requirement.name, "not installed", repair)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        yield SystemCheck(requirement.name, version, "" if fits else repair)


def _check_plugins() -> Iterator[SystemCheck]:
    from amanda.cli.verbs.plugins import is_usable
    from amanda.host import default_host

    host = default_host()
    for plugin in host.plugins():
        found = f"{plugin.version}, {plugin.state}"
        if is_usable(plugin):
            yield SystemCheck(f"plug-in {plugin.dist}", found)
            continue
        repair = f"pip install --upgrade {plugin.dist} amanda-core, or uninstall it"
        if plugin.state == "clash":
            choices = (entry.choice for entry in plugin.clashing)
            repair = f"uninstall one, or choose by the full name: {', '.join(choices)}"
        yield SystemCheck(f"plug-in {plugin.dist}", f"{found}: {plugin.why}", repair)
    for notice in host.notices():
        yield SystemCheck("plug-ins", notice, "correct the setting")


def _check_settings() -> Iterator[SystemCheck]:
    """The environment variables of Amanda; unknown ones are faults.

    Known are those in the manifests of all distributions."""
    from difflib import get_close_matches

    from amanda.host import default_host

    known = [name for plugin in default_host().plugins() for name in plugin.settings]
    for name in sorted(filter(lambda name: name.startswith("AMANDA_"), os.environ)):
        found = repr(os.environ[name])
        if name in known or name.startswith(OF_TESTS):
            yield SystemCheck(name, found)
            continue
        near = get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        yield SystemCheck(name, found, f"nothing reads this variable{meant}")


def _check_temporary_folder() -> SystemCheck:
    """The temporary folder, and its free space."""
    import shutil
    import tempfile

    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"amanda")
            folder = Path(file.name).parent
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return SystemCheck(
            "temporary files", str(error), "set TMPDIR to a writable folder"
        )
    return SystemCheck("temporary files", f"{folder}, {free / 1e9:.1f} GB free")


def _check_memory() -> SystemCheck:
    free = _free_memory()
    if free is None:
        return SystemCheck("memory", "unknown on this system")
    found = f"{free / 1e9:.1f} GB free"
    enough = free >= MODEST_MEMORY
    return SystemCheck(
        "memory", found, "" if enough else "end other programs, or add memory"
    )


def _free_memory() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"MemAvailable: +(\d+) kB", text)
    return int(found[1]) * 1024 if found else None
