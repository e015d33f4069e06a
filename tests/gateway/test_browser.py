"""A browser as a client: MQTT.js, as its project publishes it, over WebSocket in Chromium."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.gateway.conftest import broker
from tests.gateway.test_mqtt import client, heard, run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# `make setup` brings it there, by npm; it is not ours, so it is not among our files
LIBRARY = Path(os.environ.get("TIDINGS_MQTT_JS", Path(sys.prefix) / "mqtt.min.js"))

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(
        not LIBRARY.exists(), reason="MQTT.js is not there: apt-get install npm, then make setup"
    ),
]

# what a page does: subscribe with a content filter, publish, collect what it hears
PAGE = """
([address, version]) => new Promise((resolve, reject) => {
  const heard = [];
  const client = mqtt.connect(address, {protocolVersion: version, clientId: 'page', reconnectPeriod: 0});
  client.on('error', error => reject(error));
  client.on('message', (topic, payload) => {
    heard.push([topic, payload.toString()]);
    if (payload.toString().includes('end')) client.end(false, () => resolve(heard));
  });
  client.on('connect', async () => {
    const options = version === 5
      ? {qos: 1, properties: {userProperties: {filter: 'price > 100 OR end = TRUE'}}} : {qos: 1};
    const granted = await client.subscribeAsync('quotes/#', options);
    heard.push(['granted', String(granted[0].qos)]);
    for (const price of [99, 131]) await client.publishAsync('quotes/IBM', JSON.stringify({price}), {qos: 2});
    await client.publishAsync('quotes/end', JSON.stringify({end: true}), {qos: 1});
  });
})
"""


@pytest.mark.parametrize("version", [4, 5], ids=["v311", "v5"])
def test_mqtt_js_in_a_page(version: int) -> None:
    async def test() -> None:
        from playwright.async_api import async_playwright

        async with (
            broker(mqtt="127.0.0.1:0", mqtt_websocket="127.0.0.1:0", origins=("null",)) as service,
            async_playwright() as playwright,
        ):
            assert service.gateways is not None
            gateways: Any = service.gateways.addresses
            plain = urlsplit(gateways["mqtt"]).port
            assert plain is not None
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            async with client(plain, "elsewhere") as elsewhere:
                await elsewhere.subscribe("quotes/IBM")
                page = await browser.new_page()
                await page.add_script_tag(path=LIBRARY)
                found = await page.evaluate(PAGE, [gateways["mqtt over websocket"], version])
                cheap = [] if version == 5 else [["quotes/IBM", '{"price":99}']]
                dear, end = ["quotes/IBM", '{"price":131}'], ["quotes/end", '{"end":true}']
                assert found == [["granted", "1"], *cheap, dear, end]
                delivered = [message.payload for message in await heard(elsewhere, 2)]
                assert delivered == [b'{"price":99}', b'{"price":131}']
            await browser.close()

    run(test)
