"""The users file: who exists, who may do what, and how much. One TOML file, read whole or not at all.

    [users.ann]
    password = "SCRAM-SHA-256$..."      # a stored key, from `tidings users key`
    groups = ["traders"]
    filter = "region = 'eu'"            # mandatory: conjoined with all rights of ann
    quota = { connections = 10 }

    [[allow]]
    who = "group:traders"               # a name, group:NAME, anyone, anonymous
    action = "subscribe"                # publish, subscribe, observe, release
    filter = "topic = 'quotes/#'"

    [[allow]]
    who = "group:workers"
    action = "share"                    # consume together with the others of this rule
    groups = ["orders", "billing-*"]    # names of consumer groups
    keys = ["room-*"]                   # superseding keys

    [tenants.blue]
    stored_bytes = 10_000_000_000       # of all its principals together

    [[issuers]]
    issuer = "https://login.example"
    audience = "tidings"
    key_file = "issuer.pem"

An error is reported with its place; then the whole file is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import msgspec

from tidings.errors import FilterError, RefusedError, SettingsError
from tidings.language import parse_filter
from tidings.model.filter import Filter
from tidings.security.principal import ANONYMOUS, ANYONE, GROUP, Principal, ProofMethod, checked_name
from tidings.security.quotas import TENANT_ACCOUNT, UNBOUNDED, Quota
from tidings.security.reading import checked, checked_table, parse_toml, refuse_unknown
from tidings.security.rules import (
    AccessRight,
    AccessRule,
    Action,
    Permissions,
    conjoined,
    of_tenant,
)
from tidings.security.scram import StoredKey, read_key
from tidings.security.tokens import Issuer, Verifier

Read = Callable[[str], bytes]  # reads a file that the users file names, relative to it
_WILD = re.compile(r"[*?[]")


class User(msgspec.Struct, frozen=True):
    """An entry under [users]."""

    password: str | None = None  # a stored key; None: it comes by certificate or token only
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # further names for its clients and sources; * is a wildcard
    tenant: str = ""
    filter: str | None = None
    quota: dict[str, int] = {}
    disabled: bool = False  # it is never admitted


class UserGroup(msgspec.Struct, frozen=True):
    """An entry under [groups]; a group needs one only for its mandatory filter."""

    filter: str | None = None


class TenantEntry(msgspec.Struct, frozen=True):
    """An entry under [tenants]: bounds over all principals of a tenant together."""

    stored_bytes: int = UNBOUNDED.stored_bytes  # of their events with a lifetime; and of what they wait for


class Allow(msgspec.Struct, frozen=True):
    """An entry of [[allow]]."""

    who: str | tuple[str, ...]
    action: Action | tuple[Action, ...]
    filter: str = "TRUE"
    groups: tuple[str, ...] = ()  # of the action share: names of consumer groups; * is a wildcard
    keys: tuple[str, ...] = ()  # of the action share: superseding keys; * is a wildcard


class TrustedIssuer(msgspec.Struct, frozen=True):
    """An entry of [[issuers]]."""

    issuer: str
    audience: str
    key_file: str  # a public key in PEM, or a shared secret of 32 bytes and more
    groups: bool = False  # take the claim `groups` of its tokens


class Users(msgspec.Struct, frozen=True, dict=True):
    """Everything that the file says, checked."""

    users: dict[str, User]
    keys: dict[str, StoredKey]
    permissions: Permissions
    quotas: dict[str, Quota]
    default_quota: Quota
    verifier: Verifier
    decoy: bytes = b""  # makes up salts for unknown names, the same at all brokers that have this file

    def complete(self, principal: Principal) -> Principal:
        """Add the entries of the file to a proved principal. Raises when the principal is not admitted."""
        user = self.users.get(principal.name)
        if user is None:
            return principal
        if user.disabled:
            raise RefusedError(f"{principal.name} is disabled here")
        if user.tenant and principal.tenant not in ("", user.tenant):
            raise RefusedError(f"{principal.name} belongs to another tenant")
        return msgspec.structs.replace(
            principal,
            tenant=user.tenant or principal.tenant,
            groups=tuple(dict.fromkeys((*principal.groups, *user.groups))),
            names=(*principal.names, *user.names),
        )

    def refreshed(self, principal: Principal) -> Principal:
        """The principal as this file has it, by the proof that it once came with. Raises when this file does
        not accept that proof."""
        name, means, proof = principal.name, principal.means, principal.proof
        if means is ProofMethod.SCRAM and name not in self.keys:
            raise RefusedError(f"{name} has no password here")
        if means is ProofMethod.TOKEN and self.verifier.issuer(proof.issuer) is None:
            raise RefusedError(f"the issuer of the token of {name} is not trusted here")
        base = Principal(name, means, proof.tenant, proof.groups, is_broker=principal.is_broker, proof=proof)
        return self.complete(base)

    def right(self, principal: Principal, action: Action) -> AccessRight:
        """Its rights within the bound of its tenant."""
        right = self.permissions.right(principal, action)
        if not principal.tenant:
            return right
        return AccessRight(right.principal, action, conjoined(right.filter, of_tenant(principal.tenant)))

    def standing(self, principal: Principal) -> Any:
        """Entries and rights of a principal in this file, as a value to compare. Raises as `refreshed`."""
        refreshed = principal if principal.is_anonymous else self.refreshed(principal)
        rights = [self.permissions.right(refreshed, action).filter for action in Action]
        return (
            refreshed,
            self.keys.get(principal.name) if principal.means is ProofMethod.SCRAM else None,
            self.verifier.issuer(principal.proof.issuer),
            tuple((right.dialect, right.text) for right in rights),
            self.permissions.shared_by(refreshed),
        )

    def key_like(self, number: int) -> StoredKey | None:
        """Some stored key of the file, always the same for a number: unknown names look like known ones."""
        keys = list(self.keys.values())
        return keys[number % len(keys)] if keys else None

    def lists(self, principal: Principal) -> bool:
        """Does the file hold this very principal? Then no other one has its name."""
        user = self.users.get(principal.name)
        return user is not None and user.tenant == principal.tenant

    def named_in(self, client: str) -> str | None:
        """The principal of this file with the longest name that stands at the beginning of a client's name,
        or of a source."""
        own = client
        while own:
            if own in self._names:
                return own
            own = own.rpartition("/")[0]
        return None

    def speaker_of(self, source: str) -> str:
        """The one principal that owns this source by its name. Of principals that this file does not name (of
        tokens, of certificates) `ann` has all of `ann/...`: others with names that begin so have none, as
        both could use it."""
        return self.named_in(source) or source.partition("/")[0]

    @cached_property
    def _names(self) -> frozenset[str]:
        """Of users, and of principals of tokens and certificates that a rule names."""
        stated = {rule.who for rule in self.permissions.rules if not rule.who.startswith(GROUP)}
        return frozenset({*self.users, *stated} - {ANYONE, ANONYMOUS})

    @cached_property
    def _further(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Users that have further names, with those."""
        return tuple((name, user.names) for name, user in self.users.items() if user.names)

    def owner_of(self, client: str) -> str:
        """The principal that a client's name, or a source, belongs to, as far as the file says."""
        own = self.named_in(client)
        if own is not None:
            return own
        for name, further in self._further:
            if any(fnmatchcase(client, allowed) for allowed in further):
                return name
        return client.partition("/")[0]


NO_USERS = Users({}, {}, Permissions(), {}, Quota(), Verifier(()))


def parse_users(text: str, *, read: Read, where: str = "the users file") -> Users:
    """Read the whole file, or raise `SettingsError` and leave everything as it was."""
    table = parse_toml(text, where)
    refuse_unknown(table, ("users", "groups", "tenants", "allow", "quota", "issuers"), where)
    users = _entries(table.get("users", {}), User, f"{where}: [users]")
    _check_shared_names(users, where)
    groups = _entries(table.get("groups", {}), UserGroup, f"{where}: [groups]")
    default = _quota(Quota(), table.get("quota", {}), f"{where}: [quota]")
    keys = {n: _key(u.password, f"{where}: [users.{n}]") for n, u in users.items() if u.password}
    return Users(
        users=users,
        keys=keys,
        permissions=Permissions(
            _rules(table.get("allow", []), _known_groups(users, groups), where),
            _mandatory(users, groups, where),
        ),
        quotas={n: _quota(default, u.quota, f"{where}: [users.{n}]") for n, u in users.items() if u.quota}
        | _tenant_quotas(table.get("tenants", {}), f"{where}: [tenants]"),
        default_quota=default,
        verifier=_verifier(table.get("issuers", []), read, where),
        decoy=_decoy(keys),
    )


def _entries(given: Any, kind: Any, where: str) -> dict[str, Any]:
    entries = {}
    for name, entry in checked_table(given, where).items():
        try:
            checked_name(name)
        except RefusedError as error:
            raise SettingsError(f"{where}: {error.message}", hint=error.hint) from None
        if name in (ANYONE, ANONYMOUS) or name.startswith(GROUP):
            raise SettingsError(f"{where}: {name!r} is a word of the rules", hint="choose another name")
        entries[name] = checked(kind, entry, f"{where.rstrip(']')}.{name}]")
        tenant = getattr(entries[name], "tenant", "")
        if tenant:
            _check_tenant(tenant, f"{where.rstrip(']')}.{name}]")
    return entries


def _check_shared_names(users: Mapping[str, User], where: str) -> None:
    """A subscription belongs to a client's name, so a name that users of two tenants may have would be shared
    by both.

    `*` alone is not checked: a user that may have every name is trusted with all of them."""
    tenanted = [(name, user) for name, user in users.items() if user.tenant]
    for name, user in tenanted:
        for allowed in user.names:
            for other, one in tenanted:
                if one.tenant == user.tenant or "*" in (allowed, *one.names):
                    continue
                taken = [each for each in (other, *one.names) if _may_meet(allowed, each)]
                if taken:
                    raise SettingsError(
                        f"{where}: [users.{name}]: the name {allowed!r} may be that of a client of {other!r} "
                        f"({taken[0]!r}), of another tenant ({one.tenant!r})",
                        hint="give each tenant names of its own",
                    )


def _may_meet(one: str, other: str) -> bool:
    """Can one name match both patterns? Two wildcards: only by what stands before them."""
    if fnmatchcase(one, other) or fnmatchcase(other, one):
        return True
    heads = [_WILD.split(each, maxsplit=1)[0] for each in (one, other)]
    is_wild = all(_WILD.search(each) for each in (one, other))
    return is_wild and (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0]))


def _check_tenant(tenant: str, where: str) -> None:
    try:
        checked_name(tenant, "a tenant's name")
    except RefusedError as error:
        raise SettingsError(f"{where}: {error.message}", hint=error.hint) from None


def _key(text: str, where: str) -> StoredKey:
    try:
        return read_key(text)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error.message}", hint=error.hint) from None


def _decoy(keys: dict[str, StoredKey]) -> bytes:
    """A secret out of one stored key, that of the first name: it stays while other users come and go."""
    if not keys:
        return b""
    first = keys[min(keys)]
    return hashlib.sha256(b"tidings decoy:" + first.stored_key + first.server_key).digest()


def _quota(base: Quota, given: Any, where: str) -> Quota:
    table = checked_table(given, where)
    refuse_unknown(table, Quota.__struct_fields__, where)
    for name, value in table.items():
        if type(value) is not int or value < 0:
            raise SettingsError(f"{where}: {name} is no whole number of 0 or more")
    if table.get("bytes_per_second") == 0:
        raise SettingsError(f"{where}: bytes_per_second is 0", hint="to shut a user out, set disabled = true")
    return msgspec.structs.replace(base, **table)


def _tenant_quotas(given: Any, where: str) -> dict[str, Quota]:
    found = {}
    for name, entry in _entries(given, TenantEntry, where).items():
        if entry.stored_bytes < 0:
            raise SettingsError(f"{where}: stored_bytes of {name} is below 0")
        found[TENANT_ACCOUNT + name] = msgspec.structs.replace(UNBOUNDED, stored_bytes=entry.stored_bytes)
    return found


def _known_groups(users: dict[str, User], groups: dict[str, UserGroup]) -> set[str]:
    return {*groups, *(group for user in users.values() for group in user.groups)}


def _rules(given: Any, groups: set[str], where: str) -> list[AccessRule]:
    if not isinstance(given, list):
        raise SettingsError(f"{where}: allow is no list of tables", hint="each rule begins with [[allow]]")
    rules: list[AccessRule] = []
    for number, entry in enumerate(given, 1):
        position = f"{where}: rule {number} of [[allow]]"
        allow = checked(Allow, entry, position)
        filter = _filter(allow.filter, position)
        actions = (allow.action,) if isinstance(allow.action, Action) else allow.action
        _check_share(allow, actions, position)
        for who in (allow.who,) if isinstance(allow.who, str) else allow.who:
            _check_group(who, groups, position)
            rules += [AccessRule(who, action, filter, allow.groups, allow.keys) for action in actions]
    return rules


def _check_share(allow: Allow, actions: tuple[Action, ...], position: str) -> None:
    if Action.SHARE not in actions:
        if allow.groups or allow.keys:
            raise SettingsError(
                f"{position}: groups and keys are for the action share", hint="leave them out"
            )
        return
    if len(actions) > 1 or allow.filter != "TRUE":
        raise SettingsError(
            f"{position}: share stands alone, without a filter",
            hint="write one rule for share, another for the rest",
        )
    if not allow.groups and not allow.keys:
        raise SettingsError(
            f"{position}: share names no groups and no keys", hint='groups = ["orders", "billing-*"]'
        )


def _check_group(who: str, groups: set[str], position: str) -> None:
    """A name may belong to a user with a token; but an unknown group is a mistake.

    Groups that only tokens give are declared by an empty [groups.NAME].
    """
    if who.startswith(GROUP):
        refuse_unknown([who.removeprefix(GROUP)], groups, f"{position}: [groups]")


def _mandatory(users: dict[str, User], groups: dict[str, UserGroup], where: str) -> dict[str, Filter]:
    own = {
        name: _filter(user.filter, f"{where}: [users.{name}]") for name, user in users.items() if user.filter
    }
    shared = {
        GROUP + name: _filter(group.filter, f"{where}: [groups.{name}]")
        for name, group in groups.items()
        if group.filter
    }
    return own | shared


def _filter(text: str, where: str) -> Filter:
    try:
        return parse_filter(text)
    except FilterError as error:
        raise SettingsError(f"{where}: filter: {error.message}", hint=error.hint) from None


def _verifier(given: Any, read: Read, where: str) -> Verifier:
    if not isinstance(given, list):
        raise SettingsError(f"{where}: issuers is no list of tables", hint="each begins with [[issuers]]")
    issuers = []
    for number, entry in enumerate(given, 1):
        position = f"{where}: issuer {number} of [[issuers]]"
        trusted = checked(TrustedIssuer, entry, position)
        try:
            key = read(trusted.key_file).strip()
        except OSError as error:
            raise SettingsError(f"{position}: key_file {trusted.key_file}: {error.strerror}") from None
        issuers.append(Issuer(trusted.issuer, trusted.audience, key, trusted.groups))
    return Verifier(tuple(issuers))
