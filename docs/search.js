// node search.js SITE WORDS ...: the pages that the search of a built site gives, the best first, as JSON.
const fs = require("fs");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const nothing = { lastChild: null, querySelectorAll: () => [], addEventListener: () => {} };
const page = {
  document: { ...nothing, readyState: "loading", getElementById: () => nothing },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _ready: () => {},
  queries,
};
page.window = page;
vm.createContext(page);
const scripts = ["_static/language_data.js", "_static/base-stemmer.js", "_static/english-stemmer.js"];
for (const name of [...scripts, "_static/searchtools.js", "searchindex.js"])
  if (fs.existsSync(`${site}/${name}`)) vm.runInContext(fs.readFileSync(`${site}/${name}`, "utf8"), page);
const asked = "queries.map(each => Search._performSearch(...Search._parseQuery(each)).reverse().map(result => result[0]))";
console.log(JSON.stringify(vm.runInContext(asked, page)));
