"""Checks as arrays, so that the compiled walk answers them from the bytes of a text.

LIKE, topics with `+`, prefixes and order of text are tested on UTF-8, which sorts as code points
do. In a pattern the byte 0xFF stands for `%` and 0xFE for `_`: UTF-8 has neither. Other conditions
(REGEXP, residuals, dialect cesql) are evaluated by Python.

Asking Python what compiled parts cannot say: patterns, and residual expressions.

Only candidates get here: every part of their row holds already. Each different question is
compiled once, and asked once an event, however many rows wait for its answer.

Derived attributes as programs of a small machine that runs inside the compiled walk.

Arithmetic is done in doubles, which is exact enough only below 2**53: there an integer is a
double, and so is every sum, difference, product and remainder of two of them. Wherever a value
or a result is larger (infinities too) the machine stops and Python computes this event instead, so
64-bit overflow and exact comparison hold. NaN is unknown, and stays unknown through every step.

Not for the machine: functions of text, logic, and `/` unless its divisor is a float literal
(integers divide toward zero, and a row does not say which of its numbers are integers).

Derived attributes: what residuals compare, computed once an event.

A residual `price * qty > 5000` is a range on the value of `price * qty`; any other residual is
an equality with TRUE on its own value. When enough rows name the same expression, it gets
slots like an attribute, so that its rows are found through the grid. Expressions that the machine of
`programs` can compute are very cheap and get slots at once; the others are computed by
Python once an event, when enough rows ask for them. Rare expressions stay checks.

Expressions are told apart by their encoding, not by equality: `a / 2` equals `a / 2.0` in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.language.computing import expression_cost, pattern_cost
from tidings.language.evaluate import compiled as compiled_expression
from tidings.language.evaluate import residual_test, value_of
from tidings.language.lists import has_lists, prefixes
from tidings.language.meter import WorkMeter
from tidings.language.unexpected import FAILURES
from tidings.language.work import (
    BUDGET,
    Work,
    cesql_cost,
    cost,
    names_of,
    total_weight,
    work_of_expression,
)
from tidings.matching.columnar.layout import EXACT_DOUBLES
from tidings.matching.columnar.slots import BOOL, NUMBER, PRESENT, Slots, encoded
from tidings.model.body import HAS_LIST
from tidings.model.constraint import Constraint, Equals, Like, NotOneOf, Prefix, Range, TopicIs
from tidings.model.event import RESERVED, Event
from tidings.model.expression import Arithmetic, Attribute, Call, Compare, Expression, Literal, Negate
from tidings.model.filter import CESQL, TIDINGS, Conjunction
from tidings.model.pattern import like_parts
from tidings.model.value import Value, kind_of

# -- questions ---------------------------------------------------------------------------------

ASK_PYTHON, LIKE, TOPIC, BEGINS, ORDER, WORK = range(6)
A_LIST = -2  # in the place of the size of a text: the name leads to a list; -1: to neither
ANY_TEXT, ANY_CHARACTER = 0xFF, 0xFE
NEGATED, LOW_OPEN, HIGH_OPEN, HAS_LOW, HAS_HIGH = 1, 2, 4, 8, 16
# columns of an item
KIND, ATTRIBUTE, FLAGS, ONE_AT, ONE_SIZE, TWO_AT, TWO_SIZE = range(7)
WIDTH = 7


class Questions:
    """The items of every check: those of check c are items[starts[c]:starts[c + 1]]."""

    def __init__(self) -> None:
        self.starts = np.zeros(17, np.int32)
        self.items = np.zeros((16, WIDTH), np.int32)
        self.text = np.zeros(256, np.uint8)
        self.attributes: list[str] = []
        self.version = 0  # grows when an array moves or an attribute is new
        self._checks = self._items = self._bytes = 0

    def append(self, check: Check) -> None:
        """The next check, in the order of their numbers."""
        items = self._work(check)
        items += [self._item(constraint) for constraint in check.constraints]
        items += [(ASK_PYTHON, 0, 0, 0, 0, 0, 0)] * bool(check.residuals)
        self._checks += 1
        if self._checks >= len(self.starts):
            self.starts = self._larger(self.starts)
        while self._items + len(items) > len(self.items):
            self.items = self._larger(self.items)
        if items:
            self.items[self._items : self._items + len(items)] = items
        self._items += len(items)
        self.starts[self._checks] = self._items

    def _work(self, check: Check) -> list[tuple[int, ...]]:
        """Texts up to which the filter is within its budget for any other texts; beyond, and for lists,
        Python counts."""
        if not check.work:
            return []
        if check.dialect == CESQL:
            return [(ASK_PYTHON, 0, 0, 0, 0, 0, 0)]  # names are read without regard to case
        most = BUDGET // total_weight(check.work)
        return [(WORK, self._place(name), 0, 0, most, 0, 0) for name in names_of(check.work)]

    def _place(self, attribute: str) -> int:
        if attribute not in self.attributes:
            self.attributes.append(attribute)
            self.version += 1
        return self.attributes.index(attribute)

    def _larger(self, some: NDArray[Any]) -> NDArray[Any]:
        fresh = np.zeros((2 * len(some), *some.shape[1:]), some.dtype)
        fresh[: len(some)] = some
        self.version += 1
        return fresh

    def _item(self, constraint: Constraint) -> tuple[int, ...]:
        match constraint:
            case Like():
                return self._made(LIKE, constraint, constraint.negated, like_bytes(constraint.pattern))
            case TopicIs():
                return self._made(TOPIC, constraint, constraint.negated, encoded(constraint.pattern))
            case Prefix():
                return self._made(BEGINS, constraint, 0, encoded(constraint.prefix))
            case Range() if isinstance(constraint.low, str) or isinstance(constraint.high, str):
                return self._order(constraint)
        return (ASK_PYTHON, 0, 0, 0, 0, 0, 0)

    def _order(self, c: Range) -> tuple[int, ...]:
        flags = LOW_OPEN * c.low_open | HIGH_OPEN * c.high_open
        flags |= HAS_LOW * (c.low is not None) | HAS_HIGH * (c.high is not None)
        return self._made(ORDER, c, flags, encoded(c.low or ""), encoded(c.high or ""))

    def _made(self, kind: int, c: Constraint, flags: int, one: bytes, two: bytes = b"") -> tuple[int, ...]:
        position = self._place(c.attribute)
        return (kind, position, int(flags), self._put(one), len(one), self._put(two), len(two))

    def _put(self, text: bytes) -> int:
        at = self._bytes
        while at + len(text) > len(self.text):
            self.text = self._larger(self.text)
        self.text[at : at + len(text)] = np.frombuffer(text, np.uint8)
        self._bytes += len(text)
        return at


def like_bytes(pattern: str) -> bytes:
    """A LIKE pattern for the kernel."""
    one = bytes((ANY_CHARACTER,))
    segments = (b"".join(one if ch is None else encoded(ch) for ch in part) for part in like_parts(pattern))
    return bytes((ANY_TEXT,)).join(segments)


# -- asking ------------------------------------------------------------------------------------

MOST_REMEMBERED = 4096  # answers of one pattern, or results of a function of one text ...
LONGEST_REMEMBERED = 256  # ... for texts of so many characters at most
FIRST = np.ones(1, bool)
_encode = msgspec.msgpack.Encoder().encode


class Check(NamedTuple):
    """A condition that parts cannot express: Python evaluates it, on candidates only."""

    constraints: tuple[Constraint, ...]
    residuals: tuple[Expression, ...] = ()
    dialect: str = TIDINGS
    work: Work = ()  # of the whole filter, for a part with a weight: over budget, the row is not accepted


class Checks:
    """Checks by number, each kept once, as arrays for the walk and as functions when first asked.

    Told apart by their encoding, not by equality: in Python 2 equals 2.0, and 1 equals True.
    """

    def __init__(self, known: Iterable[Check] = ()) -> None:
        self.all: list[Check] = []
        self.questions = Questions()
        self._numbers: dict[bytes, int] = {}
        self._tests: dict[int, CompiledCheck] = {}
        for check in known:
            self.number(check)

    def number(self, check: Check | None) -> int:
        """The check's number; -1 for none."""
        if check is None:
            return -1
        key = _encode(check)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.all)
            self.all.append(check)
            self.questions.append(check)
        return found

    def passes(self, number: int, event: Event, meter: WorkMeter | None = None, handle: int = 0) -> bool:
        """Does the event pass the check? A meter charges it to the owner of the filter of this handle."""
        test = self._tests.get(number)
        if test is None:
            test = self._tests[number] = compiled_check(self.all[number])
        try:
            return test.run(event) if meter is None else test.metered(event, meter, handle)
        except Exception as error:
            FAILURES.note(self.all[number], event.view, error)
            return False


class CompiledCheck(NamedTuple):
    """A check as functions."""

    run: Callable[[Event], bool]  # do its constraints and its residuals hold for an event?
    plainly: Callable[[Event], bool]  # do its constraints, within the work budget?
    residuals: list[Callable[[Event], bool]]
    costs: list[int]  # of the residuals, for the meter
    pattern_cost: int

    def metered(self, event: Event, meter: WorkMeter, handle: int) -> bool:
        return (
            meter.pays(handle, self.pattern_cost)
            and self.plainly(event)
            and meter.all_hold(handle, self.residuals, self.costs, event)
        )


def compiled_check(check: Check) -> CompiledCheck:
    plain = check._replace(residuals=())
    run, plainly = _tested(check), _tested(plain) if check.constraints else _always
    if check.work:
        run, plainly = _within_budget(run, check), _within_budget(plainly, check)
    return CompiledCheck(
        run, plainly, [residual_test(residual, check.dialect) for residual in check.residuals],
        [expression_cost(residual) for residual in check.residuals],
        pattern_cost(Conjunction(check.constraints)),
    )  # fmt: skip


def _always(event: Event) -> bool:  # noqa: ARG001
    return True


def _within_budget(test: Callable[[Event], bool], check: Check) -> Callable[[Event], bool]:
    work, costs = check.work, cesql_cost if check.dialect == CESQL else cost
    return lambda event: costs(work, event.view) <= BUDGET and test(event)


def _tested(check: Check) -> Callable[[Event], bool]:
    if len(check.constraints) == 1 and not check.residuals:
        return _remembered(check.constraints[0])
    constraints = [(c.attribute, c.accepts) for c in check.constraints]
    residuals = [residual_test(residual, check.dialect) for residual in check.residuals]

    def test(event: Event) -> bool:
        value_of = event.view.get
        return all(accepts(value_of(name)) for name, accepts in constraints) and all(
            holds(event) for holds in residuals
        )

    return test


def _remembered(constraint: Constraint) -> Callable[[Event], bool]:
    """The test of a lone constraint: a pattern costs more than remembering its answer for a value."""
    answers: dict[Any, bool] = {}
    attribute, accepts = constraint.attribute, constraint.accepts

    def test(event: Event) -> bool:
        value = event.view.get(attribute)
        if type(value) is not str or len(value) > LONGEST_REMEMBERED:
            return accepts(value)
        answer = answers.get(value)
        if answer is None:
            if len(answers) >= MOST_REMEMBERED:
                answers.clear()
            answer = answers[value] = accepts(value)
        return answer

    return test


def merged(found: NDArray[np.int32], more: list[int]) -> NDArray[np.int32]:
    """Sorted handles and some others, sorted, each once."""
    both = np.concatenate((found, np.array(more, np.int32)))
    both.sort()
    again = both[1:] == both[:-1]
    return both[np.concatenate((FIRST, ~again))] if again.any() else both


def accepted(
    requested: Iterable[tuple[int, int, int]],
    checks: dict[int, Checks],
    event: Event,
    without: Collection[int] = (),
    meter: WorkMeter | None = None,
) -> list[int]:
    """Of (handle, number of its check, tier), the handles with a check that passes, without some. A question
    is charged to the owner of the filter that asks it first."""
    answers: dict[tuple[int, int], bool] = {}
    found: list[int] = []
    beyond = meter.beyond if meter is not None else without
    for handle, number, tier in requested:
        if handle in without or handle in beyond:
            continue
        key = (tier, number)
        answer = answers.get(key)
        if answer is None:
            answer = checks[tier].passes(number, event, meter, handle)
            if handle in beyond:
                continue
            answers[key] = answer
        if answer:
            found.append(handle)
    return found


def text_of(event: Event, attribute: str) -> str | None:
    """An attribute if it is a text. The view is made only if no simpler way finds it."""
    first, dot, below = attribute.partition(".")
    if event.rich:
        value = event.view.get(attribute)
    elif not dot and attribute not in RESERVED:
        value = event.body.get(attribute)
    elif attribute == "topic":
        value = event.topic
    else:
        stored = event.body.get(first)
        value = stored.get(below) if type(stored) is dict else None
        if type(value) is not str:  # nested at another of its dots, or beside a deeper name
            value = event.view.get(attribute)
    return value if type(value) is str else None


def no_text(event: Event, attribute: str) -> int:
    """The size in the place of a text that is not there: that of a list, or of nothing."""
    if not event.rich or HAS_LIST not in event.view:
        return -1
    view = event.view
    return A_LIST if any(type(view.get(each)) is tuple for each in prefixes(attribute)) else -1


# -- programs ----------------------------------------------------------------------------------

Step: TypeAlias = tuple[int, str | float]

PUSH, CONSTANT, ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, NEGATE, ABSOLUTE = range(9)
FLOOR, CEILING = 9, 10
LESS, AT_MOST, GREATER, AT_LEAST, EQUAL, DIFFERENT = range(11, 17)
PLAIN = 17  # stop when an attribute holds a value that is no number: only Python knows its kind's order
MOST_STEPS = 32
STACK = MOST_STEPS + 2

_OPERATORS = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "%": REMAINDER}
_FUNCTIONS = {("ABS", 1): ABSOLUTE, ("MOD", 2): REMAINDER, ("FLOOR", 1): FLOOR, ("CEIL", 1): CEILING}
_COMPARISONS = {"<": LESS, "<=": AT_MOST, ">": GREATER, ">=": AT_LEAST, "=": EQUAL, "!=": DIFFERENT}


def machine_steps(expression: Expression) -> tuple[Step, ...] | None:
    """The steps that compute an expression; None when it is not for the machine."""
    steps: list[Step] = []
    fits = _compare(expression, steps) if isinstance(expression, Compare) else _number(expression, steps)
    return tuple(steps) if fits and len(steps) <= MOST_STEPS else None


def _compare(node: Compare, steps: list[Step]) -> bool:
    sides = (node.left, node.right)
    if any(isinstance(side, Literal) for side in sides):
        return False
    if all(isinstance(side, Attribute) for side in sides):
        # two texts or two times compare too
        steps += [(PLAIN, side.name) for side in sides if isinstance(side, Attribute)]
    if not all(_number(side, steps) for side in sides):
        return False
    steps.append((_COMPARISONS[node.op], 0.0))
    return True


def _number(node: Expression, steps: list[Step]) -> bool:
    if isinstance(node, Attribute):
        steps.append((PUSH, node.name))
        first = node.name.partition(".")[0]
        return first not in RESERVED and not first.startswith(MARK)
    if isinstance(node, Literal):
        if type(node.value) not in (int, float) or not -EXACT_DOUBLES < node.value < EXACT_DOUBLES:
            return False
        steps.append((CONSTANT, float(node.value)))
        return True
    if isinstance(node, Negate):
        fits = _number(node.operand, steps)
        steps.append((NEGATE, 0.0))
        return fits
    if isinstance(node, Call):
        return _call(node, steps)
    return isinstance(node, Arithmetic) and _arithmetic(node, steps)


def _call(node: Call, steps: list[Step]) -> bool:
    operator = _FUNCTIONS.get((node.function, len(node.arguments)))
    if operator is None or not all(_number(argument, steps) for argument in node.arguments):
        return False
    steps.append((operator, 0.0))
    return True


def _arithmetic(node: Arithmetic, steps: list[Step]) -> bool:
    operator = _OPERATORS.get(node.op)
    if operator is None:
        if not (isinstance(node.right, Literal) and type(node.right.value) is float):
            return False
        operator = DIVIDE
    if not (_number(node.left, steps) and _number(node.right, steps)):
        return False
    steps.append((operator, 0.0))
    return True


def kind_of_result(steps: tuple[Step, ...]) -> str:
    return BOOL if LESS <= steps[-1][0] <= DIFFERENT else NUMBER


def assembled(
    programs: list[tuple[int, tuple[Step, ...]]], slot_of: Callable[[str], int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Programs as numbers: how many, then each one's target, length, and (step, operand) pairs.

    `slot_of` says where an attribute's numbers are; constants lie in the second array.
    """
    code, constants = [len(programs)], [0.0]
    for target, steps in programs:
        code += [target, len(steps)]
        for step, operand in steps:
            if isinstance(operand, str):
                code += [step, slot_of(operand)]
            else:
                code += [step, len(constants)]
                constants.append(operand)
    return np.array(code, np.int64), np.array(constants)


# -- derived -----------------------------------------------------------------------------------

MOST_DERIVED = 64
ROWS_TO_DERIVE = 16  # rows that name an expression before it is worth computing for every event
MACHINE_MOST = 32  # expressions for the machine that are taken at first sight
MOST_COUNTED = 4096
MARK = "="  # begins the name of a derived attribute; attributes of events that begin so have no slots

_STRICT_CALLS = frozenset({"ABS", "LENGTH", "UPPER", "LOWER", "CEIL", "FLOOR", "ROUND", "MOD", "TIMESTAMP"})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


class Program(NamedTuple):
    """A derived attribute: its name, what it needs, and how to compute it."""

    name: str
    inputs: tuple[str, ...]
    direct: bool  # unknown when an input is, and all inputs are plain attributes
    run: Callable[[Any], Value | None]
    steps: tuple[Step, ...] | None  # for the machine
    target: int  # the slot that the machine writes
    remembered: dict[str, Value | None] | None  # results, when it is a function of one attribute


def nodes(expression: Expression) -> Iterator[Any]:
    """The expression and everything below it."""
    yield expression
    for field in expression.__struct_fields__:
        stored = getattr(expression, field)
        for some in stored if isinstance(stored, tuple) else (stored,):
            if hasattr(some, "__struct_fields__"):
                yield from nodes(some)


def split(residual: Expression) -> tuple[Expression, Callable[[str], Constraint]]:
    """The expression that the residual tests, and the constraint on its value."""
    if isinstance(residual, Compare):
        op, left, right = residual.op, residual.left, residual.right
        if isinstance(left, Literal):
            op, left, right = _TURNED[op], right, left
        if isinstance(right, Literal) and not isinstance(left, Literal) and kind_of(right.value) is not None:
            value = right.value
            if op == "=":
                return left, lambda name: Equals(name, value)
            if op == "!=":
                return left, lambda name: NotOneOf(name, (value,))
            if type(value) is not bool:
                if op in ("<", "<="):
                    return left, lambda name: Range(name, None, value, False, op == "<")
                return left, lambda name: Range(name, value, None, op == ">", False)
    return residual, lambda name: Equals(name, True)


class Derived:
    """The derived attributes of one matcher."""

    def __init__(self, slots: Slots) -> None:
        self.programs: list[Program] = []
        self.expressions: list[Expression] = []
        self._slots = slots
        self._names: dict[bytes, str] = {}
        self._counts: dict[bytes, int] = {}

    def constraint(self, residual: Expression, dialect: str) -> Constraint | None:
        """The residual as a constraint on a derived attribute; None while it is rare."""
        if dialect != TIDINGS or has_lists(residual):
            return None
        expression, make = split(residual)
        key = _encode(expression)
        name = self._names.get(key) or self._counted(key, expression)
        return None if name is None else make(name)

    def _counted(self, key: bytes, expression: Expression) -> str | None:
        if len(self.programs) >= MOST_DERIVED or len(self._counts) >= MOST_COUNTED:
            return None
        count = self._counts[key] = self._counts.get(key, 0) + 1
        cheap = len(self.programs) < MACHINE_MOST and machine_steps(expression) is not None
        return self.take(expression) if cheap or count >= ROWS_TO_DERIVE else None

    def take(self, expression: Expression) -> str:
        """Give the expression a name from now on."""
        key = _encode(expression)
        name = self._names[key] = f"{MARK}{len(self.programs)}"
        self._counts.pop(key, None)
        self.expressions.append(expression)
        self.programs.append(self._program(name, expression))
        return name

    def _program(self, name: str, expression: Expression) -> Program:
        every = list(nodes(expression))
        inputs = tuple(dict.fromkeys(node.name for node in every if isinstance(node, Attribute)))
        strict = all(
            isinstance(node, Literal | Attribute | Arithmetic | Negate | Compare)
            or (isinstance(node, Call) and node.function in _STRICT_CALLS)
            for node in every
        )
        direct = strict and bool(inputs) and not any("." in i or i in RESERVED for i in inputs)
        steps, target = self._for_machine(name, expression)
        remembered: dict[str, Value | None] | None = {} if direct and len(inputs) == 1 else None
        return Program(name, inputs, direct, _value_within_budget(expression), steps, target, remembered)

    def _for_machine(self, name: str, expression: Expression) -> tuple[tuple[Step, ...] | None, int]:
        """The machine's steps, with slots for all that they read and write."""
        steps = machine_steps(expression)
        if steps is None:
            return None, -1
        wanted = [(str(operand), PRESENT) for step, operand in steps if step == PLAIN]
        wanted += [(str(operand), NUMBER) for step, operand in steps if step == PUSH]
        target = self._slots.number(name, kind_of_result(steps))
        if min((target, *(self._slots.number(*slot) for slot in wanted))) < 0:
            return None, -1
        return steps, target


def _value_within_budget(expression: Expression) -> Callable[[Any], Value | None]:
    """The expression as a function of a view; over budget it is unknown, as is every filter that has it."""
    run, work = compiled_expression(expression), work_of_expression(expression)
    if not work:
        return lambda view: value_of(expression, run, view)
    return lambda view: value_of(expression, run, view) if cost(work, view) <= BUDGET else None


def result_of(program: Program, view: Any) -> Value | None:
    """The program's value, remembered when it is a function of one text."""
    if program.remembered is None:
        return program.run(view)
    value = view.get(program.inputs[0])
    if type(value) is not str or len(value) > LONGEST_REMEMBERED:
        return program.run(view)
    known = program.remembered
    found = known.get(value, known)  # other threads may clear it: look once
    if found is known:
        found = program.run(view)
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[value] = found
    return found  # type: ignore[return-value]


__all__ = ["MARK", "Derived", "Program", "result_of", "split"]
