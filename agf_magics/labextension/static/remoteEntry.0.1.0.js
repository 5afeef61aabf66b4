/* Cells of our magics read as what they are: a command line, then YAML.
 *
 * This is the whole extension, as the browser loads it: a module federation container written by hand, so no bundler and
 * no Node stand between a reader and what runs. It takes what JupyterLab and Notebook share (the cell model, CodeMirror)
 * and brings a language of its own: the YAML mode they ship takes the magic's line for YAML. The file's name carries the
 * version, because browsers keep old ones.
 */
(() => {
  'use strict';

  const MAGIC = /^\s*%%(?:pipeline|policy|plan|graph|run_pipeline_inline(?:_async)?)(?=[\s?]|$)/;
  const MIME = 'text/x-agf-magics';

  /* ---- the language: one line of command, then YAML; a tokenizer over lines ---- */

  const WORD = /^(?:true|True|TRUE|false|False|FALSE)$/;
  const NULL = /^(?:null|Null|NULL|~)$/;
  const NUMBER = /^[-+]?(?:0x[\da-fA-F]+|0o[0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\.inf|\.nan)$/;

  /* A plain scalar ends at ": ", at " #" and, between brackets, at one of ,[]{}. */
  const PLAIN = /^(?:[^\s:#]|:(?=\S)|(?<=\S)#)+(?:\s+(?:[^\s:#]|:(?=\S)|(?<=\S)#)+)*/;
  const PLAIN_IN_FLOW =
    /^(?:[^\s:#,[\]{}]|:(?=[^\s,[\]{}])|(?<=\S)#)+(?:\s+(?:[^\s:#,[\]{}]|:(?=[^\s,[\]{}])|(?<=\S)#)+)*/;

  const start = () => ({
    command: true, // still in the line of the magic
    magic: false, // its %%name has been read
    named: false, // what it defines has been named
    flow: 0, // how many { and [ are open
    quote: '', // the quote that is open, over lines
    parent: 0, // the column a block scalar must exceed
    block: -1, // that column, while in a block scalar
  });

  const quoted = (stream, state) => {
    for (let at = stream.next(); at; at = stream.next()) {
      if (at === '\\' && state.quote === '"') stream.next();
      else if (at === state.quote && !(at === "'" && stream.eat("'"))) {
        state.quote = '';
        return;
      }
    }
  };

  const commandToken = (stream, state) => {
    if (stream.eatSpace()) return null;
    if (!state.magic) {
      state.magic = true;
      stream.match(/^%%\w*/);
      return 'keyword';
    }
    if (stream.match(/^--?[A-Za-z][\w-]*/)) return 'operator';
    if (stream.match(/^\$[\w.]+/)) return 'variableName.special';
    if (stream.match(/^(?:"[^"]*"?|'[^']*'?)/)) return 'string';
    if (stream.match(/^[^\s=]+(?==)/)) return 'propertyName';
    if (stream.eat('=')) return 'punctuation';
    stream.match(/^[^\s]+/);
    if (state.named) return null;
    state.named = true;
    return 'variableName.definition';
  };

  const key = (stream, state, column) => {
    const colon = state.flow ? /^\s*:(?=[\s,[\]{}]|$)/ : /^\s*:(?=\s|$)/;
    if (!stream.match(colon, false)) return false;
    state.parent = column;
    return true;
  };

  const yamlToken = (stream, state) => {
    if (stream.sol()) {
      if (state.block >= 0 && stream.indentation() > state.block) {
        stream.skipToEnd();
        return 'string';
      }
      state.block = -1;
      if (!state.quote && stream.match(/^(?:---|\.\.\.)(?=\s|$)/)) {
        state.flow = 0;
        return 'meta';
      }
    }
    const column = stream.column();
    if (state.quote) {
      quoted(stream, state);
      return 'string';
    }
    if (stream.eatSpace()) return null;
    if (stream.peek() === '#') {
      stream.skipToEnd();
      return 'comment';
    }
    if (!state.flow && stream.match(/^[-?](?=\s|$)/)) {
      state.parent = column;
      return 'punctuation';
    }
    if (!state.flow && stream.match(/^[|>][-+\d]*(?=\s*(?:#.*)?$)/)) {
      state.block = state.parent;
      return 'operator';
    }
    if (stream.match(/^[{[]/)) {
      state.flow += 1;
      return 'bracket';
    }
    if (state.flow && stream.match(/^[}\]]/)) {
      state.flow -= 1;
      return 'bracket';
    }
    if (stream.match(/^[:,](?=[\s,[\]{}"']|$)/)) return 'punctuation';
    if (stream.match(/^!\S*/)) return 'keyword';
    if (stream.match(/^[&*][^\s,[\]{}]+/)) return 'labelName';
    if (/["']/.test(stream.peek())) {
      state.quote = stream.next();
      quoted(stream, state);
      return !state.quote && key(stream, state, column) ? 'propertyName.definition' : 'string';
    }
    const plain = stream.match(state.flow ? PLAIN_IN_FLOW : PLAIN);
    if (!plain) {
      stream.next();
      return null;
    }
    if (key(stream, state, column)) return 'propertyName.definition';
    if (WORD.test(plain[0])) return 'bool';
    if (NULL.test(plain[0])) return 'atom';
    return NUMBER.test(plain[0]) ? 'number' : null;
  };

  const token = (stream, state) => {
    if (!state.command) return yamlToken(stream, state);
    const style = commandToken(stream, state);
    if (stream.eol() && state.magic) state.command = false;
    return style;
  };

  /* Enter: under the key that this line opens, beside the keys it has, else as deep as it is. Written lines stay put. */
  const indent = (state, textAfter, context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    if (!before.trim()) return context.lineIndent(line.from);
    if (MAGIC.test(before)) return 0;
    const [lead] = /^\s*(?:- +)*(?=[^\s#][^#]*:(?:\s|$))|^\s*/.exec(before);
    const opens = /:\s*(?:[|>][-+\d]*)?\s*(?:\s#.*)?$/.test(before) || /[{[]\s*$/.test(before);
    return lead.length + (opens ? context.unit : 0);
  };

  const support = ({ StreamLanguage, LanguageSupport, indentUnit }, { Prec }) =>
    new LanguageSupport(
      StreamLanguage.define({
        name: 'agf-magics',
        startState: start,
        token,
        indent,
        languageData: { commentTokens: { line: '#' }, closeBrackets: { brackets: ['(', '[', '{', '"', "'"] } },
      }),
      [Prec.highest(indentUnit.of('  '))],
    );

  /* ---- which cells have it: told by their text, at every change ---- */

  const follow = (notebook) => {
    const known = new WeakSet();
    const settle = (cell) => {
      const ours = /python/.test(notebook.codeMimetype) && MAGIC.test(cell.sharedModel.getSource());
      if (ours !== (cell.mimeType === MIME)) cell.mimeType = ours ? MIME : notebook.codeMimetype;
    };
    const watch = () => {
      for (const cell of notebook.model?.cells ?? []) {
        if (cell.type !== 'code' || known.has(cell)) continue;
        known.add(cell);
        cell.contentChanged.connect(settle);
        cell.mimeTypeChanged.connect(settle); // the notebook sets all cells to Python when the kernel says what it speaks
        settle(cell);
      }
    };
    const open = () => {
      watch();
      notebook.model?.cells.changed.connect(watch);
    };
    notebook.modelChanged.connect(open);
    open();
  };

  /* ---- a question that nobody can answer any more: its cell has ended, as by a time limit ---- */

  const closeQuestions = (_, { cell }) => {
    for (const box of cell.node.querySelectorAll('.jp-Stdin-input')) {
      box.disabled = true;
      box.value = '';
      box.placeholder = 'the run has ended';
    }
  };

  /* ---- on paper nothing scrolls: show all of what is bounded on the screen ---- */

  const print = () => {
    const style = document.createElement('style');
    style.textContent = `@media print {
      .jp-OutputArea-output [style*="overflow"] { max-height: none !important; overflow: visible !important; }
      .jp-OutputArea-output td, .jp-OutputArea-output th { overflow-wrap: anywhere; white-space: normal !important; }
    }`;
    document.head.append(style);
  };

  /* ---- what JupyterLab asks for: init with what it shares, then the plugin ---- */

  let scope = {};
  const newer = (a, b) => a.localeCompare(b, 'en', { numeric: true });
  const shared = async (name) => {
    const versions = scope[name] ?? {};
    const newest = Object.keys(versions).sort(newer).pop();
    if (!newest) throw new Error(`agf-magics: ${name} is not shared here; cells stay without YAML colours`);
    return (await versions[newest].get())();
  };

  const plugin = async () => {
    const names = ['@jupyterlab/notebook', '@jupyterlab/codemirror', '@codemirror/language', '@codemirror/state'];
    const [notebooks, editors, language, state] = await Promise.all(names.map(shared));
    return {
      id: 'agf-magics:cells',
      description: 'Shows the cells of the agf-magics magics as YAML.',
      autoStart: true,
      requires: [notebooks.INotebookTracker, editors.IEditorLanguageRegistry],
      activate: (app, tracker, languages) => {
        languages.addLanguage({
          name: 'agf-magics',
          mime: MIME,
          load: async () => {
            // An editor takes the language that was loaded last, not the one that was asked for last: let Python be first.
            await languages.getLanguage('text/x-ipython');
            return support(language, state);
          },
        });
        notebooks.NotebookActions.executed.connect(closeQuestions);
        print();
        tracker.forEach((panel) => follow(panel.content));
        tracker.widgetAdded.connect((_, panel) => follow(panel.content));
      },
    };
  };

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB['agf-magics'] = {
    init: (given) => {
      scope = given;
    },
    get: async (name) => {
      if (name !== './extension') throw new Error(`agf-magics: no module ${name}`);
      const module = { __esModule: true, default: await plugin() };
      return () => module;
    },
  };
})();
