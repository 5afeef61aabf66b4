// Notices about a background run that is out of sight, wherever the notebook is scrolled: JupyterLab shows them where its extension is
// installed, otherwise a box in the corner of the page. The browser's own come only after a click on the bell.

const SHOWN = 10000; // milliseconds that news stays, unless it is bad or asks for an answer
const LOOK = 500; // milliseconds between two looks whether a run with a notice is in sight
const KINDS = { ok: "success", dropped: "warning" }; // by the status of a run that has ended
const FEW = 3; // choices of a question that are buttons of its notice
const PASSING = new Set(["success"]);
const BELL = "M8 1.5a4.3 4.3 0 0 0-4.3 4.3v3L2.2 11.3h11.6l-1.5-2.5v-3A4.3 4.3 0 0 0 8 1.5zM6.3 12.5a1.7 1.7 0 0 0 3.4 0z";

// What is shown now, by the run, and then by the question or the text: all views of a run share its notices.
const NOTICES = new Map();

class Notices {
  constructor(state) {
    this.state = state;
    this.runId = null;
    this.shown = new Map();
  }

  // What is new since the last look at the run.
  look() {
    const { last, runId, notices } = this.state, questions = (last.questions ?? []).map(question => question.text);
    const isSame = runId === this.runId, wasLive = isSame ? this.wasLive : notices === "news", known = isSame ? this.questions : []; // an open question is shown again after a reload
    if (!isSame || last.live && !wasLive) this.clear(); // it goes on: its end is no news
    if (!NOTICES.has(runId)) NOTICES.set(runId, new Map());
    Object.assign(this, { runId, wasLive: last.live, questions, shown: NOTICES.get(runId) });
    if (!notices) return;
    const status = this.state.byName.get(last.status), name = this.isReplaced ? runId : this.state.name;
    this.clear(({ question }) => question && !questions.includes(question));
    if (wasLive && !last.live) {
      const dropped = last.dropped ? `, ${number(last.dropped)} dropped` : "", words = [name, status ? `${status.mark} ${status.word}${dropped}` : last.status, last.why].filter(Boolean).join(" · ");
      if (last.status !== "cancelled") this.show(words, KINDS[last.status] ?? "error"); // somebody did that, and knows it
    } else for (const question of last.questions ?? []) if (!known.includes(question.text)) this.show(`${name} · ? ${question.text}`, "warning", question.text, this.choices(question));
  }

  // The choices of a question, if they are few: a label, and what answers it.
  choices({ choices, approval, where, mark }) {
    if (choices.length > FEW || !(this.state.last.can ?? []).includes("answer")) return [];
    const give = answer => this.state.request("answer", { where, mark, ...answer }).catch(() => {});
    return choices.map((label, choice) => ({ label, callback: () => give(approval ? { text: label } : { choice }) }));
  }

  get views() { return [...states.values()].filter(({ runId }) => runId === this.state.runId).flatMap(({ views }) => [...views]); }

  // Whether a person sees the run in one of its views: the line with its state, below which is the field for an answer; of its end, also
  // a good part of what is below.
  isSeen(question) {
    return !document.hidden && this.views.some(({ host, title, box }) => {
      const line = title.getBoundingClientRect(), { left, top, width, height } = box.getBoundingClientRect();
      const isAt = (x, y) => document.elementFromPoint(x, y) === host;
      return isAt(line.left + Math.min(line.width, 40) / 2, line.top + line.height / 2) || !question && [1, 2, 3].some(part => isAt(left + width / 2, top + height * part / 4));
    });
  }

  // The cell ran again while its run waits: the notice of the new run stands for both, and `%runs` has the old one.
  lookForOther() {
    const { views } = this;
    if (!views.length) return;
    this.cell = views.at(-1).cell;
    this.isReplaced = !views.some(({ host }) => host.isConnected) && this.cell?.isConnected && this.cell.querySelector(".agf-run") != null;
    if (this.isReplaced) this.clear();
  }

  clear(isOver = () => true) {
    for (const [key, notice] of this.shown) {
      if (!isOver(notice)) continue;
      notice.dismiss();
      this.shown.delete(key);
    }
  }

  // A notice goes when a person looks at its run.
  show(text, kind, question = "", choices = []) {
    if (this.shown.has(question || text) || this.isSeen(question)) return;
    const find = () => this.views.map(view => view.host).find(host => host.isConnected);
    const host = find(), { cell } = this, go = () => (find() ?? cell)?.scrollIntoView({ block: "center", behavior: "smooth" });
    const event = new CustomEvent("agf-notice", { bubbles: true, composed: true, cancelable: true, detail: { text, kind, go, choices, milliseconds: PASSING.has(kind) ? SHOWN : 0 } });
    (host ?? document).dispatchEvent(event);
    if (document.hidden && globalThis.Notification?.permission === "granted") new Notification(text, { tag: this.runId });
    this.shown.set(question || text, { question, dismiss: event.defaultPrevented ? event.detail.dismiss ?? (() => {}) : toast(text, kind, go, choices) });
    this.watch ??= setInterval(() => {
      this.clear(({ question }) => this.isSeen(question));
      if (!this.shown.size) this.watch = clearInterval(this.watch);
    }, LOOK);
  }
}

const droppedWords = count => `${number(count)} failed and dropped`;

// A box in the corner of the page, above everything.
function toast(text, kind, go, choices) {
  let corner = document.getElementById("agf-notices");
  if (!corner) {
    corner = element("div", { id: "agf-notices" });
    corner.attachShadow({ mode: "open" }).append(element("style", {}, STYLE), element("div", { class: "notices" }));
    document.body.append(corner);
  }
  const box = element("div", { class: `notice ${kind}`, role: PASSING.has(kind) ? "status" : "alert" }, element("span", {}, text),
    choices.map(({ label, callback }) => button(label, () => { callback(); box.remove(); })), button("Show", () => { go(); box.remove(); }), button("×", () => box.remove(), { "aria-label": "Close" }));
  corner.shadowRoot.lastElementChild.append(box);
  if (PASSING.has(kind)) setTimeout(() => box.remove(), SHOWN);
  return () => box.remove();
}

// The button that asks for the browser's permission; only a click of a person asks.
function bell() {
  const sign = svgElement("svg", { viewBox: "0 0 16 16", width: 14, height: 14, fill: "currentColor", "aria-hidden": "true" });
  sign.append(svgElement("path", { d: BELL }));
  return button(sign, async event => { event.currentTarget.hidden = await globalThis.Notification.requestPermission() !== "default"; },
    { hidden: true, title: "Also notify me through the browser when another window is in front", "aria-label": "Notify me through the browser" });
}
