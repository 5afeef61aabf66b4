// The explorer in a report, without a kernel: the answers to its requests are in the file.

const data = JSON.parse(document.getElementById("agf-answers").textContent);
const UNSENT = new Set(["width", "height", "order", "text"]); // a report has one size of pictures, one order of calls
const listeners = new Set();
later = Promise.resolve(laterViews(FOR_LATER)); // its policy forbids to load them

// As `key_of` in report.py.
function keyOf(name, given) {
  return JSON.stringify([name, ...Object.keys(given).sort().filter(key => !UNSENT.has(key)).map(key => [key, given[key]])]);
}

function answer({ mark, do: name, id, with: given }) {
  if (name === "runs") return { type: "runs", runs: data.runs };
  return { type: "reply", mark, id, ...(data.answers[keyOf(name, given)] ?? { ok: false, why: data.missing }) };
}

const model = {
  get: () => data.runs,
  on(event, listener) { if (event === "msg:custom") listeners.add(listener); },
  send(message) { setTimeout(() => { for (const listener of listeners) listener(answer(message)); }); },
};

const dark = matchMedia("(prefers-color-scheme: dark)"), follow = () => { document.body.dataset.jpThemeLight = String(!dark.matches); };
dark.addEventListener("change", follow);
follow();
const toggle = document.getElementById("agf-toggle");
toggle.hidden = false;
toggle.addEventListener("click", () => {
  const isExplorer = document.documentElement.classList.toggle("explorer");
  toggle.textContent = isExplorer ? "Show everything on one page" : "Show the explorer";
});
document.documentElement.classList.add("explorer");
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("#agf-page details")) part.open = true; });
ours.initialize({ model });
