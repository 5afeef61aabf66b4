// The order of what a search of the site finds. The words that a page names are entries of its index and count most; how
// the project is made comes after how it is used, and the decisions come last.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score]) => {
    if (page === "decisions") return score - 1000;
    if (page.startsWith("howto/")) return score + 2;
    return page.includes("/") || page === "index" ? score : score - 20;
  },
};
