// The explorer draws over each element of its class, wherever and whenever the document shows one. The static page in the
// element is hidden by the shadow root, and shown again when the kernel closes the model.

const FORGET = 60000; // milliseconds after which the view of an element that left the document is closed

// `render` gets another model object than `initialize`, and its subscriptions end with the view: so the first one is used.
const states = new Map();

function stateOf(model) {
  const mark = model.get("mark");
  if (!states.has(mark)) states.set(mark, new RunState(model));
  return states.get(mark);
}

function mount(model) {
  const hosts = document.getElementsByClassName(model.get("mark")), views = new Map();
  const look = () => {
    for (const host of hosts) {
      if (views.has(host)) continue;
      const left = [...views].find(([other, view]) => !other.isConnected && view.hasFocus);
      const view = new Explorer(stateOf(model), host);
      views.set(host, view);
      if (!left) continue;
      left[1].hasFocus = false;
      if (document.activeElement && document.activeElement !== document.body) continue; // the person works elsewhere by now
      (host.shadowRoot.querySelector("[role=tree]") ?? host.shadowRoot.querySelector("button")).focus({ preventScroll: true });
    }
    for (const [host, view] of views) {
      if (host.isConnected) view.lost = undefined;
      else if (performance.now() - (view.lost ??= performance.now()) > FORGET) {
        view.close();
        views.delete(host);
      }
    }
  };
  let due = 0;
  const observer = new MutationObserver(() => { due ||= requestAnimationFrame(() => { due = 0; look(); }); });
  observer.observe(document.body, { childList: true, subtree: true });
  look();
  return () => {
    observer.disconnect();
    for (const [host, view] of views) {
      view.close();
      host.shadowRoot.replaceChildren(element("slot"));
      delete host.dataset.lmSuppressShortcuts;
    }
    views.clear();
    states.delete(model.get("mark"));
  };
}

const ours = {
  initialize({ model }) {
    const unmount = mount(model);
    model.on("comm:close", unmount);
    model.on("comm_live_update", unmount);
    return unmount;
  },
  render({ model, el: host }) {
    const view = new Explorer(stateOf(model), host);
    return () => view.close();
  },
};
