"""Judge the MQTT gateway by the test suites that other projects publish, and count what passes.

    python scripts/mqtt_conformance.py --mosquitto mosquitto-2.0.11 --paho paho_mqtt-2.1.0

Both are source trees as their projects publish them (mosquitto's also as `apt-get source mosquitto`, paho's
as the source distribution of `paho-mqtt`). They are copied to a temporary folder and run there:

- mosquitto, `test/broker/*.py`: each script starts "mosquitto" on a port and compares packets byte for byte.
  It gets a broker of ours instead. An option of a script's configuration file that we do not have as such
  (plug-ins, bridges, password files of mosquitto's own) makes it *not applicable*, with the option named. Two
  things are changed in the copy, neither of them about the protocol: how long it waits for a broker to start,
  and that a CONNACK is compared by its flags and reason code, since its properties are each broker's own. If
  we differ where the standard leaves the behaviour open, or decides otherwise, the verdict is *left open*,
  with the reason; a script that passes anyway counts as passed.
- paho, `tests/test_mqttv5.py`: Eclipse's interoperability tests for MQTT 5, on paho's own client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# Options of mosquitto's configuration that mean the same as what we do anyway, or that say where to listen.
UNDERSTOOD = {"listener", "port", "allow_anonymous", "log_type", "per_listener_settings", "persistence"}
NOT_OURS = {
    "06": "mosquitto's bridges", "08": "mosquitto's TLS and PSK options", "09-plugin": "plug-ins",
    "09-extended-auth": "plug-ins", "14": "its plug-in for security", "10": "mount points",
}  # fmt: skip
# Behaviour that the standard leaves open, or decides otherwise than mosquitto 2.0.11 does.
REASON = "we end the connection with a DISCONNECT that says why; the script expects a bare end"
SUBSCRIBERS = "the script expects reason 0x10, which a server may give when nobody was subscribed"
LEVELS = "mosquitto takes 200 levels of a topic, we take 32"
OPEN = {
    "01-connect-connack-2163": REASON, "01-connect-duplicate": REASON, "02-subpub-qos1-bad-pubcomp": REASON,
    "02-subpub-qos1-bad-pubrec": REASON, "02-subpub-qos2-bad-puback-1": REASON,
    "02-subpub-qos2-bad-puback-2": REASON,
    "02-subpub-qos2-bad-pubcomp": REASON, "02-subpub-qos1-message-expiry-retain": SUBSCRIBERS,
    "03-publish-dollar-v5": SUBSCRIBERS, "03-publish-qos1-no-subscribers-v5": SUBSCRIBERS,
    "03-publish-qos1": SUBSCRIBERS, "04-retain-qos1-qos0": SUBSCRIBERS,
    "02-subpub-qos2": "the client's own message reaches it before PUBREC; no order is demanded",
    "test_subscribe_failure": "asks for a topic that its own server forbids",
    "test_subscription_identifiers": "each of two overlapping subscriptions brings it, as 3.3.4 allows",
    "07-will-delay": "a session that ends with its connection sends its will at once (3.1.3.2.2)",
    "07-will-delay-reconnect": "a session that ends with its connection sends its will at once (3.1.3.2.2)",
    "07-will-delay-recover": "Clean Start ends the session (3.1.2.4), and its end sends the will (3.1.3.2.2)",
    "07-will-takeover": "a will without a delay is sent when its connection is taken over (3.1.4)",
    "07-will-null-topic": "version 5 is told the reason in CONNACK; the script expects a bare end",
    "12-prop-maximum-packet-size-publish-qos1": "the script's packet has 21 bytes, and its client takes 20",
    "12-prop-maximum-packet-size-publish-qos2": "the script's packet has 21 bytes, and its client takes 20",
    "02-subpub-qos0-long-topic": LEVELS, "02-subscribe-long-topic": LEVELS, "03-publish-long-topic": LEVELS,
    "12-prop-subpub-payload-format": "0xED is no value of a payload format indicator",
    "03-publish-c2b-disconnect-qos2": "PUBCOMP says that the packet id is no longer known (3.7.2.1)",
    "12-prop-topic-alias-invalid": "mosquitto takes 10 topic aliases, we take 32",
    "13-malformed-subscribe-v5": "SUBSCRIBE to nothing is a protocol error (3.8.3), not a malformed packet",
    "13-malformed-unsubscribe-v5": "a filter that cannot be is answered in UNSUBACK",
    "12-prop-assigned-client-identifier": "the script compares the bytes of mosquitto's own properties",
    "07-will-properties": "properties come in another order, which means nothing",
}  # fmt: skip
BROKEN = {
    "02-subpub-qos1-message-expiry": "NameError in the script",
    "03-publish-qos1-queued-bytes": "for Python 2",
}
COMPARED = """

def _whole_packet(sock):
    data = sock.recv(2)
    if len(data) == 2 and data[1] < 128:
        while len(data) < 2 + data[1]:
            more = sock.recv(2 + data[1] - len(data))
            if not more:
                break
            data += more
    return data


_expect_exactly = expect_packet


def expect_packet(sock, name, expected):
    if len(expected) > 5 and expected[0] == 0x20:
        received = _whole_packet(sock)
        if received[:1] == expected[:1] and received[2:4] == expected[2:4]:
            return True
        packet_matches(name, received, expected)
        raise TestError
    return _expect_exactly(sock, name, expected)
"""


# -- a broker of ours, told what mosquitto is told


async def serve(port: int, *, anonymous: bool = True) -> None:
    from tidings.gateway.listeners import Gateways
    from tidings.runtime.service import Service
    from tidings.runtime.settings import BrokerSettings, GatewaySettings, LogSettings, SecuritySettings

    nobody = Path(tempfile.mkdtemp(prefix="tidings-mqtt-")) / "users.toml"
    nobody.write_text("[users]\n")
    settings = BrokerSettings(
        name="judged",
        listen="127.0.0.1:0",
        security=SecuritySettings(anonymous=True) if anonymous else SecuritySettings(users=str(nobody)),
        gateway=GatewaySettings(mqtt=f"localhost:{port}"),
        log=LogSettings(level="error"),
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Service(settings, gateways=Gateways):
        print("serving", flush=True)
        await stop.wait()


def stand_in(arguments: list[str]) -> None:
    """Program that mosquitto's scripts start: `-p PORT`, or `-c FILE`."""
    port, anonymous = 1888, True
    if "-p" in arguments:
        port = int(arguments[arguments.index("-p") + 1])
    if "-c" in arguments:
        words = [line.split() for line in Path(arguments[arguments.index("-c") + 1]).read_text().splitlines()]
        options = [each for each in words if each and not each[0].startswith("#")]
        unknown = sorted({each[0] for each in options} - UNDERSTOOD)
        if unknown:
            print(f"NOT APPLICABLE: {', '.join(unknown)}", file=sys.stderr)
            Path("not-applicable").write_text(", ".join(unknown))
            sys.exit(3)
        anonymous = ["allow_anonymous", "true"] in options
        port = next((int(each[1]) for each in options if each[0] in ("listener", "port")), port)
    asyncio.run(serve(port, anonymous=anonymous))


# -- mosquitto's suite


def mosquitto(tree: Path, only: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tidings-mqtt-") as folder:
        path = Path(folder)
        shutil.copytree(tree / "test", path / "test")
        (path / "src").mkdir()
        program = path / "src" / "mosquitto"
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" --stand-in "$@"\n'
        )
        program.chmod(0o755)
        helper = path / "test" / "mosq_test.py"
        changed = helper.read_text().replace("range(0, 20)", "range(0, 300)")
        helper.write_text(changed.replace("def receive_unordered", COMPARED + "\n\ndef receive_unordered", 1))
        found = []
        for script in sorted((path / "test" / "broker").glob("[0-9]*.py")):
            if not script.name.endswith("helper.py") and re.search(only, script.name):
                found.append({"suite": "mosquitto", "test": script.stem, **one_script(script)})
                print(f"{found[-1]['verdict']:>15}  {script.stem}  {found[-1]['why'][:110]}", flush=True)
        return found


def one_script(script: Path) -> dict[str, str]:
    reason = next((why for prefix, why in NOT_OURS.items() if script.name.startswith(prefix)), None)
    reason = reason or BROKEN.get(script.stem)
    if reason:
        return {"verdict": "not applicable", "why": reason}
    (script.parent / "not-applicable").unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, script.name],
            cwd=script.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        code, stated = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        code, stated = 1, "took longer than a minute"
    if (script.parent / "not-applicable").exists():
        return {"verdict": "not applicable", "why": (script.parent / "not-applicable").read_text()}
    lines = [line for line in stated.splitlines() if re.match("FAIL|Received|Expected|.*Error", line)]
    if code and script.stem in OPEN:
        return {"verdict": "left open", "why": OPEN[script.stem]}
    return {"verdict": "failed" if code else "passed", "why": " | ".join(lines) if code else ""}


# -- paho's suite

CONFTEST = """
import os, sys, types
server = types.SimpleNamespace(
    socket=types.SimpleNamespace(getsockname=lambda: ("localhost", int(os.environ["JUDGED_PORT"]))),
    shutdown=lambda: None,
)
brokers = types.ModuleType("mqtt.brokers")
brokers.run = lambda config: None
brokers.listeners = types.SimpleNamespace(TCPListeners=types.SimpleNamespace(server=server))
mqtt = types.ModuleType("mqtt")
mqtt.brokers = brokers
sys.modules["mqtt"], sys.modules["mqtt.brokers"] = mqtt, brokers
"""


def paho(tree: Path, only: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tidings-mqtt-") as folder:
        shutil.copy(tree / "tests" / "test_mqttv5.py", folder)
        (Path(folder) / "conftest.py").write_text(CONFTEST)
        port = free_port()
        broker = subprocess.Popen(
            [sys.executable, __file__, "--stand-in", "-p", str(port)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert broker.stdout is not None
            if (stated := broker.stdout.readline()) != "serving\n":
                raise SystemExit(f"the stand-in of a broker did not start: {stated!r}")
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=line", "-k",
                    only or "test"],
                cwd=folder, env={**os.environ, "JUDGED_PORT": str(port)}, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
        finally:
            broker.terminate()
            broker.wait()
    print(done.stdout[-3000:])
    verdicts = re.findall(r"::(test_\w+) (PASSED|FAILED|SKIPPED|ERROR)", done.stdout)
    return [_of_paho(name, verdict.lower()) for name, verdict in verdicts]


def _of_paho(name: str, verdict: str) -> dict[str, str]:
    if verdict == "failed" and name in OPEN:
        return {"suite": "paho", "test": name, "verdict": "left open", "why": OPEN[name]}
    return {"suite": "paho", "test": name, "verdict": verdict, "why": ""}


def free_port() -> int:
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def main() -> None:
    if sys.argv[1:2] == ["--stand-in"]:
        return stand_in(sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mosquitto", type=Path, help="mosquitto's source tree")
    parser.add_argument("--paho", type=Path, help="paho-mqtt's source tree")
    parser.add_argument("--only", default="", help="a pattern for the names of tests")
    parser.add_argument("--json", type=Path, help="write every verdict to this file")
    wanted = parser.parse_args()
    if not (wanted.mosquitto or wanted.paho):
        parser.error("say where a suite lies: --mosquitto DIR, --paho DIR")
    found = mosquitto(wanted.mosquitto, wanted.only) if wanted.mosquitto else []
    found += paho(wanted.paho, wanted.only) if wanted.paho else []
    for suite in dict.fromkeys(each["suite"] for each in found):
        verdicts = [each["verdict"] for each in found if each["suite"] == suite]
        print(f"{suite}: " + ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)))
    if wanted.json:
        wanted.json.write_text(json.dumps(found, indent=1))
    sys.exit(any(each["verdict"] in ("failed", "error") for each in found))


if __name__ == "__main__":
    main()
