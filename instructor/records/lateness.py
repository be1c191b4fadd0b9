"""The deduction for late work, such as 10% a day, at most 50%."""

import datetime
import math
import re
from typing import NamedTuple

from lab15_run import counted

UNITS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
RULE = re.compile(
    r"(?P<amount>\d+(\.\d+)?) ?(?P<kind>%|points?|pts?) ?(a|an|per|each|/) ?"
    r"(?P<unit>hour|day|week)"
    r"(,? ?(at most|max\.?|up to) ?(?P<most>\d+(\.\d+)?) ?(?P<most_kind>%|points?|pts?))?"
)
FORMS = 'such as "10% a day, at most 50%", "1 point a day" or "5% an hour, at most 2 points"'
# 2026-11-29 12:00[:00[.5]][ UTC| Z| +01:00| -0800]
TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)([ T](?P<clock>\d\d:\d\d(:\d\d)?))?(\.\d+)?"
    r" ?(?P<zone>UTC|GMT|Z|[+-]\d\d:?\d\d)?(?P<rest>.*)"
)


class Rule(NamedTuple):
    """Off for every unit begun; in per cent of the student's points, or in points."""

    amount: float
    percent: bool
    seconds: int
    unit: str
    most: float
    most_percent: bool

    def off(self, points: float, seconds: float) -> float:
        """Return how many points are taken off.

        Args:
            points: that the student has, 0 or more.
            seconds: late, above 0.
        """
        off = self.amount * math.ceil(seconds / self.seconds)
        off = points * off / 100 if self.percent else off
        most = points * self.most / 100 if self.most_percent else self.most
        return round(min(off, most, points), 2)


class Due(NamedTuple):
    """When the lab is due, what is taken off, and who has more time.

    rule: None marks who is late and takes nothing off.
    extra: {student: days}.
    """

    time: datetime.datetime | None
    rule: Rule | None
    extra: dict[str, float]


class Verdict(NamedTuple):
    """Whether one student is late, and the points off; `why` is for the student and the table."""

    late: bool | str | None
    off: float = 0.0
    why: str = ""


def rule(text: str) -> Rule:
    """Return the Rule in a text.

    Raises:
        ValueError: there is none.
    """
    found = RULE.fullmatch(text.strip().lower())
    if not found:
        raise ValueError(f'--late "{text}" is not understood; write it {FORMS}')
    percent = found["kind"] == "%"
    most, most_percent = found["most"], (found["most_kind"] or "%") == "%"
    limit = float(most or 100)
    if (percent and float(found["amount"]) > 100) or (most_percent and limit > 100):
        raise ValueError(f'--late "{text}": more than 100% cannot be taken off')
    return Rule(float(found["amount"]), percent, UNITS[found["unit"]], found["unit"], limit,
                most_percent)


def moment(text: str) -> datetime.datetime | None:
    """Return a time with its zone (this machine's, if the text names none), or None."""
    found = TIME.fullmatch(text.strip())
    if not found or found["rest"].strip():
        return None
    zone = found["zone"] or ""
    zone = "+0000" if zone in ("UTC", "GMT", "Z") else zone.replace(":", "")
    clock = found["clock"] or "23:59:59"
    clock += ":00" * (clock.count(":") < 2)
    try:
        form = "%Y-%m-%d %H:%M:%S" + "%z" * bool(zone)
        when = datetime.datetime.strptime(f"{found['day']} {clock}{zone}", form)
        return when if zone else when.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def due(time: str | None, late: str | None, extra: dict[str, float]) -> Due:
    """Return the Due of the two options and the roster.

    Args:
        time: of --due, or None.
        late: of --late: the rule, or None.
        extra: {student: extra days}.

    Raises:
        ValueError: an option is not understood, or --late is given without --due.
    """
    if late and not time:
        raise ValueError("--late needs --due: when was it due?")
    when = moment(time) if time else None
    if time and when is None:
        raise ValueError(f'--due "{time}" is no time; write it as 2026-11-29 23:59, '
                         "with +01:00 behind it if it is not this machine's time zone")
    return Due(when, rule(late) if late else None, extra)


def judge(what: Due, student: str, submitted: str | None, late: bool | str | None,
          points: float) -> Verdict:
    """Return what lateness means for one student.

    Args:
        what: the Due.
        student: as in scores.csv.
        submitted: when, according to the course system.
        late: whether it is late, according to the course system.
        points: those before the deduction.
    """
    if what.time is None:
        return Verdict(late)
    when = moment(submitted) if submitted else None
    if when is None:
        why = "late by the course system, which does not say how late: nothing was taken off"
        return Verdict(late, 0.0, why if late and what.rule else "")
    days = what.extra.get(student, 0.0)
    seconds = (when - what.time).total_seconds() - 86400 * days
    if seconds <= 0:
        return Verdict(None)
    of = f", with {counted(days, 'extra day')}" if days else ""
    if what.rule is None:
        return Verdict(True, 0.0, f"{span(seconds)} late{of}")
    off = what.rule.off(points, seconds)
    points_off = f"{counted(off, 'point')} off"
    return Verdict(True, off, f"{points_off}: {span(seconds)} late{of}")


def span(seconds: float) -> str:
    """Return a time as days, hours and minutes."""
    minutes = max(1, math.ceil(seconds / 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if n]
    return " ".join(parts[:2])
