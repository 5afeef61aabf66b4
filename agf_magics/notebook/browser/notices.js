// Notices about a background run, wherever the notebook is scrolled: JupyterLab shows them where its extension is
// installed, otherwise a box in the corner of the page. The browser's own come only after a click on the bell.

const SHOWN = 10000; // milliseconds that good news stays
const BELL = "🔔";

class Notices {
  constructor(state) {
    this.state = state;
    this.runId = null;
  }

  // What is new since the last look at the run.
  look() {
    const { last, runId, notices } = this.state, questions = (last.questions ?? []).map(question => question.text);
    const isSame = runId === this.runId, wasLive = isSame && this.wasLive, known = isSame ? this.questions : []; // an open question is shown again after a reload
    Object.assign(this, { runId, wasLive: last.live, questions });
    if (!notices) return;
    const status = this.state.byName.get(last.status), name = this.state.name;
    if (wasLive && !last.live) this.show(`${name}: ${status ? `${status.mark} ${status.word}` : last.status}`, last.status === "ok" ? "success" : "error");
    else for (const text of questions) if (!known.includes(text)) this.show(`${name} asks: ${text}`, "warning");
  }

  show(text, kind) {
    const find = () => [...this.state.views].map(view => view.host).find(host => host.isConnected);
    const host = find(), go = () => find()?.scrollIntoView({ block: "center", behavior: "smooth" });
    const event = new CustomEvent("agf-notice", { bubbles: true, composed: true, cancelable: true, detail: { text, kind, go, milliseconds: kind === "success" ? SHOWN : 0 } });
    (host ?? document).dispatchEvent(event);
    if (!event.defaultPrevented) toast(text, kind, go);
    if (document.hidden && globalThis.Notification?.permission === "granted") new Notification(text, { tag: this.runId });
  }
}

// A box in the corner of the page, above everything.
function toast(text, kind, go) {
  let corner = document.getElementById("agf-notices");
  if (!corner) {
    corner = element("div", { id: "agf-notices" });
    corner.attachShadow({ mode: "open" }).append(element("style", {}, STYLE), element("div", { class: "notices" }));
    document.body.append(corner);
  }
  const box = element("div", { class: `notice ${kind}`, role: kind === "success" ? "status" : "alert" }, element("span", {}, text),
    button("Show", () => { go(); box.remove(); }), button("×", () => box.remove(), { "aria-label": "Close" }));
  corner.shadowRoot.lastElementChild.append(box);
  if (kind === "success") setTimeout(() => box.remove(), SHOWN);
}

// The button that asks for the browser's permission; only a click of a person asks.
function bell() {
  return button(BELL, async event => { event.target.hidden = await globalThis.Notification.requestPermission() !== "default"; },
    { hidden: true, title: "Also notify me through the browser when another window is in front", "aria-label": "Notify me through the browser" });
}
