// The live stream: what all brokers say, each second. Pages ask for `last`, `totals` and `changes`.

const KEPT = 600;
const HIDDEN_MS = 20000;

class Live extends EventTarget {
  state = "waiting";
  last = null;
  totals = [];
  changes = [];
  #source = null;
  #seenAt = 0;

  open() {
    this.close();
    const source = this.#source = new EventSource("/api/live");
    source.addEventListener("past", (event) => {
      const past = JSON.parse(event.data);
      this.totals = past.totals;
      this.changes = past.changes;
      this.#become("live");
      this.#tell("past");
    });
    source.addEventListener("tick", (event) => {
      const tick = JSON.parse(event.data);
      if (this.last && this.last.time === tick.time) return;
      this.last = tick;
      const newest = this.totals.at(-1);
      if (!newest || newest.time < tick.total.time) this.totals.push(tick.total);
      if (this.totals.length > KEPT) this.totals.splice(0, this.totals.length - KEPT);
      const known = new Set(this.changes.slice(-60).map((each) => each.time + each.text));
      for (const change of tick.changes) if (!known.has(change.time + change.text)) this.changes.push(change);
      this.#seenAt = performance.now();
      this.#become("live");
      this.#tell("tick");
    });
    source.addEventListener("error", () => this.#become(source.readyState === EventSource.CLOSED ? "lost" : "waiting"));
    if (!this.watching) {
      this.watching = setInterval(() => this.#look(), 2000);
      document.addEventListener("visibilitychange", () => this.#seen());
    }
  }

  // A stream that was ended for good is tried again; one that is silent is said to be.
  #look() {
    if (!this.#source) return;
    if (this.#source.readyState === EventSource.CLOSED) this.open();
    else if (this.state === "live" && performance.now() - this.#seenAt > 8000) this.#become("waiting");
  }

  // A hidden page closes its connection: a browser has few for one host, and brokers have other work.
  #seen() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.close(), HIDDEN_MS);
    else if (!this.#source) this.open();
  }

  close() {
    if (this.#source) this.#source.close();
    this.#source = null;
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.#tell("state");
  }

  #tell(name) {
    this.dispatchEvent(new Event(name));
  }
}

export const live = new Live();
