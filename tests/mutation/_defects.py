"""Seeded defects: one small mistake each, of the kinds that people make, in code that promises something.

They were written down before the suite was asked. A defect is (file, what stands there, what is put there); what
stands there stands there once. `ROOMS` says which tests look after a room; they are the room's own tests, chosen by
name and not by defect, the quickest first.
"""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    file: str  # below src/tidings
    old: str
    new: str

    @property
    def name(self) -> str:
        words = "".join(c if c.isalnum() else "-" for c in f"{self.file.removesuffix('.py')} {self.new}")
        return "-".join(part for part in words.split("-") if part)[:90]


ROOMS: dict[str, tuple[str, ...]] = {
    "language": ("tests/unit/language", "tests/properties/test_normal_form.py", "tests/properties/test_language_*.py", "tests/conformance/test_cesql.py"),
    "algebra": ("tests/unit/algebra", "tests/properties/test_algebra_*.py"),
    "matching": ("tests/unit/matching", "tests/properties/test_matching_*.py"),
    "availability": ("tests/unit/availability", "tests/unit/protocol", "tests/properties/test_embedded_*.py", "tests/simulation/test_tidings_*.py"),
    "store": ("tests/unit/store", "tests/chaos/test_store_kill.py", "tests/chaos/test_store_rot.py"),
    "security": ("tests/unit/security", "tests/properties/test_security_*.py", "tests/unit/runtime/test_attacks.py", "tests/unit/runtime/test_gate.py"),
    "wire": ("tests/unit/wire", "tests/properties/test_wire_*.py"),
    "protocol": ("tests/unit/protocol", "tests/simulation/test_tidings_*.py", "tests/properties/test_embedded_*.py", "tests/scenarios", "tests/simulation/test_seeds.py"),
    "model": ("tests/unit/model", "tests/unit/language"),
}  # fmt: skip

DEFECTS = (
    # -- filters
    Defect("language/evaluate.py", "        return True if one is True and other is True else None\n", "        return True if one is True or other is True else None\n"),
    Defect("language/evaluate.py", "        return False if one is False and other is False else None\n", "        return False\n"),
    Defect("language/evaluate.py", "        return None if unknown else False\n", "        return False\n"),
    Defect("language/evaluate.py", "return quotient if (left < 0) == (right < 0) else -quotient", "return quotient"),
    Defect("language/evaluate.py", "return result if INT_MIN <= result <= INT_MAX else None", "return result"),
    Defect("language/evaluate.py", "        _comparing(operand, _compile(node.high), operator.le),", "        _comparing(operand, _compile(node.high), operator.lt),"),
    Defect("language/evaluate.py", "if one is None or (ordered and type(one) is bool):", "if one is None:"),
    Defect("language/evaluate.py", "        return one is not other if type(one) is bool and type(other) is bool else None", "        return one is not other"),
    Defect("language/normalise.py", "return self.all_of(parts) if (kind is And) is wanted else self.any_of(parts)", "return self.all_of(parts) if kind is And else self.any_of(parts)"),
    Defect("language/normalise.py", "return _one(Exists(node.name) if wanted else Missing(node.name))", "return _one(Exists(node.name))"),
    Defect("language/normalise.py", "return self.between(node, wanted is not node.negated)", "return self.between(node, wanted)"),
    Defect("algebra/intervals.py", "    start = BOTTOM if low is None else after(low) if low_open else before(low)\n", "    start = BOTTOM if low is None else before(low)\n"),
    Defect("algebra/intervals.py", "        if result and start <= result[-1][1]:", "        if result and start < result[-1][1]:"),
    Defect("algebra/intervals.py", "    following = ord(stem[-1]) + 1\n", "    following = ord(stem[-1])\n"),
    Defect("algebra/covers.py", "    return covers(one, other) and covers(other, one)", "    return covers(one, other)"),
    Defect("algebra/covers.py", "    return decide_overlaps(one, other) is not False", "    return decide_overlaps(one, other) is True"),
    Defect("algebra/covers.py", "    return True if gap is None and not search.is_exhausted else None", "    return True if gap is None else None"),
    # -- the store
    Defect("store/keyed.py", "            self._engine.write(changes)\n            self._engine.mark(plan.commit)\n", "            self._engine.mark(plan.commit)\n            self._engine.write(changes)\n"),
    Defect("store/keyed.py", "        except BaseException as error:  # whatever it was, the batch is in an unknown state\n            self._failure = error\n            raise\n", "        except BaseException:\n            raise\n"),
    Defect("store/keyed.py", "                size += len(value)\n                if len(found) >= limit or size >= max_bytes:", "                if len(found) >= limit or size >= max_bytes:"),
    Defect("store/keyed.py", "room = self._engine.room() if self._reserve_bytes and plan.grows else None", "room = None"),
    Defect("store/keyed.py", "        self._engine.recover()\n        kept = read_account(self._engine)\n", "        kept = self._ledger.account\n"),
    Defect("store/guard.py", "    if crc32c(payload, crc32c(key)) != int.from_bytes(value[:CRC_BYTES], \"little\") or len(value) < CRC_BYTES:", "    if len(value) < CRC_BYTES:"),
    Defect("store/guard.py", "    return ENTRY + offset.to_bytes(8, \"big\")\n\n\ndef offset_of", "    return ENTRY + offset.to_bytes(8, \"little\")\n\n\ndef offset_of"),
    # -- lifetimes and what was told
    Defect("availability/lifetime.py", "    return now < entry.ends_at\n", "    return now <= entry.ends_at\n"),
    Defect("availability/lifetime.py", "    return entry.expires_at is not None and entry.expires_at <= now", "    return entry.expires_at is not None and entry.expires_at < now - 1"),
    Defect("availability/lifetime.py", "            if not self._heap or self._heap[0][0] > now:", "            if not self._heap:"),
    Defect("availability/told.py", "            and self.filter.digest == other.filter.digest\n", ""),
    Defect("availability/told.py", "            span.log == log and span.start <= offset < span.stop and accepts(span.filter, event)", "            span.log == log and span.start <= offset <= span.stop and accepts(span.filter, event)"),
    # -- rights
    Defect("security/rules.py", "        allowed = wanted if covers(self.filter, wanted) else conjoined(wanted, self.filter)", "        allowed = wanted"),
    Defect("security/rules.py", "        bounds = [self.mandatory[key] for key in _keys(principal) if key in self.mandatory]", "        bounds = [self.mandatory[key] for key in _keys(principal)[:1] if key in self.mandatory]"),
    Defect("security/rules.py", "            return self.who == ANONYMOUS\n", "            return self.who in (ANONYMOUS, ANYONE)\n"),
    Defect("security/rules.py", "        if known is not None and known[0] is event:", "        if known is not None:"),
    Defect("security/rules.py", "[r.filter for r in self.rules if r.action is action and r.speaks_of(principal)]", "[r.filter for r in self.rules if r.speaks_of(principal)]"),
    Defect("security/quotas.py", "        self._check(\"constraints\", self.constraints + constraints)\n        self.subscriptions += 1\n", "        self.subscriptions += 1\n"),
    Defect("security/quotas.py", "        if constraints is not None:\n            self.unsubscribe(constraints)", "        if constraints is not None:\n            pass"),
    Defect("security/tokens.py", "(\"exp\", now - LEEWAY, None),", "(\"exp\", None, None),"),
    Defect("security/tokens.py", "        if len(token) > LONGEST_TOKEN:\n            raise RefusedError(REFUSED)\n", ""),
    # -- the wire
    Defect("wire/codec.py", "        if length != len(frame) - LENGTH.size:", "        if False and length != len(frame) - LENGTH.size:"),
    Defect("wire/codec.py", "            if version == VERSION and crc32c(body, _BEGUN) == checksum:", "            if version == VERSION:"),
    # -- delivery, routing, recovery
    Defect("protocol/delivery/intake.py", "        if event.lifetime > 0 or message.mode is Mode.KEPT or self._is_owed(event):", "        if event.lifetime > 0 or message.mode is Mode.KEPT:"),
    Defect("protocol/delivery/intake.py", "        if seen is Seen.NEW and not is_own:", "        if False and not is_own:"),
    Defect("protocol/delivery/courier.py", "            if held.durable:\n                self._ledger.owe(position.offset)\n", ""),
    Defect("protocol/delivery/courier.py", "                member.credit -= count\n                self.sent += count\n", "                self.sent += count\n"),
    Defect("protocol/delivery/courier.py", "        if member is not None and item.event.key is None and not item.expired(now):", "        if member is not None and item.event.key is None:"),
    Defect("protocol/delivery/exactly_once.py", "            if position is None and held.durable and arrival is not None and held.number > arrival.number:\n                continue  # when it was taken in, nobody was owed it, so no log holds it\n", ""),
    Defect("protocol/delivery/exactly_once.py", "            self._ledger.log = row.name\n            return\n", "            break\n"),
    Defect("protocol/routing/covering.py", "        if not self._own_counts[filter.digest]:\n", "        if True:\n"),
    Defect("protocol/routing/covering.py", "        elif sender not in self.ports.overlay.links():\n            return  # a neighbour no longer; it was on its way\n", ""),
    Defect("protocol/recovery/acknowledged.py", "        trail.due = max(trail.due, envelope.offset)\n", "        trail.due = envelope.offset - 1\n"),
    Defect("protocol/recovery/acknowledged.py", "        if view is None or view.upstream != came_from or offset is None:", "        if view is None or offset is None:"),
)  # fmt: skip
