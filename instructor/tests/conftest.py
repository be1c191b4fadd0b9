"""What all of the instructor's tests share: a list at the end of what was skipped."""

from tests import skips


def pytest_configure(config):
    """Show the list."""
    skips.show_at_the_end(config)
