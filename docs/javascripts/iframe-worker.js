// Search without a server. Browsers start no worker from a file on disk, so there the worker's script runs in a hidden frame,
// where its messages are exchanged by events. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => this.start(new URL(url, location).href, resolve);
      });
      document.body.append(this.frame);
    }

    start(url, resolve) {
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) => urls.reduce((done, each) => done.then(() => load(inner, each)), Promise.resolve());
      load(inner, url).then(resolve);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };

  const load = (inner, url) =>
    new Promise((resolve, reject) => {
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      inner.document.body.append(script);
    });

  window.Worker = window.IFrameWorker;
}
