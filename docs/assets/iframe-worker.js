/* Search without a server: browsers start no Worker from a file:// page, so the search script of the theme runs
   in a hidden frame of this page instead. Over HTTP this file does nothing. */
(() => {
  if (location.protocol !== "file:") return
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.appendChild(this.frame)
      const inner = this.frame.contentWindow
      inner.document.open()
      inner.document.write("<!doctype html><html><body></body></html>")
      inner.document.close()
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inner.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(inner, each)), Promise.resolve())
      this.ready = load(inner, url)
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    addEventListener(...given) {
      super.addEventListener(...given)
    }
    terminate() {
      this.frame.remove()
    }
  }
  function load(inner, url) {
    return new Promise((done, failed) => {
      const script = inner.document.createElement("script")
      script.src = url
      script.onload = () => done()
      script.onerror = () => failed(new Error(`cannot load ${url}`))
      inner.document.body.appendChild(script)
    })
  }
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
})()
