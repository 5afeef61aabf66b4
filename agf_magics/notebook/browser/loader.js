// The script of the explorer is large, so a page gets it once: the first explorer of a kernel brings it, and any later one
// takes it from there. A page that lacks it, as after it was loaded again, asks the kernel.

const AFTER = [100, 400, 1900, 6900]; // milliseconds: the first message may go to the shell that waits for a cell

function load(model) {
  return globalThis["$NAME"] ?? (globalThis["$NAME loading"] ??= new Promise(resolve => {
    model.on("msg:custom", async ({ id, ok, value }) => {
      if (id !== "script" || !ok) return;
      const url = URL.createObjectURL(new Blob([value], { type: "text/javascript" }));
      if (!globalThis["$NAME"]) await import(url);
      resolve(globalThis["$NAME"]);
    });
    const ask = () => globalThis["$NAME"] ? resolve(globalThis["$NAME"]) : model.send({ do: "script", id: "script", with: {} });
    for (const after of AFTER) setTimeout(ask, after);
  }));
}

export default {
  async initialize(given) { return (await load(given.model)).initialize(given); },
  async render(given) { return (await load(given.model)).render(given); },
};
