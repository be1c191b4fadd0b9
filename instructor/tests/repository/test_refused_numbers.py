"""Numbers of processes and submissions: what is no whole number above 0 is refused in one line."""

import importlib

import pytest

COMMANDS = {
    "grade": ["-j", "in", "--out", "out"],
    "check": ["-j"],
    "mutate": ["-j"],
    "bench.grade": ["--count"],
}


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "", "9" * 20])
@pytest.mark.parametrize("name", COMMANDS)
def test_refuses_what_is_no_count(name, value, capsys):
    flag, *others = COMMANDS[name]
    module = importlib.import_module(f"instructor.{name}")
    with pytest.raises(SystemExit) as stopped:
        module.main([*others, f"{flag}={value}"])
    last = capsys.readouterr().err.splitlines()[-1]
    assert stopped.value.code == 2 and "give a whole number above 0" in last
