"""Types of seeded defects, and the tests that look after each package or promise."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    file: str  # below src/tidings
    old: str
    new: str
    by: tuple[str, ...] = ()  # the tests that have to find it; none: those of its package

    @property
    def name(self) -> str:
        words = "".join(c if c.isalnum() else "-" for c in f"{self.file.removesuffix('.py')} {self.new}")
        return "-".join(part for part in words.split("-") if part)[:90]


# Seeds of the wide world: those that found a defect once, then the 200 of the default suite.
RUNS = ("tests/unit/protocol/recovery/test_runs.py",)
WIDE = ("tests/simulation/test_wide_findings.py", "tests/simulation/test_wide_seeds.py")

# Named tests of what processes, disks and gateways promise.
SCHEMAS = (
    "tests/unit/model/test_schemas.py",
    "tests/unit/model/test_schema_changes.py",
    "tests/properties/test_json_schemas.py",
)
GROUP_RETURNS = (
    "tests/unit/protocol/delivery/test_group_returns.py",
    "tests/properties/test_group_restarts.py",
)
COMMITTING = ("tests/unit/protocol/test_committing.py",)
AUDIT = ("tests/unit/runtime/test_audit_file.py",)
CONSOLE = ("tests/unit/console/test_app.py",)
ORIGINS = ("tests/gateway/test_origins.py",)
EXCHANGES = ("tests/gateway/test_exchanges.py", "tests/chaos/test_mqtt_kill.py")
SHARED = ("tests/gateway/test_shares.py", "tests/chaos/test_mqtt_share_kill.py")
ENDING = (
    "tests/unit/runtime/test_sessions.py",
    "tests/gateway/test_ending.py",
    "tests/unit/runtime/test_revocation.py",
)
GUESSING = ("tests/unit/security/test_attempts.py", "tests/gateway/test_guessing.py")
CONFIRMING = ("tests/gateway/test_confirming.py",)
UNDECIDED = ("tests/gateway/test_undecided.py",)
SLOW = ("tests/unit/runtime/test_admission.py", "tests/gateway/test_slow.py")
POISON = ("tests/gateway/test_poison.py",)
CHANNEL = ("tests/unit/runtime/test_local_channel.py",)
STREAMS = ("tests/gateway/test_mqtt_streams.py",)
RETURNING = ("tests/gateway/test_mqtt_returning.py",)
HANGING = ("tests/gateway/test_mqtt_hanging.py",)
STANDARD = (
    "tests/gateway/test_mqtt_standard.py",
    "tests/gateway/test_mqtt_wills.py",
    "tests/gateway/test_mqtt_headers.py",
)
FLOODS = ("tests/gateway/test_floods.py",)
INBOXES = ("tests/unit/security/test_inboxes.py", "tests/gateway/test_inboxes.py")
BOUNDS = ("tests/unit/runtime/test_client_bounds.py",)
UNFINISHED = ("tests/unit/runtime/test_unfinished.py",)
TRIALS = ("tests/gateway/test_trials.py", "tests/unit/matching/test_explain.py")
PACED = ("tests/gateway/test_paced.py",)
FAIRNESS = ("tests/unit/runtime/test_fairness.py",)
PARSING = ("tests/unit/language/test_limits.py",)
OWNERS = ("tests/unit/runtime/test_owners.py",)
BYTES = ("tests/unit/runtime/test_byte_quotas.py",)
WORK = ("tests/unit/language/test_limits.py", "tests/properties/test_work_budget.py")
OBSERVING = ("tests/unit/runtime/test_observing.py", "tests/gateway/test_rights.py")
ROLLBACK = ("tests/simulation/test_tidings_rollback.py",)
CYCLES = ("tests/simulation/test_tidings_cycles.py",)
SUPERSEDED = ("tests/simulation/test_tidings_superseded.py",)
RECALL = ("tests/simulation/test_tidings_recall.py",)
RESTARTS = ("tests/simulation/test_tidings_recall_restarts.py",)
OLD_DISK = (
    "tests/unit/protocol/membership/test_agreed.py",
    "tests/unit/protocol/recovery/test_group_log.py",
    "tests/simulation/test_group.py",
)
FULL_GROUP = ("tests/unit/protocol/recovery/test_group_log.py", "tests/simulation/test_full_disks.py")
GROUP_LOG = ("tests/unit/protocol/recovery/test_group_log.py", *WIDE)
GAPS = ("tests/simulation/test_tidings_gaps.py", *WIDE)
AS_IT_LEFT = ("tests/unit/model/test_body_as_it_left.py",)
BATCHES = ("tests/unit/protocol/test_batches.py", *WIDE)
CLOCKS = ("tests/simulation/test_tidings_clocks.py", *WIDE)
FULL_DISK = ("tests/simulation/test_full_disks.py", *WIDE)
GUARD = ("tests/unit/security/test_authorization.py", *WIDE)
DOOR = ("tests/unit/runtime/test_client_ingress.py", *WIDE)
LATE_COMMITS = ("tests/properties/test_late_commits.py", "tests/unit/protocol/test_committing.py")
LIFETIMES = ("tests/unit/protocol/test_lifetimes.py", *WIDE)
BACKUPS = ("tests/unit/store/test_backup.py", "tests/unit/runtime/test_backups.py")
FAILING = ("tests/unit/protocol/test_failing_filters.py",)
OWNER_WORK = ("tests/unit/protocol/test_owner_work.py", "tests/properties/test_work_budget.py")
COMPUTING = ("tests/unit/protocol/test_computing.py",)
KEEPING = ("tests/simulation/test_group.py", *WIDE)

PACKAGES: dict[str, tuple[str, ...]] = {
    "language": ("tests/unit/language", "tests/properties/test_normal_form.py",
        "tests/properties/test_language_*.py", "tests/conformance/test_cesql.py"),
    "algebra": ("tests/unit/algebra", "tests/properties/test_algebra_*.py"),
    "matching": ("tests/unit/matching", "tests/properties/test_matching_*.py"),
    "availability": ("tests/unit/availability", "tests/unit/protocol", "tests/properties/test_embedded_*.py",
        "tests/simulation/test_tidings_*.py"),
    "store": ("tests/unit/store", "tests/chaos/test_store_kill.py", "tests/chaos/test_store_rot.py"),
    "security": ("tests/unit/security", "tests/properties/test_security_*.py",
        "tests/unit/runtime/test_attacks.py", "tests/unit/runtime/test_client_ingress.py"),
    "wire": ("tests/unit/wire", "tests/properties/test_wire_*.py"),
    "protocol": ("tests/unit/protocol", "tests/simulation/test_tidings_*.py",
        "tests/properties/test_embedded_*.py", "tests/scenarios", "tests/simulation/test_seeds.py"),
    "model": ("tests/unit/model", "tests/unit/language"),
}  # fmt: skip
