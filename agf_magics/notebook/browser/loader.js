// The script of the explorer is large, so a page gets it once, packed: the first explorer of a kernel brings it, and any later
// one takes it from there. A page that lacks it, as after it was loaded again, asks the kernel.

const PACKED = "$PACKED";
const AFTER = [100, 400, 1900, 6900]; // milliseconds: the first message may go to the shell that waits for a cell

async function unpack(packed) {
  if (globalThis["$NAME"]) return;
  const bytes = Uint8Array.from(atob(packed), char => char.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  await import(url);
  URL.revokeObjectURL(url);
}

function load(model) {
  return globalThis["$NAME"] ?? (globalThis["$NAME loading"] ??= new Promise(resolve => {
    const take = packed => unpack(packed).then(() => resolve(globalThis["$NAME"]));
    if (PACKED) return take(PACKED);
    model.on("msg:custom", ({ id, ok, value }) => id === "script" && ok && take(value));
    const ask = () => globalThis["$NAME"] ? resolve(globalThis["$NAME"]) : model.send({ do: "script", id: "script", with: {} });
    for (const after of AFTER) setTimeout(ask, after);
  }));
}

export default {
  async initialize(given) { return (await load(given.model)).initialize(given); },
  async render(given) { return (await load(given.model)).render(given); },
};
