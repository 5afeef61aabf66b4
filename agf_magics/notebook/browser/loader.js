// The script of the explorer is large, so it comes packed, and a page unpacks it once for all kernels.

const PACKED = "$PACKED";

async function unpack() {
  const bytes = Uint8Array.from(atob(PACKED), char => char.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  await import(url);
  URL.revokeObjectURL(url);
  return globalThis["$NAME"];
}

const load = () => globalThis["$NAME loading"] ??= unpack();

export default {
  async initialize(given) { return (await load()).initialize(given); },
  async render(given) { return (await load()).render(given); },
};
