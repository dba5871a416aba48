"""A real server with small collections, and a real Chromium that looks at its page."""

import asyncio
import json
import select
import shutil
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from hashlearn import ITQ, LSH, Collection, OpenHasher
from hashlearn.service.run import listen, new_server, url_of
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings

PATIENCE = 30
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOCAL_SCHEMES = ("data", "blob", "chrome", "chrome-untrusted")  # the last two are the page of a new tab
ROWS = 300
LONG_NAME = "average_customer_rating_overal"  # 30 letters
# Ids as texts may be: with signs that addresses, markup and JSON give a meaning, and long ones.
ODD_IDS = (
    "a/b/c.png",
    "what?k=1&id=2",
    "50 % #1",
    'it\'s "quoted" \\ back',
    "Zürich 東京 🦉",
    "<b>bold</b>",
    " spaces  around ",
    "17",
    "x" * 300,
    "a+b=c;d,e",
)
HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


def make_collections(folder):
    """Make collections: with pictures and vectors ("learned", "random"), of OpenHasher ("open"), of rows ("cards"),
    without rows ("empty"), of texts, of products, and with ids that are texts ("named") and UUIDs ("drawn")."""
    X, y = load_digits(return_X_y=True)
    X, y = (X[:ROWS] / 16).astype(np.float32), y[:ROWS]
    pictures = folder / "pictures"
    pictures.mkdir()
    for number, row in enumerate(X):
        Image.fromarray((row.reshape(8, 8) * 255).astype(np.uint8)).save(pictures / f"{number}.png")
    payload = [{"label": str(label), "even": bool(label % 2 == 0)} for label in y]
    for name, hasher in (("learned", ITQ(n_bits=32, random_state=0)), ("random", LSH(n_bits=24, random_state=0))):
        with Collection.create(folder / name, hasher.fit(X), store_vectors=True) as collection:
            collection.add(X, payload=payload)
        _show_pictures(folder, name, image_features="gray:8")
    with Collection.create(folder / "cards", n_bits=12) as collection:
        codes = np.random.default_rng(0).integers(0, 256, (40, 2), dtype=np.uint8) & np.array(
            [255, 240], dtype=np.uint8
        )
        rows = [{"labels": ["a", "bc"[i % 2]], "text": HOSTILE, HOSTILE: i} for i in range(40)]
        # Ids that numbers of JavaScript cannot hold.
        collection.add(codes=codes, ids=np.arange(40) + 2**62 + 1, payload=rows)
    Collection.create(folder / "empty", n_bits=16).close()
    with Collection.create(folder / "open", OpenHasher(n_bits=64, random_state=0).fit(X, y)) as collection:
        collection.add(X, labels=y, payload=payload)
    _make_texts(folder / "texts")
    _make_products(folder / "products")
    _make_named(folder, "named", "text", [*ODD_IDS, *(f"row {number}" for number in range(len(ODD_IDS), 40))])
    _make_named(folder, "drawn", "uuid", [uuid.UUID(int=2**100 + number) for number in range(40)])
    names = ("learned", "random", "cards", "empty", "texts", "products", "named", "drawn", "open")
    return [folder / name for name in names]


def _make_named(folder, name, kind, ids):
    """Rows whose ids are no numbers, with pictures."""
    codes, groups = _codes_of_groups(len(ids), 4, 32)
    payload = [{"label": f"g{group}", "image": f"{row}.png", "id": row} for row, group in enumerate(groups.tolist())]
    with Collection.create(folder / name, n_bits=32, ids=kind) as collection:
        collection.add(codes=codes, ids=ids, payload=payload)
    _show_pictures(folder, name)


def _show_pictures(folder, name, **display):
    """Give a collection its own copy of the pictures, because serve.json names no others."""
    shutil.copytree(folder / "pictures", folder / name / "pictures")
    (folder / name / "serve.json").write_text(json.dumps({"images": "pictures", **display}))


def _codes_of_groups(n_rows, n_groups, n_bits):
    """Packed codes of rows that lie near the code of their group, and the groups."""
    rng = np.random.default_rng(1)
    groups = np.arange(n_rows) % n_groups
    centers = rng.integers(0, 2, (n_groups, n_bits), dtype=np.uint8)
    return np.packbits(centers[groups] ^ (rng.random((n_rows, n_bits)) < 0.08), axis=1), groups


def _make_texts(folder):
    """Rows of text as people have them: a title, a text, short and long fields, and names of 30 letters."""
    intents = ("card_arrival", "exchange_rate", "lost_card", "top_up_failed")
    codes, groups = _codes_of_groups(200, len(intents), 32)
    rows = [
        {
            "title": f"Question {i} about {intents[group]}",
            "text": f"Hello, I wrote to you {i} days ago. " + "Where is my card, and what does the exchange cost? " * 6,
            "intent": intents[group],
            LONG_NAME: i,
            "channel": ("mail", "chat", "phone")[i % 3],
            "answer_given_by_the_support": "We are sorry to hear that. " * 80,
        }
        for i, group in enumerate(groups.tolist())
    ]
    with Collection.create(folder, n_bits=32) as collection:
        collection.add(codes=codes, payload=rows)


def _make_products(folder):
    """Rows of a shop: a name, numbers, a list and an object, and no long text."""
    kinds = ("shoe", "lamp", "book")
    codes, groups = _codes_of_groups(90, len(kinds), 24)
    rows = [
        {
            "name": f"{kinds[group].title()} number {i}",
            "label": kinds[group],
            "price": 5.0 + i,
            "in_stock": i % 4 > 0,
            LONG_NAME: round(1 + i % 40 / 10, 1),
            "tags": ["new", "sale"][: i % 3],
            "size": {"width": i % 7, "height": 3},
        }
        for i, group in enumerate(groups.tolist())
    ]
    with Collection.create(folder, n_bits=24) as collection:
        collection.add(codes=codes, payload=rows)


@contextmanager
def command(*arguments):
    """`hashlearn serve` in a process of its own; (its address, a function that ends it)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hashlearn", "serve", *map(str, arguments), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )

    def stop():
        process.terminate()
        process.wait(PATIENCE)

    try:
        assert select.select([process.stdout], [], [], 4 * PATIENCE)[0], "The server did not start."
        address = process.stdout.readline().strip().rstrip("/")
        assert address, "The server ended; its standard error says why."
        yield address, stop
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def serving(folders, port=0, texts=(), **settings):
    """The same server in a thread of this process, which starts sooner; its address. ``texts``: who take digits."""
    labels = {"texts": "intent"}  # of codes made elsewhere, which have no hasher that could tell it
    served = [open_collection(str(folder), label_field=labels.get(Path(folder).name)) for folder in folders]
    service = Service(served, ServerSettings(**settings))
    for name in texts:
        service.collections[name].texts = SpelledDigits()
    listening = listen("127.0.0.1", port)
    begun = threading.Event()
    server = new_server(service, begun.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        assert begun.wait(2 * PATIENCE), "The server did not begin."
        yield url_of(listening, service.settings).rstrip("/")
    finally:
        server.should_exit = True
        thread.join(2 * PATIENCE)
        assert not thread.is_alive(), "The server did not end."


class SpelledDigits:
    """A stand-in for a text model: "digit 17" is the picture of number 17."""

    def rows(self, texts):
        return (load_digits().data[[int(text.split()[-1]) for text in texts]] / 16).astype(np.float32)


class Page:
    """The explorer in the browser. Waiting always has an end."""

    def __init__(self, driver, base):
        self.driver = driver
        self.base = base

    def ask(self, path, body=None, kind="application/json"):
        """What the API answers, without the browser."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = Request(f"{self.base}/api/v1/collections{path}", data=data, headers={"Content-Type": kind})
        with urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, true, what):
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"Waited {PATIENCE} s for: {what}. The page says: {self.text('body')[:600]}"
            time.sleep(0.05)

    def open(self, address=""):
        """Open an address of the explorer and wait for what it shows."""
        self.driver.get(f"{self.base}/{address}")
        self.settle()

    def settle(self):
        ready = """const panes = [...document.querySelectorAll('.pane')];
                   return panes.length > 0 && panes.every(pane => pane.getAttribute('aria-busy') === 'false')"""
        self.until(lambda: self.js(ready), "panes at rest")
        # Results have no text for Chromium until it has drawn them (content-visibility in the style sheet).
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def hits(self, pane=0):
        """(id, distance, ✓ or ✗ or nothing) of every result of a pane."""
        script = """return [...document.querySelectorAll('.pane')[arguments[0]].querySelectorAll('.hit')].map(hit =>
                    [hit.dataset.id, Number(hit.dataset.distance), hit.querySelector('.verdict').textContent])"""
        return [tuple(hit) for hit in self.js(script, pane)]

    def ids(self, pane=0):
        return [number for number, _, _ in self.hits(pane)]

    def address(self):
        return dict(self.js("return [...new URLSearchParams(location.search)]"))

    def slide(self, name, value):
        """Move a slider as a hand does."""
        self._set(f"#{name}", value, "input")

    def choose_mode(self, mode):
        self._set(".mode", mode, "change")
        self.until(lambda: self.address().get("mode") == mode, "the mode in the address")
        self.settle()

    def choose_collection(self, name):
        self._set(".collection", name, "change")
        self.until(lambda: self.address().get("c") == name, "the collection in the address")
        self.settle()

    def _set(self, selector, value, event):
        script = """const node = document.querySelector(arguments[0]);
                    node.value = arguments[1];
                    node.dispatchEvent(new Event(arguments[2]))"""
        self.js(script, selector, value, event)

    def keys(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def width(self, width, height=900):
        settings = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", settings)

    def complaints(self):
        """What the console has said since the last look."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def asked_elsewhere(self):
        """Addresses outside the server that were asked for since the last look."""
        own = urlsplit(self.base).netloc
        seen = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                seen.append(message["params"]["request"]["url"])
        assert seen, "the log of requests is empty"
        return [url for url in seen if urlsplit(url).netloc != own and urlsplit(url).scheme not in LOCAL_SCHEMES]


def need_chromium():
    """The paths of Chromium and its driver; skips the test where they are not."""
    paths = shutil.which("chromium"), shutil.which("chromedriver")
    if None in paths:
        pytest.skip("chromium is not installed: apt-get install chromium chromium-driver")
    return paths


@contextmanager
def browser(folder, base):
    """A Page in a fresh Chromium."""
    chromium, driver = need_chromium()
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        running.set_script_timeout(PATIENCE)
        page = Page(running, base)
        page.width(1280)
        yield page
    finally:
        running.quit()
