// What a box tells who points at it or goes to it: its state and its time, how its result or its error begins, which the kernel knows, and what it is.

function tellsOfBoxes({ Now, Step }) {
  async function tell(picture, target) {
    // A tag of a value that comes from far away shows its source.
    const from = target.closest?.("g.tag")?.dataset.from, id = target.closest?.("[data-step]")?.dataset.step;
    for (const box of picture.boxes.values()) box.group.classList.toggle("source", box.id === from);
    const [i, box] = [...picture.boxes].find(([, box]) => box.id === id) ?? [];
    if (!box) return;
    const { state } = picture, row = picture.rowNow(i), isOther = box.told !== row, look = picture.lookOf(i);
    const write = () => {
      const { took, within } = row && !state.then ? state.tookOf(i) : {}, now = [[row?.[Now.words] || `${look.mark} ${look.word}`, took && took + within, row?.[Now.counted]].filter(Boolean).join(" · "), box.brief].filter(Boolean);
      for (const title of box.titles) title.textContent = [...now, "", box.name].join("\n");
      box.group.setAttribute("aria-label", [box.name, ...now].join(", "));
    };
    if (isOther) box.brief = "";
    write();
    if (state.then || !isOther || !row || row[Now.start] == null || state.isDeaf) return;
    box.told = row;
    try { box.brief = (await state.request("step", { step: state.tree[i][Step.id] })).brief; } catch { box.told = null; }
    if (box.told === state.rows[i]) write();
  }

  return { tell };
}
