// What a person opens in the list of calls: the elements of a fan-out, and one call in full.

function opensCalls({ named, element, table, number, valueElement, errorElement }) {
  function elements(pages, page) {
    const rows = named("ElementRow", page.rows).map(({ numbers, calls, failed, isFailed, took }) => ({ numbers, bad: isFailed, cells: [
      isFailed ? "✗ failed" : "✓ ok", `#${numbers.join("#")}`, number(calls), failed ? number(failed) : "", took] }));
    const open = row => pages.again({ byElement: false, index: row.numbers, failed: false });
    return [element("div", { class: "actions" }, pages.pages(page), pages.go("Calls", "List the calls", { byElement: false, index: [], offset: 0 })),
      table(["", "element", "calls", "failed", "took"], rows, open)];
  }

  function call({ name, at, error, given, result }) {
    const shown = [element("h3", {}, at.startsWith("#") ? `${name} ${at}` : at)];
    if (error) shown.push(errorElement(error));
    if (given) shown.push(element("h4", {}, "Input"), valueElement(given));
    if (result) shown.push(element("h4", {}, "Output"), valueElement(result));
    return shown;
  }

  return { elements, call };
}
